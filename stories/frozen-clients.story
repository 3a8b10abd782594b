# Forty clients are frozen in the middle of what they write.
# alone: forty clients fill the processor
cluster 5
put photos
head -c 96000000 /dev/urandom >"$folder/film"
for i in $(seq 40); do
  "$SUTURE" put "$folder/film" --name "film$i" --code 'rs(3,2)' --chunk-size 16MiB >/dev/null 2>&1 &
  pid[film$i]=$!
done
sleep 0.8
for i in $(seq 40); do kill -STOP "${pid[film$i]}" || fail "client $i is still at it"; done
expect "others read meanwhile" timeout 15 "$SUTURE" get photos -o "$folder/back"
put more
reads more
