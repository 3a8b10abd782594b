# A thousand strangers at an agent and a thousand at the coordinator say a byte now and then.
cluster 5
put photos 4000000
took photos >/dev/null
alone=$(took photos)
crowd "127.0.0.1:$(sed -n 's/listening on .*://p' "$folder/n0.out")" "$SUTURE_COORDINATOR"
echo "  a get takes $alone ms alone and $(took photos) ms beside them"
peak() { awk '/VmHWM/ {print int($2 / 1024)}' "/proc/${pid[$1]}/status"; }
echo "  at most $(peak n0) MiB in the agent, $(peak coordinator) MiB in the coordinator"
put more
reads more
