# A client reports that a chunk is bad which no stripe has.
curl --version 2>/dev/null | grep -q HTTP2 || skip "no curl that speaks HTTP/2"
cluster 5
put photos
# A message of gRPC: not compressed, four bytes, a BadCopy with a Copy of chunk 99 of stripe 0.
printf '\0\0\0\0\4\x12\2\x10\x63' >"$folder/report"
expect "it is answered" curl -s --http2-prior-knowledge --max-time 5 -o "$folder/answer" \
  -H 'content-type: application/grpc' -H 'te: trailers' --data-binary "@$folder/report" \
  "http://$SUTURE_COORDINATOR/suture.v1.Coordinator/ReportBad"
expect "the coordinator knows the cluster" healthy
reads photos
