# The trial: whether Slurm accepts a candidate, found out without the running slurmctld.
# What Slurm says, shortened to what is wrong; what stopped it comes first.
complaints() {
  local found
  found="$(sed -E 's/^\[[^]]*\] //; s/^(slurmctld|scontrol): //; s#'"$TRIAL"'/etc/|'"$LIVE"'/\.\.new/##g' |
    grep -iE 'error|fatal|invalid|not a valid|unable' |
    grep -vE 'MailProg|state save file|state file|plugstack|more than once|Unable to process configuration' |
    grep -vE 'accounting_storage plugin|Fairshare can only|multifactor priority without' | uniq | tail -n 4)"
  { grep -i 'fatal' <<<"$found"; grep -vi 'fatal' <<<"$found"; } | paste -sd ';'
}

# Slurm's parser tells all mistakes of form at once; it reads while the trial runs.
parse() { # folder
  SLURM_CONF="$1/slurm.conf" timeout "$PARSE_LIMIT" scontrol show hostnames a1 >"$LIVE/..parse" 2>&1 &
  parser=$!
}

parsed() { # whether the trial failed
  local said code start now
  now_ms; start=$now
  wait "$parser"
  code=$?
  now_ms; parse_ms=$((now - start))
  ((code == 0)) && return 0
  said="$(<"$LIVE/..parse")"
  why="$(complaints <<<"$said")"
  # A trial that got ready has read it.
  late=$((code == 124 && $1 == 0))
  ((code != 124)) || why="Slurm does not come to an end of reading it; is an included file missing? $why"
  [[ -n "$why" ]] || why="${said:-Slurm cannot read it}"
  return 1
}

# The candidate as a slurmctld may run it beside the live one: no state, so that it knows no node and reaches none; no
# accounting, no programs of others, another port, no socket for clients.
prepare_trial() { # folder
  local value kept='^[[:space:]]*'
  [[ ! -e "$TRIAL" ]] || rm -rf "$TRIAL" || return 1
  mkdir -p "$TRIAL/state" && cp -r -- "${1%/}" "$TRIAL/etc" && ln -sf -t "$TRIAL/etc" "$KEYS"/* || return 1
  setting "$1" AuthInfo
  local gone='Slurmctld(Port|PidFile|LogFile|Debug|SyslogDebug|PrimaryOnProg|PrimaryOffProg)|SlurmSchedLogFile'
  gone+='|StateSaveLocation|AuthInfo|AccountingStorage[a-z]*|SuspendTime|HealthCheckProgram'
  local mine="^[[:space:]]*SlurmctldHost[[:space:]]*=[[:space:]]*$HOST([([:space:]]|\$)"
  # Line numbers stay as they are: what is not for a trial becomes a comment.
  sed -i -E -e "s/$kept($gone)[[:space:]]*=/#&/I" -e "s#^([[:space:]]*include[[:space:]]+)$LIVE/#\1$TRIAL/etc/#I" \
    -e "/$mine/I! s/${kept}SlurmctldHost[[:space:]]*=/#&/I" "$TRIAL"/etc/*.conf || return 1
  printf '\n%s\n' "SlurmctldPort=$((20000 + RANDOM % 10000))" "SlurmctldPidFile=$TRIAL/pid" "SlurmctldDebug=info" \
    "StateSaveLocation=$TRIAL/state" "AuthInfo=${value:+$value,}disable_sack" >>"$TRIAL/etc/slurm.conf"
}

trial() { # folder
  local line pid ready=0 start now deadline said
  now_ms; start=$now
  said="$(prepare_trial "$1" 2>&1)" || { why="the candidate cannot be copied: ${said##*$'\n'}"; return 1; }
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
    ((now < deadline)) || { late=1; break; }
    ((ready)) || pause 0.003
  done
  # It may have said so in its last breath.
  while IFS= read -r line <&"$seen"; do case "$line" in *"Running as primary controller"*) ready=1 ;; esac; done
  exec {seen}<&-
  kill -9 "$pid" 2>/dev/null
  wait "$pid" 2>/dev/null
  now_ms; trial_ms=$((now - start))
  ((ready)) && return 0
  why="$(complaints <"$TRIAL/log")"
  # What it complained of is what kept it.
  [[ -z "$why" ]] || late=0
  [[ -n "$why" ]] || why="slurmctld does not get ready with it within ${TRIAL_LIMIT} s: $(tail -n 1 "$TRIAL/log")"
  return 1
}

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
  parsed "$tried" || return 1
  why="$said"
  ((tried == 0)) && has_room "$1"
}
