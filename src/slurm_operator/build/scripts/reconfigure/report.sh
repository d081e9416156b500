# What is said: lines for people, and the verdict for the operator, which print_verdict writes.
log() { printf '[%(%a %b %e %H:%M:%S %Z %Y)T] %s\n' -1 "$*"; }

verdict() { # stage hash started-at reason
  local stage="$1" hash="$2" ms reason="${4//[$'\n\r\t']/ }" now
  now_ms
  ms=$((now - $3))
  reason="${reason//\\/\\\\}"
  reason="${reason//\"/\\\"}"
  print_verdict
}
