# The coordinator's machine is set back to a snapshot, three starts later, while the agents run on.
cluster 7
put old
stop coordinator
cp -r "$folder/coordinator" "$folder/snapshot"
again() { coordinator && soon "7 agents are up" up 7; }
again
put newer
for _ in 1 2; do
  stop coordinator
  again
done
stop coordinator
mv "$folder/coordinator" "$folder/latest"
mv "$folder/snapshot" "$folder/coordinator"
again
reads old
before=$(chunks)
put another
sleep 2
expect "no chunk is gone" [ "$(chunks)" -gt "$before" ]
stop n6
soon "a node is declared dead" dead n6
soon "its chunks are rebuilt" healthy
reads another
agent n6
soon "it is back" up 7

stop coordinator
rm -r "$folder/coordinator"
mv "$folder/latest" "$folder/coordinator"
again
soon "healthy with the latest metadata" healthy
reads newer
reads old
