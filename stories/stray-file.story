# Somebody leaves files among the chunks of a node, which is away for so long that it counts as dead.
cluster 5
put photos
echo note >"$folder/n1/chunks/README"
echo note >"$folder/n1/chunks/00/README"
expect "nothing is to be rebuilt" "$SUTURE" repair pause
stop n1
soon "it is declared dead" dead n1
agent n1
soon "it is back" up 5
soon "its chunks count again" healthy
reads photos
