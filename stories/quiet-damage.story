# A bit flips in a chunk that nobody reads. A scrub finds it, a repair mends it.
cluster 6
put photos
file=$(find "$folder"/n2/chunks -type f | head -1)
printf 'X' | dd of="$file" bs=1 seek=5000 conv=notrunc status=none
expect "nobody knows" healthy
scrub() { "$SUTURE" scrub --wait | tee "$folder/scrub" | grep -q "$1"; }
expect "a scrub finds it" scrub "1 bad chunk found"
soon "healthy again" healthy
expect "another scrub finds nothing" scrub "all are good"
reads photos
