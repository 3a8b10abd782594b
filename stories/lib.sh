# What every story needs: a small cluster in a folder of its own, and words to ask of it.
# Sourced by `run`, which sets SUTURE to the program. Everything started here ends with the story.

folder=$(mktemp -d)
declare -A pid=()
disks=()
machines=()
net=
own= # a folder of everybody's credentials, if the cluster has certificates
policy= # how the coordinator plans, if not by the default
export SUTURE_COORDINATOR=

# Ends all daemons, frozen ones too, and removes the folder.
sweep() {
  # A frozen disk keeps whoever waits for it from ending.
  for disk in "${disks[@]}"; do fsfreeze -u "$disk" 2>/dev/null; done
  kill -CONT "${pid[@]}" 2>/dev/null
  kill "${pid[@]}" 2>/dev/null
  wait 2>/dev/null
  for disk in "${disks[@]}"; do umount "$disk"; done
  for machine in "${machines[@]}"; do ip netns del "$machine"; done
  [ -z "$net" ] || ip link del "$net"
  rm -rf "$folder"
}
trap sweep EXIT

fail() {
  echo "  NOT SO: $*"
  exit 1
}

# skip WHY: the story cannot be had here.
skip() {
  echo "  SKIPPED: $*"
  exit 0
}

# expect WHAT COMMAND..: the command succeeds.
expect() {
  local what=$1
  shift
  "$@" >"$folder/said" 2>&1 || { cat "$folder/said"; fail "$what"; }
  echo "  $what"
}

# refuse WHAT TEXT COMMAND..: the command fails, and says TEXT.
refuse() {
  local what=$1 text=$2
  shift 2
  "$@" >"$folder/said" 2>&1 && fail "$what (it succeeded)"
  grep -qF -- "$text" "$folder/said" || { cat "$folder/said"; fail "$what (no '$text')"; }
  echo "  $what"
}

# soon WHAT COMMAND..: the command succeeds within half a minute.
soon() {
  local what=$1
  shift
  for _ in $(seq 150); do
    "$@" >"$folder/said" 2>&1 && { echo "  $what"; return; }
    sleep 0.2
  done
  cat "$folder/said"
  fail "$what (not within 30 s)"
}

# start NAME COMMAND..: a daemon; gives when it listens.
start() {
  local name=$1
  shift
  : >"$folder/$name.out" # what one before it said is gone before the first look
  "$@" >>"$folder/$name.out" 2>>"$folder/$name.log" &
  pid[$name]=$!
  for _ in $(seq 100); do
    grep -q "listening on" "$folder/$name.out" && return
    kill -0 "${pid[$name]}" 2>/dev/null || { cat "$folder/$name.log"; fail "$name ended"; }
    sleep 0.1
  done
  fail "$name does not listen"
}

# network N: machines m1 to mN on a network of their own, at 10.77.0.1 and on; this one is 10.77.0.254.
network() {
  [ "$(id -u)" = 0 ] || skip "machines of their own need root"
  net=su$$
  ip link add "$net" type bridge 2>"$folder/said" || skip "no bridge: $(cat "$folder/said")"
  ip addr add 10.77.0.254/24 dev "$net" && ip link set "$net" up
  for i in $(seq "$1"); do
    ip netns add "$net-$i" && ip link add "$net-$i" type veth peer name eth0 netns "$net-$i" &&
      ip link set "$net-$i" master "$net" up &&
      ip -n "$net-$i" addr add "10.77.0.$i/24" dev eth0 &&
      ip -n "$net-$i" link set eth0 up && ip -n "$net-$i" link set lo up || fail "no machine $i"
    machines+=("$net-$i")
  done
}

# on I COMMAND..: on that machine.
on() {
  local machine=$net-$1
  shift
  exec ip netns exec "$machine" "$@"
}

stop() {
  kill "${pid[$1]}" && wait "${pid[$1]}" 2>/dev/null
  unset "pid[$1]"
}

# coordinator [DATA_DIR]: at the address that agents know, once there is one.
coordinator() {
  cat >"$folder/coordinator.toml" <<TOML
listen = "${SUTURE_COORDINATOR:-127.0.0.1:0}"
data_dir = "$folder/${1:-coordinator}"
${own:+credentials = \"$own/coordinator\"}
${policy:+[repair]
policy = \"$policy\"}
[timers]
suspect = "1s"
dead = "2s"
start_grace = "5s"
retry_first = "200ms"
retry_max = "1s"
TOML
  start coordinator "$SUTURE" coordinator --config "$folder/coordinator.toml"
  SUTURE_COORDINATOR=$(sed -n 's/listening on //p' "$folder/coordinator.out")
  sed -i "s/^listen = .*/listen = \"$SUTURE_COORDINATOR\"/" "$folder/coordinator.toml"
}

# sign N: credentials for a coordinator, agents n0 and on, and an admin, in $own.
sign() {
  "$SUTURE" cert node coordinator --coordinator --out "$own/coordinator" || return
  for i in $(seq 0 $(($1 - 1))); do "$SUTURE" cert node "n$i" --out "$own/n$i" || return; done
  "$SUTURE" cert user root --role admin --out "$own/root"
}

# write_agent NAME [DATA_DIR]: its configuration.
write_agent() {
  cat >"$folder/$1.toml" <<TOML
name = "$1"
coordinator = "$SUTURE_COORDINATOR"
listen = "127.0.0.1:0"
data_dir = "$folder/${2:-$1}"
memory = "32MiB"
${own:+credentials = \"$own/$1\"}
[timers]
heartbeat = "200ms"
TOML
}

agent() {
  write_agent "$@"
  start "$1" "$SUTURE" agent --config "$folder/$1.toml"
}

# small_disk NAME SIZE: an agent's data_dir is a file system of its own, of so many bytes.
small_disk() {
  mkdir "$folder/$1"
  mount -t tmpfs -o "size=$2" suture "$folder/$1" || fail "no disk for $1"
  disks+=("$folder/$1")
}

# freezing_disk NAME: likewise, of one that `fsfreeze -f` has take nothing until `fsfreeze -u`.
freezing_disk() {
  mkdir "$folder/$1" && truncate -s 64M "$folder/$1.img" && mkfs.ext4 -q "$folder/$1.img" &&
    mount -o loop "$folder/$1.img" "$folder/$1" || skip "no file system of its own for $1"
  disks+=("$folder/$1")
  rm -rf "$folder/$1/lost+found"
}

# cluster N: a coordinator and n agents, all of them up.
cluster() {
  coordinator
  for i in $(seq 0 $(($1 - 1))); do agent "n$i"; done
  soon "$1 agents are up" up "$1"
}

up() { [ "$("$SUTURE" node list | grep -cw up)" = "$1" ]; }
dead() { "$SUTURE" node list | grep -w "$1" | grep -q failed; }
healthy() { "$SUTURE" status | head -1 | grep -q healthy; }
chunks() { find "$folder"/n*/chunks -type f | wc -l; }

# took NAME: how long a get of it takes, in milliseconds, the mean of five.
took() {
  local began=$EPOCHREALTIME
  for _ in 1 2 3 4 5; do same "$1" >/dev/null 2>&1 || fail "every byte of $1 comes back"; done
  local ended=$EPOCHREALTIME
  echo "$(((${ended/./} - ${began/./}) / 5000))"
}

# crowd HOST:PORT..: at each of them a thousand strangers, who say a byte each second.
crowd() {
  ulimit -n 4096 || skip "this shell may not have as many files open"
  for at in "$@"; do
    (
      trap '' PIPE
      fds=()
      for _ in $(seq 1000); do { exec {fd}<>"/dev/tcp/${at%:*}/${at##*:}"; } 2>/dev/null && fds+=("$fd"); done
      echo "${#fds[@]}" >"$folder/crowd.$at"
      while :; do
        for fd in "${fds[@]}"; do printf x 2>/dev/null >&"$fd"; done
        sleep 1
      done
    ) &
    pid[crowd.$at]=$!
    soon "a thousand strangers are at $at" test -s "$folder/crowd.$at"
  done
}

# put NAME [SIZE]: an object of noise; its bytes stay beside it, to be compared.
put() {
  head -c "${2:-200000}" /dev/urandom >"$folder/$1.source"
  expect "put $1" "$SUTURE" put "$folder/$1.source" --name "$1" --code 'rs(3,2)' --chunk-size 16KiB
}

same() {
  "$SUTURE" get "$1" -o "$folder/back" && cmp "$folder/back" "$folder/$1.source"
}
reads() { expect "every byte of $1 comes back" same "$1"; }
