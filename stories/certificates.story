# Machines on one network, each with a certificate of its own: whoever has none gets nothing, the
# authority changes under load, and a machine whose key was stolen is shut out.
network 7
export SUTURE_AUTHORITY=$folder/authority
own=$folder/own
mkdir "$own"

everybody() {
  sign 6 &&
    "$SUTURE" cert user team --role client --out "$own/team" &&
    "$SUTURE" cert user guest --role viewer --out "$own/guest"
}
expect "an authority is made" "$SUTURE" cert init
expect "it signs for everybody" everybody

# The same for all of them, so that one folder serves where each machine would have its own.
SUTURE_COORDINATOR=10.77.0.7:7411
cat >"$folder/coordinator.toml" <<TOML
listen = "$SUTURE_COORDINATOR"
data_dir = "$folder/coordinator"
credentials = "$own/coordinator"
[timers]
suspect = "2s"
dead = "4s"
start_grace = "5s"
retry_first = "200ms"
retry_max = "1s"
TOML
start coordinator on 7 "$SUTURE" coordinator --config "$folder/coordinator.toml"
secured() {
  write_agent "n$1"
  sed -i "s|^listen = .*|listen = \"10.77.0.$(($1 + 1)):7412\"|" "$folder/n$1.toml"
}
for i in $(seq 0 5); do
  secured "$i"
  start "n$i" on $((i + 1)) "$SUTURE" agent --config "$folder/n$i.toml"
done
export SUTURE_CREDENTIALS=$own/root
soon "6 agents are up" up 6
put photos

# What a stranger could do to a cluster without certificates.
expect "somebody else's authority" "$SUTURE" cert init --authority "$folder/other"
"$SUTURE" cert user root --role admin --authority "$folder/other" --out "$own/eve" >/dev/null
stranger() { env -u SUTURE_CREDENTIALS "$SUTURE" "$@"; }
refuse "a stranger removes nothing" "credentials" stranger rm photos
refuse "a stranger fails no node" "credentials" stranger node fail n0
refuse "a stranger does not even look" "credentials" stranger status
refuse "nobody signs for himself" "authority" "$SUTURE" rm photos --credentials "$own/eve"
refuse "who may look removes nothing" "may not" "$SUTURE" rm photos --credentials "$own/guest"
refuse "a client has its own names only" "team" "$SUTURE" get photos -o "$folder/x" --credentials "$own/team"
as_team() { SUTURE_CREDENTIALS=$own/team "$@"; }
mkdir "$folder/team"
as_team put team/notes
as_team reads team/notes
sed "s|$own/n0|$own/n1|; s|10.77.0.1:7412|10.77.0.7:7413|; s|^data_dir.*|data_dir = \"$folder/thief\"|" "$folder/n0.toml" >"$folder/thief.toml"
refuse "nobody joins under a name that is not his" "n1" timeout 20 ip netns exec "$net-7" "$SUTURE" agent --config "$folder/thief.toml"
reads photos

alone=$(took photos)
crowd 10.77.0.1:7412 "$SUTURE_COORDINATOR"
echo "  a get takes $alone ms alone and $(took photos) ms beside them"
for at in 10.77.0.1:7412 "$SUTURE_COORDINATOR"; do stop "crowd.$at"; done

# The authority changes while objects come and go.
load() {
  local i=0
  while [ ! -e "$folder/enough" ]; do
    i=$((i + 1))
    { "$SUTURE" put "$folder/photos.source" --name "load-$i" --code 'rs(3,2)' --chunk-size 16KiB &&
      "$SUTURE" get "load-$i" -o "$folder/loaded" && cmp "$folder/loaded" "$folder/photos.source"; } \
      >"$folder/load.said" 2>&1 || { cp "$folder/load.said" "$folder/load.failed"; return 1; }
    echo "$i" >"$folder/load.count"
  done
}
load &
loading=$!
all() { echo "$own"/{coordinator,n0,n1,n2,n3,n4,n5,root,team,guest}; }
expect "a new authority is trusted beside the old one" "$SUTURE" cert rotate $(all)
refuse "it is not finished before everybody has new credentials" "10 certificates" "$SUTURE" cert rotate --finish
sleep 3
expect "everybody gets new credentials" everybody
sleep 5
expect "the old one is trusted no more" "$SUTURE" cert rotate --finish $(all)
sleep 5
touch "$folder/enough"
wait "$loading" || { cat "$folder/load.failed"; fail "every put and get went on meanwhile"; }
echo "  all of $(cat "$folder/load.count") puts and gets went on meanwhile"
soon "all agents are up" up 6

# A machine is stolen.
expect "its certificate is revoked" "$SUTURE" cert revoke 'agent n4' $(all)
gone() { "$SUTURE" node list | grep -w n4 | grep -qw failed; }
soon "it is shut out" gone
soon "what it had is rebuilt elsewhere" healthy
grep -q revoked "$folder/n4.log" "$folder/coordinator.log" || fail "the log says why"
stop n0
reads photos
as_team reads team/notes
