# A coordinator of another cluster listens at the address for a while.
cluster 5
put photos
stop coordinator
coordinator another
sleep 2
for i in 0 1 2 3 4; do expect "agent n$i lives on" kill -0 "${pid[n$i]}"; done
stop coordinator
coordinator
soon "all follow the right one again" up 5
reads photos
