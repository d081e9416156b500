# The loop.

# What waits for a time of its own: slurmctld's start, a key that is put back, a candidate that ran out of time.
waits() {
  local now
  now_ms
  ((now >= look_ms)) || return 0
  ((confirmed)) || confirm
  if ((held)) && ! keys_changed; then held=0 last=""; fi
  if ((retry_ms && now >= retry_ms)) && answers; then
    retry_ms=0
    # One that is in place already has only to be read.
    if ((missed)); then confirmed=0; else last=""; fi
  fi
  look_wait_ms=$((look_wait_ms < 500 ? look_wait_ms * 2 : 1000))
  now_ms; look_ms=$((now + look_wait_ms))
}

main() {
  local last="" now look_ms=0 look_wait_ms=50 is_new
  trap 'unwatch; exit 0' TERM INT
  now_ms; began=$now filled=0 held=0 confirmed=0 explained=0 missed=0
  fill
  log "Start '$LIVE' polling"
  while true; do
    is_new=0
    if [[ -e "$CANDIDATE/..data" && (-z "$last" || ! "$CANDIDATE/..data" -ef "$last") ]]; then
      last="$CANDIDATE/$(readlink "$CANDIDATE/..data")"
      consider "$last"
      watch "$last"
      rm -rf "$TRIAL"
      is_new=1 look_wait_ms=50
    fi
    ((confirmed && !held && !retry_ms)) || waits
    # What came meanwhile waits no longer.
    ((is_new)) || wait_for_news "$INTERVAL"
  done
}
main
