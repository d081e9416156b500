# A candidate on its way: copied, compared, tried, overtaken or held, and let in.
consider() { # folder
  local hash now start check asked value
  why="" parse_ms=0 trial_ms=0 reconfigure_ms=0 at=0
  now_ms; start=$now
  # A folder that goes away under the copy has a successor.
  copy "$1" "$LIVE/..new" 2>/dev/null || return 0
  [[ -n "$force_hash" ]] || { hash_of "$LIVE/..data"; force_hash="$hash"; }
  hash_of "$LIVE/..new"
  noted "$LIVE/..new" check; check="$value"
  if [[ "$hash" == "$force_hash" ]]; then
    [[ ! -e "$LIVE/..new/$NOTE" ]] || cp -- "$LIVE/..new/$NOTE" "$LIVE/..data/$NOTE"
    ((confirmed)) && verdict "$APPLIED" "$hash" "$start" "in force already"
    return 0
  fi
  answers &
  asked=$!
  if ! vet "$LIVE/..new" "$check"; then
    log "REFUSED: $why"
    verdict "$REFUSED" "$hash" "$start" "$why"
    return 0
  fi
  needs_no_reading || breathe
  # A newer one makes this one pointless, unless newer ones never end.
  if [[ ! "$CANDIDATE/..data" -ef "$1" ]] && ((overtaken < 5)); then
    overtaken=$((overtaken + 1))
    return 0
  fi
  overtaken=0
  if keys_changed; then
    log "The auth/slurm key is changing: nothing is reconfigured before this pod is made anew"
    held=1
    return 0
  fi
  let_in "$hash" "$start" "$check"
}
