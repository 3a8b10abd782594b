# While a host reboots, an empty one comes with its configuration.
cluster 6
put photos
stop n3
write_agent n3 elsewhere
refuse "the empty one is refused" "--new" timeout 20 "$SUTURE" agent --config "$folder/n3.toml"
agent n3
soon "the owner is back" up 6
soon "healthy" healthy
reads photos
