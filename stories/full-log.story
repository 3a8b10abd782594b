# The logs of all daemons go to a disk that is full.
start() {
  local name=$1
  shift
  "$@" >"$folder/$name.out" 2>/dev/full &
  pid[$name]=$!
  for _ in $(seq 100); do
    grep -q "listening on" "$folder/$name.out" && return
    sleep 0.1
  done
  fail "$name does not listen"
}
cluster 5
put photos
stop n4
soon "n4 is missed" up 4
agent n4
soon "5 agents are up" up 5
reads photos
