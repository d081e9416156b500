# The running slurmctld: whether it answers, what it knows, and making it read its files.
answers() {
  local said
  said="$(timeout "$ANSWER_LIMIT" scontrol ping 2>/dev/null)"
  # One that listens and says nothing is late; one that is gone is told at once.
  (($? != 124)) || late=1
  [[ "$said" == *"is UP"* ]]
}

answers_within() { # seconds
  local now deadline wait_ms=20
  now_ms; deadline=$((now + $1 * 1000))
  until answers; do
    now_ms
    ((now < deadline)) || return 1
    pause_ms "$wait_ms"
    ((wait_ms >= 200)) || wait_ms=$((wait_ms * 2))
  done
}

nodes_live() { timeout "$ANSWER_LIMIT" scontrol -o show node 2>/dev/null | grep -c DYNAMIC_NORM; }

jobs_wait() {
  timeout "$ANSWER_LIMIT" squeue -h -t PD -o %r 2>/dev/null | grep -qE '^(None|Resources|Priority)$'
}

# A reconfigure makes every slurmd begin anew: where one follows the other, a job that waits would never start.
is_early() { local now; now_ms; ((now - read_ms < SPACING * 1000)); }

breathe() { # the process that asked for jobs while the trial ran, if any
  [[ -z "$1" ]] || wait "$1" || return 0
  while is_early && jobs_wait; do pause 0.25; done
}

# Pending jobs would wait for the backfill's next round, 30 s; a change that changes nothing makes it come at once.
kick() {
  local part
  part="$(timeout "$ANSWER_LIMIT" scontrol -o show partition 2>/dev/null)"
  part="${part%%$'\n'*}"
  [[ "$part" =~ PartitionName=([^ ]+).*\ State=([A-Z]+) ]] || return 0
  timeout "$ANSWER_LIMIT" scontrol update "partitionname=${BASH_REMATCH[1]}" "state=${BASH_REMATCH[2]}" >/dev/null 2>&1 || true
}

reconfigure() {
  local said start now code
  log "Reconfiguring Slurm..."
  now_ms; start=$now at=$((now / 1000))
  said="$(timeout "$RECONFIGURE_LIMIT" scontrol reconfigure 2>&1)"
  code=$?
  now_ms; reconfigure_ms=$((now - start)) read_ms=$now
  late=0
  ((code == 0)) && return 0
  why="${said:-scontrol reconfigure ended with $code}"
  [[ $code != 124 && "$said" != *"timed out"* ]] || late=1
  return "$code"
}
