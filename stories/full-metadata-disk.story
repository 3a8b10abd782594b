# The disk of the metadata is full for a while, and two clients are storing meanwhile.
[ "$(id -u)" = 0 ] || skip "small disks are mounted by root only"
small_disk coordinator 4m
cluster 7
put old
head -c 8m /dev/zero >"$folder/coordinator/filler" 2>/dev/null
trap '' PIPE # a client that is refused stops reading
for name in one two; do
  head -c 200000 /dev/urandom >"$folder/$name.source"
  mkfifo "$folder/$name"
  "$SUTURE" put - --name "$name" --code 'rs(3,2)' --chunk-size 16KiB <"$folder/$name" >"$folder/$name.out" 2>&1 &
  pid[$name]=$!
done
exec 7>"$folder/one" 8>"$folder/two"
half() { head -c 100000 "$1" 2>/dev/null; }
half "$folder/one.source" >&7
half "$folder/two.source" >&8
sleep 2
rm "$folder/coordinator/filler"
rest() { tail -c +100001 "$1" 2>/dev/null; }
rest "$folder/one.source" >&7
rest "$folder/two.source" >&8
exec 7>&- 8>&-
# Ids that the metadata could not keep were once given to both.
ended() {
  wait "${pid[$1]}" && { reads "$1"; return; }
  expect "$1 is refused, since the disk is full" grep -qE 'No space left|disk is full' "$folder/$1.out"
}
ended one
ended two
unset "pid[one]" "pid[two]"
put more
stop n2
soon "a node is declared dead" dead n2
soon "its chunks are rebuilt" healthy
reads old
reads more
