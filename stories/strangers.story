# A stranger opens hundreds of connections to an agent and says nothing.
cluster 5
put photos
port=$(sed -n 's/listening on .*://p' "$folder/n0.out")
ulimit -n 1024
for _ in $(seq 600); do exec {fd}<>"/dev/tcp/127.0.0.1/$port" || break; done
reads photos
put more
reads more
