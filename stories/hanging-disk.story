# The disk of one of six nodes takes a write and never comes back, while its agent lives on.
[ "$(id -u)" = 0 ] || skip "disks are frozen by root only"
coordinator
freezing_disk n1
for i in $(seq 0 5); do
  write_agent "n$i"
  sed -i 's/^heartbeat/disk_hangs = "2s"\nheartbeat/' "$folder/n$i.toml"
  start "n$i" "$SUTURE" agent --config "$folder/n$i.toml"
done
soon "6 agents are up" up 6
put photos
put more
fsfreeze -f "$folder/n1" || skip "no file system can be frozen"
# Its copies are to be removed, which does not come back.
expect "an object is removed" "$SUTURE" rm more
node() { "$SUTURE" node list | grep -w n1 | grep -q "$1"; }
soon "its disk is said to hang" node "disk hanging"
soon "the node is declared dead" node failed
soon "all of it is rebuilt elsewhere" healthy
reads photos
fsfreeze -u "$folder/n1"
soon "the disk answers, and the node is up" node "up "
soon "healthy" healthy
reads photos
