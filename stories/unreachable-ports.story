# The coordinator's disk is lost, and from the new machine nobody reaches the agents' ports.
cluster 6
put photos 300000
before=$(chunks)
# again [PORT]: all agents start anew, and announce that port, each at an address of its own.
again() {
  for i in 0 1 2 3 4 5; do
    stop "n$i"
    sed -i '/^advertise/d' "$folder/n$i.toml"
    [ $# = 0 ] || sed -i "1i advertise = '127.0.0.$((i + 2)):$1'" "$folder/n$i.toml"
    start "n$i" "$SUTURE" agent --config "$folder/n$i.toml"
  done
}
stop coordinator
rm -r "$folder/coordinator"
again 9
rebuild=("$SUTURE" metadata rebuild --config "$folder/coordinator.toml" --agents 6 --forget-rest)
refuse "chunks that could not be asked are not given up" "nothing was changed" "${rebuild[@]}"
expect "all of them are there" [ "$(chunks)" = "$before" ]
again
expect "the map is made again" "${rebuild[@]}"
coordinator
soon "healthy" healthy
expect "no chunk is gone" [ "$(chunks)" = "$before" ]
reads photos
