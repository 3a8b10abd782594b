# Three of five hosts boot without their data disks for some seconds.
cluster 5
put photos
for i in 0 1 2; do stop "n$i"; mv "$folder/n$i/chunks" "$folder/away$i"; done
for i in 0 1 2; do agent "n$i"; done
soon "it is said to be unreadable" bash -c '"$SUTURE" status; [ $? = 3 ]'
for i in 0 1 2; do stop "n$i"; rm -r "$folder/n$i/chunks"; mv "$folder/away$i" "$folder/n$i/chunks"; done
for i in 0 1 2; do agent "n$i"; done
soon "healthy, without a restart of the coordinator" healthy
reads photos
