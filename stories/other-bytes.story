# A whole chunk of another cluster lies under the name of a chunk. It is not taken for it.
begin() {
  cluster 5
  put film 40000
}
begin
cp "$(find "$folder/n2/chunks" -type f)" "$folder/other"
for name in coordinator n0 n1 n2 n3 n4; do stop "$name" && rm -r "${folder:?}/$name"; done
begin
cp "$folder/other" "$(find "$folder/n2/chunks" -type f)"
reads film
bytes() { "$SUTURE" get film -o - 2>/dev/null | cmp - "$folder/film.source"; }
expect "and as a stream" bytes
gone() { for file in "$folder"/n*/chunks/*/*; do cmp -s "$file" "$folder/other" && return 1; done; true; }
soon "it is found and replaced" gone
soon "healthy again" healthy
stop n3
soon "n3 is declared dead" dead n3
reads film
