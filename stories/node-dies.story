# An agent is killed, its chunks are rebuilt elsewhere, and it comes back.
cluster 7
put photos 500000
{ kill -9 "${pid[n2]}"; wait "${pid[n2]}"; } 2>/dev/null
soon "it is declared dead" dead n2
soon "healthy without it" healthy
reads photos
agent n2
soon "7 agents are up" up 7
reads photos
