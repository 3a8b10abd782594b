# The metadata are set back to an old backup, and somebody puts on top of it.
cluster 6
put old
expect "a backup" "$SUTURE" metadata backup -o "$folder/old.db"
put newer
before=$(chunks)
expect "a newer backup" "$SUTURE" metadata backup -o "$folder/newer.db"
restore() {
  stop coordinator
  expect "restored $1" "$SUTURE" metadata restore "$folder/$1.db" --replace --config "$folder/coordinator.toml"
  coordinator
  soon "6 agents are up" up 6
}
restore old
reads old
warned() { "$SUTURE" status | grep -q "older than the chunks"; }
soon "status says that the metadata are old" warned
put another
expect "no chunk of the newer object is gone" [ "$(chunks)" -gt "$before" ]
restore newer
soon "every byte of newer comes back" same newer
reads old

# Once more, and all that these metadata know of is removed: what only agents know of stays.
restore old
all=$(chunks)
expect "the old object is removed" "$SUTURE" rm old
left() { [ "$(chunks)" "$@" ]; }
soon "its chunks go" left -lt "$all"
soon "status says that others are kept, and how they are found" warned
stop coordinator
expect "they are found" "$SUTURE" metadata rebuild --agents 6 --forget-rest --config "$folder/coordinator.toml"
coordinator
soon "6 agents are up" up 6
soon "every byte of newer comes back" same newer
expect "all is removed" "$SUTURE" rm newer another
soon "no chunk is left" left -eq 0
