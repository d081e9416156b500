# A candidate on its way: copied, compared, tried, overtaken or held, and let in.
cannot_copy() { # folder started-at error
  local hash
  rm -rf "$LIVE/..new"
  # A folder that goes away under the copy has a successor.
  [[ "$CANDIDATE/..data" -ef "$1" ]] || return 0
  hash_of "$1"
  why="the candidate cannot be copied: $3"
  refuse "$hash" "$2"
}

consider() { # folder
  local hash now start check asked jobs="" value said
  why="" parse_ms=0 trial_ms=0 reconfigure_ms=0 at=0 late=0 retry_ms=0
  now_ms; start=$now
  if ! said="$(copy "$1" "$LIVE/..new" 2>&1)"; then
    cannot_copy "$1" "$start" "${said##*$'\n'}"
    return 0
  fi
  [[ -n "$force_hash" ]] || { hash_of "$LIVE/..data"; force_hash="$hash"; }
  hash_of "$LIVE/..new"
  noted "$LIVE/..new" check; check="$value"
  if [[ "$hash" == "$force_hash" ]]; then
    [[ ! -e "$LIVE/..new/$NOTE" ]] || cp -- "$LIVE/..new/$NOTE" "$LIVE/..data/$NOTE"
    ((confirmed)) && verdict "$APPLIED" "$hash" "$start" "in force already"
    return 0
  fi
  # Slurm is asked what it takes to go on while the trial runs.
  answers &
  asked=$!
  if is_early && ! needs_no_reading; then
    jobs_wait &
    jobs=$!
  fi
  if ! vet "$LIVE/..new" "$check"; then
    refuse "$hash" "$start"
    return 0
  fi
  needs_no_reading || breathe "$jobs"
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
