# Two of nine nodes have small disks, which fill up while others have room; then a node dies.
# alone: hundreds of repairs are to be over within half a minute
[ "$(id -u)" = 0 ] || skip "small disks are mounted by root only"
coordinator
for i in 0 1; do small_disk "n$i" 8m; done
for i in $(seq 0 8); do agent "n$i"; done
soon "9 agents are up" up 9
expect "repair pauses" "$SUTURE" repair pause
for i in $(seq 7); do put "photos$i" 10000000 && expect "all of it is stored" healthy; done
expect "repair goes on" "$SUTURE" repair resume
stop n5
soon "it is declared dead" dead n5
soon "all of it is rebuilt" healthy
reads photos1
reads photos7
