# A set of files that passed: it goes in, and slurmctld lives with it or the one before comes back.
# Whether slurmctld need not read it: it differs in what was changed live, or not at all.
needs_no_reading() {
  local value before
  noted "$LIVE/..v$number" reconfigure; before="$value"
  noted "$LIVE/..new" reconfigure
  [[ -n "$value" && "$before" == "$value" ]]
}

# slurmctld has the new files; does it live with them?
takes_effect() { # nodes before
  local ran_out
  if ! reconfigure; then
    ran_out="$late"
    # One that was just starting has read the new files anyway.
    if answers || ! answers_within "$ANSWER_LIMIT"; then
      late="$ran_out"
      return 1
    fi
    reconfigure || return 1
  fi
  answers_within "$ANSWER_LIMIT" || { why="slurmctld does not answer any more"; return 1; }
  late=0
  local after value
  [[ -n "$1" ]] || return 0
  after="$(nodes_live)"
  setting "$LIVE" MaxNodeCount
  ((after >= $1 || ${value:-0} > $1)) || { why="$(($1 - after)) nodes are gone: MaxNodeCount=$value is too low"; return 1; }
}

roll_back() { # good-version bad-version check
  local reason="$why" ran_out="$late"
  log "Back to the last good configuration: $reason"
  # There is no other way on: the set that failed is taken away afterwards.
  until swap "$1"; do rm -rf "$TRIAL" && pause 1; done
  reconfigure || true
  answers_within "$RETURN_LIMIT" || log "slurmctld does not answer; it starts with the last good configuration"
  # What was not checked before is explained now.
  late=0
  if [[ "$3" != off ]] || vet "$LIVE/$2" on; then why="$reason" late="$ran_out"; fi
  kick
}

roll_back_verdict() { # hash started-at
  postpone "$1"
  verdict "$ROLLED_BACK" "$1" "$2" "$why"
}

put_in_place() { # version
  mv -T "$LIVE/..new" "$LIVE/$1" && swap "$1"
}

cannot_put_in_place() { # hash started-at error
  why="the candidate cannot be put in place: $3"
  tidy "..v$number"
  rm -rf "$LIVE/..v$((number + 1))"
  refuse "$1" "$2"
}

let_in() { # hash started-at check
  local before="..v$number" version="..v$((number + 1))" same=0 up=1 nodes="" said
  ! needs_no_reading || same=1
  # It was asked while the trial ran.
  ((same)) || wait "$asked" || answers || up=0
  # Nothing would roll it back from a slurmctld that starts with it.
  if ((!up && retries)) && [[ "$late_hash" == "$1" ]]; then
    why="slurmctld does not answer" late=1
    roll_back_verdict "$1" "$2"
    return 0
  fi
  [[ "$3" != off ]] || ((same || !up)) || nodes="$(nodes_live)"
  if ! said="$(put_in_place "$version" 2>&1)"; then
    cannot_put_in_place "$1" "$2" "${said##*$'\n'}"
    return 0
  fi
  force_hash="$1" number=$((number + 1))
  if ((same)); then
    log "SUCCESS (nothing to reconfigure)"
  elif ((!up)); then
    log "slurmctld is not up; it starts with the new configuration"
    confirmed=0 missed=1
  elif missed=0; takes_effect "$nodes"; then
    kick
    log "SUCCESS"
  else
    roll_back "$before" "$version" "$3"
    force_hash="" number=$((number - 1))
    roll_back_verdict "$1" "$2"
    rm -rf "${LIVE:?}/$version"
    return 0
  fi
  ((same || up)) && verdict "$APPLIED" "$1" "$2" ""
  rm -rf "${LIVE:?}/$before"
}
