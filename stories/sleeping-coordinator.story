# The coordinator is frozen for longer than silence means death.
cluster 5
put photos
kill -STOP "${pid[coordinator]}"
sleep 4
kill -CONT "${pid[coordinator]}"
none_failed() { up 5 && ! grep -q "node failed" "$folder/coordinator.log"; }
for _ in 1 2 3 4 5; do expect "nobody is declared dead" none_failed; sleep 0.5; done
reads photos
