# The metadata are set back to a time before the agents joined, and these join again in another order.
coordinator
stop coordinator
cp -r "$folder/coordinator" "$folder/snapshot"
coordinator
for i in 0 1 2 3 4 5; do agent "n$i"; sleep 0.3; done
soon "6 agents are up" up 6
stop coordinator
rm -r "$folder/coordinator"
mv "$folder/snapshot" "$folder/coordinator"
for i in 0 1 2 3 4; do kill -STOP "${pid[n$i]}"; done
coordinator
soon "the last is the first" up 1
for i in 4 3 2 1 0; do kill -CONT "${pid[n$i]}"; sleep 1; done
soon "6 agents are up" up 6
put photos
reads photos
stop n3
soon "it is declared dead" dead n3
soon "its chunks are rebuilt" healthy
reads photos
