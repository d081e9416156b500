#!/usr/bin/env bash
# Tells slurmctld to read its configuration again when the files in /etc/slurm have changed.
# Kubernetes swaps one link, ..data, for all files at once: looking at that link is enough.
set -euo pipefail

DIR="${SLURM_CONF_DIR:-/etc/slurm}"
INTERVAL="${RECONFIGURE_INTERVAL:-0.2}"
ATTEMPTS="${RECONFIGURE_ATTEMPTS:-10}"

log() { echo "[$(date)] $*"; }

version() { readlink "$DIR/..data" 2>/dev/null || echo none; }

reconfigure() {
  local pause=1 attempt
  log "Reconfiguring Slurm..."
  for ((attempt = 1; attempt <= ATTEMPTS; attempt++)); do
    if scontrol reconfigure; then
      log "SUCCESS"
      return 0
    fi
    log "Failed to reconfigure (attempt $attempt of $ATTEMPTS), next try in ${pause}s"
    sleep "$pause"
    pause=$((pause < 30 ? pause * 2 : 30))
    # A newer version makes this one pointless.
    [ "$(version)" = "$1" ] || return 0
  done
  log "GAVE UP on version $1; waiting for the next change"
}

main() {
  local last now
  trap 'exit 0' TERM
  last="$(version)"
  log "Start '$DIR' polling"
  while true; do
    now="$(version)"
    if [ "$now" != "$last" ]; then
      last="$now"
      reconfigure "$now"
    fi
    sleep "$INTERVAL" &
    wait $! || true
  done
}
main
