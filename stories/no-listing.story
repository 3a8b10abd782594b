# The folder of an agent's chunks is gone while it runs: nobody can list what is there.
coordinator
for i in $(seq 0 5); do
  write_agent "n$i"
  sed -i 's/^heartbeat/inventory = "1s"\nheartbeat/' "$folder/n$i.toml"
  start "n$i" "$SUTURE" agent --config "$folder/n$i.toml"
done
soon "6 agents are up" up 6
put photos
"$SUTURE" repair pause >/dev/null
mv "$folder/n1/chunks" "$folder/n1/away"
sick() { "$SUTURE" status | head -1 | grep -q "lost"; }
soon "its chunks are lost" sick
mv "$folder/n1/away" "$folder/n1/chunks"
soon "the folder is back, and nothing is lost" healthy
mv "$folder/n1/chunks" "$folder/n1/away"
soon "it is gone again" sick
"$SUTURE" repair resume >/dev/null
soon "its chunks are rebuilt elsewhere" healthy
reads photos
