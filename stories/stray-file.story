# Somebody leaves files among the chunks.
cluster 5
put photos
echo note >"$folder/n1/chunks/README"
echo note >"$folder/n1/chunks/00/README"
stop n1
soon "it is missed" up 4
agent n1
soon "it is back" up 5
soon "its chunks count again" healthy
reads photos
