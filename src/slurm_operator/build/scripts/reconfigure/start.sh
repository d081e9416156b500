# A start: the last good set before slurmctld, and afterwards whether slurmctld runs with it.
fill() {
  link_keys
  if [[ -e "$LIVE/..data" ]]; then
    number="$(readlink "$LIVE/..data")" number="${number#..v}"
    return 0
  fi
  filled=$((began / 1000))
  until keys_now >"$KEY_FILES" && copy "$GOOD/..data" "$LIVE/..v1" && swap "..v1"; do pause 0.1; done
}

# Has slurmctld started with what it was given? Where it has not, a trial tells why.
confirm() {
  local hash now
  if answers; then
    ((!missed)) || ! keys_changed || return 0
    hash_of "$LIVE/..data"
    confirmed=1 parse_ms=0 trial_ms=0 reconfigure_ms=0 at=$filled
    # It may have read the old files just before they were swapped.
    ((!missed)) || { takes_effect "" && kick; } || { refuse "$hash" "$began"; return 0; }
    missed=0
    verdict "$APPLIED" "$hash" "$began" "started with it"
    return 0
  fi
  now_ms
  ((now - began > START_LIMIT * 1000 && !explained)) || return 0
  explained=1 why="" parse_ms=0 trial_ms=0 reconfigure_ms=0
  vet "$LIVE/..v$number" on && return 0
  log "slurmctld does not start: $why"
  hash_of "$LIVE/..data"
  verdict "$REFUSED" "$hash" "$began" "$why"
}
