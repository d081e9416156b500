#!/usr/bin/env bash
# The owner of /etc/slurm: fills it from the last good configuration, and lets a candidate in only when Slurm itself
# has accepted it. Everything that happens ends in one line for the operator:
#   verdict hash=<of all files> stage=<applied|refused|rolledback> ms=<all> parse=<ms> trial=<ms> reconfigure=<ms>
#     at=<when slurmctld read its files, in seconds since 1970; 0 when it did not> reason="..." (one line)
# The last such line is what is true now. Needs bash, coreutils, sed, grep and Slurm; starts no process while idle.
set -uo pipefail
shopt -s nullglob extglob
export LC_ALL=C

LIVE="${SLURM_CONF_DIR:-/etc/slurm}"
GOOD="${CONFIG_GOOD_DIR:-/etc/slurm-config/good}"
CANDIDATE="${CONFIG_CANDIDATE_DIR:-/etc/slurm-config/candidate}"
KEYS="${CONFIG_KEYS_DIR:-/etc/slurm-config/keys}"
INTERVAL="${RECONFIGURE_INTERVAL:-0.1}"
# Seconds: to read a file, to start a trial, to reconfigure, to answer again after it.
PARSE_LIMIT="${PARSE_LIMIT:-5}"
TRIAL_LIMIT="${TRIAL_LIMIT:-10}"
RECONFIGURE_LIMIT="${RECONFIGURE_LIMIT:-8}"
ANSWER_LIMIT="${ANSWER_LIMIT:-5}"
# Seconds between two reconfigures while jobs wait to start.
SPACING="${RECONFIGURE_SPACING:-5}"
TRIAL="$LIVE/..trial"
NOTE=".candidate"
HOST="${HOSTNAME:-$(uname -n)}"

why="" parse_ms=0 trial_ms=0 reconfigure_ms=0 at=0 overtaken=0 force_hash="" number=1 read_ms=0
exec {never}<> <(:)

log() { printf '[%(%a %b %e %H:%M:%S %Z %Y)T] %s\n' -1 "$*"; }
# Bash alone: a process ten times a second would be noticed.
pause() { read -rt "$1" -u "$never" _ || true; }
now_ms() { local us="${EPOCHREALTIME/[.,]/}"; now=$((us / 1000)); }

verdict() { # stage hash started-at reason
  local line="${4//[$'\n\r\t']/ }" now
  now_ms
  line="${line//\\/\\\\}"
  printf 'verdict hash=%s stage=%s ms=%s parse=%s trial=%s reconfigure=%s at=%s reason="%s"\n' "$2" "$1" "$((now - $3))" \
    "$parse_ms" "$trial_ms" "$reconfigure_ms" "$at" "${line//\"/\\\"}"
}

hash_of() { # folder: leaves it in $hash
  hash="$(cd "$1" && set -- * && { (($# == 0)) || sha256sum -- "$@"; } | sha256sum)"
  hash="${hash%% *}"
}

# A line `key=value` of the note that came with a set of files.
noted() { # folder key: leaves it in $value
  local line
  value=""
  [[ -r "$1/$NOTE" ]] || return 0
  while IFS= read -r line; do [[ "$line" != "$2="* ]] || value="${line#*=}"; done <"$1/$NOTE"
}

copy() { # from to: one set of files that nobody else can change
  rm -rf "$2" && cp -rL -- "$1" "$2" && chmod -R 0750 "$2"
}

# One link decides which set is read; names are added before it moves and taken away after.
swap() { # version
  local path name
  for path in "$LIVE/$1"/*; do
    name="${path##*/}"
    [[ -L "$LIVE/$name" ]] || ln -s "..data/$name" "$LIVE/$name"
  done
  ln -sfn "$1" "$LIVE/..data_tmp" && mv -T "$LIVE/..data_tmp" "$LIVE/..data"
  for path in "$LIVE"/*; do
    name="${path##*/}"
    [[ -e "$KEYS/$name" || -e "$LIVE/$1/$name" ]] || rm -f "$path"
  done
}

link_keys() {
  local path
  for path in "$KEYS"/*; do ln -sfn "$path" "$LIVE/${path##*/}"; done
}

# The keys that this pod began with: a key that changes under a running slurmctld would come in with any reconfigure, and
# cut it off from every slurmd that has not got it. The operator makes a new pod for a new key.
KEY_FILES="$LIVE/..keys"
keys_now() { [[ ! -e "$KEYS/slurm.key" ]] || sha256sum <"$KEYS/slurm.key"; }
keys_changed() { [[ -s "$KEY_FILES" && "$(keys_now)" != "$(<"$KEY_FILES")" ]]; }

setting() { # folder key: leaves its last value in slurm.conf in $value
  local line pattern="^[[:space:]]*$2[[:space:]]*=[[:space:]]*([^#[:space:]]*)"
  value=""
  shopt -s nocasematch
  while IFS= read -r line || [[ -n "$line" ]]; do
    [[ "$line" =~ $pattern ]] && value="${BASH_REMATCH[1]}"
  done <"$1/slurm.conf"
  shopt -u nocasematch
}

# What Slurm says, shortened to what is wrong.
complaints() {
  sed -E 's/^\[[^]]*\] //; s/^(slurmctld|scontrol): //; s#'"$TRIAL"'/etc/|'"$LIVE"'/\.\.new/##g' |
    grep -iE 'error|fatal|invalid|not a valid|unable' |
    grep -vE 'MailProg|state save file|state file|plugstack|more than once|Unable to process configuration' |
    grep -vE 'accounting_storage plugin|Fairshare can only|multifactor priority without' | uniq | tail -n 4 | paste -sd ';'
}

# Slurm's parser tells all mistakes of form at once; it reads while the trial runs.
parse() { # folder
  SLURM_CONF="$1/slurm.conf" timeout "$PARSE_LIMIT" scontrol show hostnames a1 >"$LIVE/..parse" 2>&1 &
  parser=$!
}

parsed() {
  local said code start now
  now_ms; start=$now
  wait "$parser"
  code=$?
  now_ms; parse_ms=$((now - start))
  ((code == 0)) && return 0
  said="$(<"$LIVE/..parse")"
  why="$(complaints <<<"$said")"
  ((code != 124)) || why="Slurm does not come to an end of reading it; is an included file missing? $why"
  [[ -n "$why" ]] || why="${said:-Slurm cannot read it}"
  return 1
}

# The candidate as a slurmctld may run it beside the live one: no state, so that it knows no node and reaches none; no
# accounting, no programs of others, another port, no socket for clients.
prepare_trial() { # folder
  local value kept='^[[:space:]]*'
  rm -rf "$TRIAL" && mkdir -p "$TRIAL/state" && cp -r -- "${1%/}" "$TRIAL/etc" && ln -sf -t "$TRIAL/etc" "$KEYS"/* || return 1
  setting "$1" AuthInfo
  local gone='Slurmctld(Port|PidFile|LogFile|Debug|SyslogDebug|PrimaryOnProg|PrimaryOffProg)|SlurmSchedLogFile'
  gone+='|StateSaveLocation|AuthInfo|AccountingStorage[a-z]*|SuspendTime|HealthCheckProgram'
  local mine="^[[:space:]]*SlurmctldHost[[:space:]]*=[[:space:]]*$HOST([([:space:]]|\$)"
  # Line numbers stay as they are: what is not for a trial becomes a comment.
  sed -i -E -e "s/$kept($gone)[[:space:]]*=/#&/I" -e "s#^([[:space:]]*include[[:space:]]+)$LIVE/#\1$TRIAL/etc/#I" \
    -e "/$mine/I! s/${kept}SlurmctldHost[[:space:]]*=/#&/I" "$TRIAL"/etc/*.conf
  printf '\n%s\n' "SlurmctldPort=$((20000 + RANDOM % 10000))" "SlurmctldPidFile=$TRIAL/pid" "SlurmctldDebug=info" \
    "StateSaveLocation=$TRIAL/state" "AuthInfo=${value:+$value,}disable_sack" >>"$TRIAL/etc/slurm.conf"
}

trial() { # folder
  local line pid ready=0 start now deadline
  now_ms; start=$now
  prepare_trial "$1" || { why="the candidate cannot be copied"; return 1; }
  : >"$TRIAL/log"
  (cd "$TRIAL" && exec slurmctld -D -i -f "$TRIAL/etc/slurm.conf") >"$TRIAL/log" 2>&1 &
  pid=$!
  deadline=$((start + TRIAL_LIMIT * 1000))
  exec {seen}<"$TRIAL/log"
  while ((ready == 0)); do
    while IFS= read -r line <&"$seen"; do
      case "$line" in *"Running as primary controller"*) ready=1 ;; esac
    done
    ((ready)) || kill -0 "$pid" 2>/dev/null || break
    now_ms
    ((now < deadline)) || break
    ((ready)) || pause 0.01
  done
  # It may have said so in its last breath.
  while IFS= read -r line <&"$seen"; do case "$line" in *"Running as primary controller"*) ready=1 ;; esac; done
  exec {seen}<&-
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  now_ms; trial_ms=$((now - start))
  ((ready)) && return 0
  why="$(complaints <"$TRIAL/log")"
  [[ -n "$why" ]] || why="slurmctld does not get ready with it within ${TRIAL_LIMIT} s: $(tail -n 1 "$TRIAL/log")"
  return 1
}

nodes_live() { timeout "$ANSWER_LIMIT" scontrol -o show node 2>/dev/null | grep -c DYNAMIC_NORM; }

# Nodes that have no room vanish without a word. They are counted only when the room shrinks.
has_room() { # folder
  local wanted before live value
  setting "$1" MaxNodeCount; wanted="$value"
  setting "$LIVE" MaxNodeCount; before="$value"
  [[ "$wanted" =~ ^[0-9]+$ && "$before" =~ ^[0-9]+$ ]] && ((wanted < before)) || return 0
  live="$(nodes_live)"
  ((wanted >= live)) && return 0
  why="MaxNodeCount=$wanted is too low: $live nodes are registered, and would vanish"
  return 1
}

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

# Pending jobs would wait for the backfill's next round, 30 s; a change that changes nothing makes it come at once.
kick() {
  local part
  part="$(timeout "$ANSWER_LIMIT" scontrol -o show partition 2>/dev/null | head -n 1)"
  [[ "$part" =~ PartitionName=([^ ]+).*\ State=([A-Z]+) ]] || return 0
  timeout "$ANSWER_LIMIT" scontrol update "partitionname=${BASH_REMATCH[1]}" "state=${BASH_REMATCH[2]}" >/dev/null 2>&1
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

# slurmctld has the new files; does it live with them?
takes_effect() { # nodes before
  if ! reconfigure; then
    # One that was just starting has read the new files anyway.
    answers && return 1
    answers_within "$ANSWER_LIMIT" && reconfigure || return 1
  fi
  answers_within "$ANSWER_LIMIT" || { why="slurmctld does not answer any more"; return 1; }
  local after value
  [[ -n "$1" ]] || return 0
  after="$(nodes_live)"
  setting "$LIVE" MaxNodeCount
  ((after >= $1 || ${value:-0} > $1)) || { why="$(($1 - after)) nodes are gone: MaxNodeCount=$value is too low"; return 1; }
}

# slurmctld waits a minute for a file that is missing, and is silent meanwhile: nobody can want that, checked or not.
is_whole() { # folder
  local path value
  while IFS= read -r path; do
    [[ "$path" == *[*?]* ]] && continue
    [[ "$path" == /* ]] || path="$1/$path"
    path="${path/#"$LIVE"\/[!.]/$1/${path:$((${#LIVE} + 1)):1}}"
    [[ -e "$path" ]] || { why="included file ${path##*/} is missing"; return 1; }
  done < <(sed -nE 's/^[[:space:]]*include[[:space:]]+([^#[:space:]]+).*/\1/Ip' "$1/slurm.conf")
  setting "$1" TopologyPlugin
  [[ "$value" != topology/@(tree|block) || -e "$1/topology.conf" || -e "$1/topology.yaml" ]] ||
    { why="TopologyPlugin=$value needs topology.conf, which is missing"; return 1; }
}

roll_back() { # good-version bad-version check
  local reason="$why"
  log "Back to the last good configuration: $reason"
  swap "$1"
  reconfigure || true
  answers_within 60 || log "slurmctld does not answer; it starts with the last good configuration"
  # What was not checked before is explained now.
  if [[ "$3" != off ]] || vet "$LIVE/$2" on; then why="$reason"; fi
  kick
}

vet() { # folder check
  if [[ "$2" == off ]]; then
    is_whole "$1"
    return
  fi
  local parser said tried=0
  parse "$1"
  # A port that somebody else has is no fault of the candidate.
  trial "$1" || { [[ "$why" == *[Bb]ind*|| "$why" == *"in use"* ]] && trial "$1"; } || tried=1
  said="$why"
  parsed || return 1
  why="$said"
  ((tried == 0)) && has_room "$1"
}

# Whether slurmctld need not read it: it differs in what was changed live, or not at all.
needs_no_reading() {
  local value before
  noted "$LIVE/..v$number" reconfigure; before="$value"
  noted "$LIVE/..new" reconfigure
  [[ -n "$value" && "$before" == "$value" ]]
}

jobs_wait() {
  timeout "$ANSWER_LIMIT" squeue -h -t PD -o %r 2>/dev/null | grep -qE '^(None|Resources|Priority)$'
}

# A reconfigure makes every slurmd begin anew: where one follows the other, a job that waits would never start.
breathe() {
  local now
  while now_ms; ((now - read_ms < SPACING * 1000)) && jobs_wait; do pause 0.5; done
}

let_in() { # hash started-at check
  local before="..v$number" version="..v$((number + 1))" same=0 up=1 nodes=""
  ! needs_no_reading || same=1
  # It was asked while the trial ran.
  ((same)) || wait "$asked" || answers || up=0
  [[ "$3" != off ]] || ((same || !up)) || nodes="$(nodes_live)"
  mv -T "$LIVE/..new" "$LIVE/$version" && swap "$version"
  force_hash="$1" number=$((number + 1))
  if ((same)); then
    log "SUCCESS (nothing to reconfigure)"
  elif ((!up)); then
    log "slurmctld is not up; it starts with the new configuration"
    confirmed=0 missed=1
  elif takes_effect "$nodes"; then
    kick
    log "SUCCESS"
  else
    roll_back "$before" "$version" "$3"
    force_hash="" number=$((number - 1))
    verdict rolledback "$1" "$2" "$why"
    rm -rf "${LIVE:?}/$version"
    return 0
  fi
  ((same || up)) && verdict applied "$1" "$2" ""
  rm -rf "${LIVE:?}/$before"
}

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
    ((confirmed)) && verdict applied "$hash" "$start" "in force already"
    return 0
  fi
  answers &
  asked=$!
  if ! vet "$LIVE/..new" "$check"; then
    log "REFUSED: $why"
    verdict refused "$hash" "$start" "$why"
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

fill() {
  link_keys
  if [[ -e "$LIVE/..data" ]]; then
    number="$(readlink "$LIVE/..data")" number="${number#..v}"
    return 0
  fi
  keys_now >"$KEY_FILES"
  filled=$((began / 1000))
  until copy "$GOOD/..data" "$LIVE/..v1"; do pause 0.1; done
  swap "..v1"
}

# Has slurmctld started with what it was given? Where it has not, a trial tells why.
confirm() {
  local hash now
  hash_of "$LIVE/..data"
  if answers; then
    ((!missed)) || ! keys_changed || return 0
    confirmed=1 parse_ms=0 trial_ms=0 reconfigure_ms=0 at=$filled
    # It may have read the old files just before they were swapped.
    ((!missed)) || { takes_effect "" && kick; } || { verdict refused "$hash" "$began" "$why"; return 0; }
    missed=0
    verdict applied "$hash" "$began" "started with it"
    return 0
  fi
  now_ms
  ((now - began > 10000 && !explained)) || return 0
  explained=1 why="" parse_ms=0 trial_ms=0 reconfigure_ms=0
  vet "$LIVE/..v$number" on && return 0
  log "slurmctld does not start: $why"
  verdict refused "$hash" "$began" "$why"
}

main() {
  local last="" turn=0 now
  trap 'exit 0' TERM INT
  now_ms; began=$now filled=0 held=0 confirmed=0 explained=0 missed=0
  fill
  log "Start '$LIVE' polling"
  while true; do
    if [[ -e "$CANDIDATE/..data" && (-z "$last" || ! "$CANDIDATE/..data" -ef "$last") ]]; then
      last="$CANDIDATE/$(readlink "$CANDIDATE/..data")"
      consider "$last"
    fi
    ((confirmed || turn++ % 10)) || confirm
    # A key that is put back lets what was held go on.
    if ((held && turn++ % 10 == 0)) && ! keys_changed; then held=0 last=""; fi
    pause "$INTERVAL"
  done
}
main
