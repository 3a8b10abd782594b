# Agents may have few files and sockets open, and a node with hundreds of chunks dies.
# alone: hundreds of repairs are to be over within half a minute
ulimit -n 64
policy=chain/greedy/all # all repairs at once
cluster 9
put photos 24000000
stop n3
soon "it is declared dead" dead n3
soon "all of it is rebuilt" healthy
reads photos
