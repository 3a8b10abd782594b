# The coordinator's folder is deleted. The agents know enough to make the map again.
cluster 6
put photos 300000
put notes 1000
stop coordinator
rm -r "$folder/coordinator"
expect "the map is made again" "$SUTURE" metadata rebuild --config "$folder/coordinator.toml" --agents 6
coordinator
soon "healthy" healthy
reads photos
reads notes
