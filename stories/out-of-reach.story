# Clients cannot connect to two of seven agents, which the coordinator knows to be up.
coordinator
for i in $(seq 0 6); do write_agent "n$i"; done
# Nobody listens on port 1.
for i in 3 4; do sed -i "2i advertise = '127.0.0.$i:1'" "$folder/n$i.toml"; done
for i in $(seq 0 6); do start "n$i" "$SUTURE" agent --config "$folder/n$i.toml"; done
soon "7 agents are up" up 7
expect "repair pauses" "$SUTURE" repair pause
put photos 500000
expect "its chunks are with the others, all of them" healthy
reads photos
