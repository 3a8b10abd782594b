# An operator keeps a backup beside the metadata, under the name that anybody would choose.
cluster 6
put photos 300000
kept=$folder/coordinator/metadata.backup-2026-07-01.db
expect "a backup" "$SUTURE" metadata backup -o "$kept"
stop coordinator
coordinator
expect "it is there after a start" [ -f "$kept" ]
stop coordinator
echo noise >"$folder/coordinator/metadata.db"
expect "it is restored" "$SUTURE" metadata restore "$kept" --replace --config "$folder/coordinator.toml"
expect "and still there" [ -f "$kept" ]
coordinator
soon "healthy" healthy
reads photos
