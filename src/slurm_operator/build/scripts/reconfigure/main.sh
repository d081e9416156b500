# The loop.
main() {
  local last="" turn=0 now
  trap 'exit 0' TERM INT
  now_ms; began=$now filled=0 held=0 confirmed=0 explained=0 missed=0
  fill
  log "Start '$LIVE' polling"
  while true; do
    if [[ -e "$CANDIDATE/..data" && (-z "$last" || ! "$CANDIDATE/..data" -ef "$last") ]]; then
      last="$CANDIDATE/$(readlink "$CANDIDATE/..data")"
      consider "$last"
    fi
    ((confirmed || turn++ % 10)) || confirm
    # A key that is put back lets what was held go on.
    if ((held && turn++ % 10 == 0)) && ! keys_changed; then held=0 last=""; fi
    pause "$INTERVAL"
  done
}
main
