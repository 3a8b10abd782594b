# Agents may have few files and sockets open, and a node with hundreds of chunks dies.
ulimit -n 64
policy=chain/greedy/all # all repairs at once
cluster 9
put photos 24000000
stop n3
soon "it is declared dead" bash -c '"$SUTURE" node list | grep -w n3 | grep -q failed'
soon "all of it is rebuilt" healthy
reads photos
