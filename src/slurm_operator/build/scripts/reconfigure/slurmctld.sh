# The running slurmctld: whether it answers, what it knows, and making it read its files.
answers() { [[ "$(timeout "$ANSWER_LIMIT" scontrol ping 2>/dev/null)" == *"is UP"* ]]; }

answers_within() { # seconds
  local now deadline
  now_ms; deadline=$((now + $1 * 1000))
  until answers; do
    now_ms
    ((now < deadline)) || return 1
    pause 0.2
  done
}

nodes_live() { timeout "$ANSWER_LIMIT" scontrol -o show node 2>/dev/null | grep -c DYNAMIC_NORM; }

jobs_wait() {
  timeout "$ANSWER_LIMIT" squeue -h -t PD -o %r 2>/dev/null | grep -qE '^(None|Resources|Priority)$'
}

# A reconfigure makes every slurmd begin anew: where one follows the other, a job that waits would never start.
breathe() {
  local now
  while now_ms; ((now - read_ms < SPACING * 1000)) && jobs_wait; do pause 0.5; done
}

# Pending jobs would wait for the backfill's next round, 30 s; a change that changes nothing makes it come at once.
kick() {
  local part
  part="$(timeout "$ANSWER_LIMIT" scontrol -o show partition 2>/dev/null | head -n 1)"
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
  ((code == 0)) || why="${said:-scontrol reconfigure ended with $code}"
  return "$code"
}
