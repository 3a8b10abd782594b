# A thousand strangers at each agent never end their handshakes, and one makes new ones without end.
# alone: strangers fill the processor
export SUTURE_AUTHORITY=$folder/authority SUTURE_CREDENTIALS=$folder/own/root
command -v openssl >/dev/null || skip "no openssl"
own=$folder/own
mkdir "$own"
expect "an authority is made" "$SUTURE" cert init
expect "it signs for everybody" sign 6
cluster 6
put photos 8000000

# rebuilt NODE: how long its chunks are in being rebuilt, in milliseconds; it comes back empty.
rebuilt() {
  local began=$EPOCHREALTIME ended
  "$SUTURE" node fail "$1" --force >"$folder/said" 2>&1 || { cat "$folder/said"; fail "$1 is failed"; }
  soon "what $1 had is rebuilt" healthy >/dev/null
  ended=$EPOCHREALTIME
  "$SUTURE" node return "$1" >"$folder/said" 2>&1 || { cat "$folder/said"; fail "$1 returns"; }
  soon "$1 is back" up 6 >/dev/null
  echo "$(((${ended/./} - ${began/./}) / 1000))"
}
alone=$(rebuilt n0)
ports=()
for i in $(seq 0 5); do ports+=("127.0.0.1:$(sed -n 's/listening on .*://p' "$folder/n$i.out")"); done
crowd "${ports[@]}"
for at in "${ports[@]}"; do
  while :; do openssl s_client -connect "$at" -tls1_3 </dev/null >/dev/null 2>&1; done &
  pid[flood.$at]=$!
done
for node in n1 n2 n3; do echo "  a repair of a node takes $alone ms alone and $(rebuilt $node) ms among them"; done
reads photos
