# What is said: lines for people, and the verdict for the operator, which print_verdict writes.
# Slurm's words stay within their line: none of them may look like a verdict.
log() { printf '[%(%a %b %e %H:%M:%S %Z %Y)T] %s\n' -1 "${*//[$'\n\r']/ }"; }

verdict() { # stage hash started-at reason
  local stage="$1" hash="$2" ms reason="${4//[$'\n\r\t']/ }" now
  now_ms
  ms=$((now - $3))
  reason="${reason//\\/\\\\}"
  reason="${reason//\"/\\\"}"
  print_verdict
}

# One that Slurm did not refuse, and that only ran out of time, is tried again a few times: the machine may be busy.
postpone() { # hash
  local pauses now
  read -ra pauses <<<"$RETRY_AFTER"
  [[ "$late_hash" == "$1" ]] || late_hash="$1" retries=0
  ((late)) || return 0
  if ((retries == ${#pauses[@]})); then
    ((retries == 0)) || why+="; it was tried $((retries + 1)) times"
    return 0
  fi
  now_ms; retry_ms=$((now + pauses[retries] * 1000)) retries=$((retries + 1))
  TZ=UTC0 printf -v now '%(%FT%TZ)T' $((retry_ms / 1000))
  why+="; it is tried again at $now ($retries of ${#pauses[@]})"
}

refuse() { # hash started-at
  postpone "$1"
  log "REFUSED: $why"
  verdict "$REFUSED" "$1" "$2" "$why"
}
