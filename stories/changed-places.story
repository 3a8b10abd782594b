# Nodes are restarted in turn, so that chunks change places, and the metadata are set back to before.
# Each was away for longer than `dead`; where the metadata say a chunk is, another one of its stripe may be.
cluster 6
put photos
expect "a backup" "$SUTURE" metadata backup -o "$folder/before.db"
failed() { "$SUTURE" node list | grep -w "$1" | grep -q failed; }
for i in 0 1 2 3 4 5; do
  stop "n$i"
  soon "n$i counts as failed" failed "n$i"
  soon "what it had is rebuilt elsewhere" healthy
  agent "n$i"
  soon "it is back" up 6
  soon "nothing is lost" healthy
done
stop coordinator
expect "the metadata are set back" "$SUTURE" metadata restore "$folder/before.db" --replace --config "$folder/coordinator.toml"
coordinator
soon "6 agents are up" up 6
soon "every chunk is found where it is" healthy
reads photos
