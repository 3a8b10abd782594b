# Daemons that were started with nohup outlive their terminal.
start() {
  local name=$1
  shift 2
  nohup "$SUTURE" "$@" >"$folder/$name.out" 2>>"$folder/$name.log" </dev/null &
  pid[$name]=$!
  for _ in $(seq 100); do
    grep -q "listening on" "$folder/$name.out" && return
    sleep 0.1
  done
  fail "$name does not listen"
}
cluster 5
put photos
kill -HUP "${pid[@]}"
sleep 1
expect "all are up" up 5
reads photos
