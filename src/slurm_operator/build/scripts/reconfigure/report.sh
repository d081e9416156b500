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

refuse() { # hash started-at
  log "REFUSED: $why"
  verdict "$REFUSED" "$1" "$2" "$why"
}
