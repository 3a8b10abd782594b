# A cluster of the release before is upgraded, one daemon after the other.
former=$(realpath "${SUTURE_PREVIOUS:-../target/previous/debug/suture}")
[ -x "$former" ] || skip "no program of the release before: .ci/previous builds it, or name it with SUTURE_PREVIOUS"
now=$SUTURE
by() { SUTURE=$1 "${@:2}"; }

by "$former" coordinator
for i in 0 1 2 3 4; do by "$former" agent "n$i"; done
agent n5
soon "5 former agents and a new one are up at the former coordinator" up 6
by "$former" put old
reads old

stop coordinator
coordinator
soon "they are up at the new coordinator" up 6
reads old
put new
expect "the former program reads what the new one stored" by "$former" same new
by "$former" put late
reads late

stop n0
soon "former and new agents rebuild what is lost" healthy
for name in old new late; do reads "$name"; done
agent n0
for i in 1 2 3 4; do
  stop "n$i"
  agent "n$i"
  soon "n$i is upgraded" up 6
done
soon "healthy" healthy
for name in old new late; do reads "$name"; done

stop n3
by "$former" agent n3
soon "one returns to the former program" up 6
put last
for name in old new late last; do by "$former" reads "$name"; done
expect "nothing is left to do" healthy
