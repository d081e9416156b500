#!/bin/sh
# Would slurmd start with this configuration? Starts it far enough to tell, where it can reach no slurmctld, and ends
# with one line in the termination message. What slurmd refuses is refused only where it starts with the last good
# configuration in the same place: otherwise the place is at fault, and nothing is said of the candidate.
# Needs a shell, coreutils, sed, grep and slurmd.
set -u
export LC_ALL=C
CANDIDATE="${TRIAL_CANDIDATE:-/etc/slurm-config/candidate}"
GOOD="${TRIAL_GOOD:-/etc/slurm-config/good}"
MESSAGE="${TRIAL_MESSAGE:-/dev/termination-log}"
LIMIT="${TRIAL_READY_LIMIT:-10}"
WORK="$(mktemp -d)"
unset SLURM_CONF SLURMD_NODENAME SLURMD_OPTIONS

say() { # stage reason
  # shellcheck disable=SC1003 # two backslashes are what tr reads as one
  reason="$(printf '%s' "$2" | tr '\n\r\t"\\' "   ''" | cut -c 1-1500)"
  printf 'worker-trial version=1 stage=%s reason="%s"\n' "$1" "$reason" | tee "$MESSAGE"
  rm -rf "$WORK"
  exit 0
}

# A configuration as a slurmd may read it that must reach nobody: no slurmctld but a closed port of its own, a key of its
# own, no program of the user's. Line numbers stay as they are: what is not for a trial becomes a comment.
prepare() { # from to
  mkdir -p "$2" && cp -L "$1"/* "$2/" || return 1
  gone='Slurmctld(Host|Addr|Port)|Slurmd(LogFile|Debug|SyslogDebug)|HealthCheck(Program|Interval|NodeState)'
  for file in "$2"/*; do
    [ -f "$file" ] || continue
    sed -E -i -e "s/^[[:space:]]*($gone)[[:space:]]*=/#&/I" \
      -e "s#^([[:space:]]*include[[:space:]]+)/etc/slurm/#\1$2/#I" "$file" || return 1
  done
  printf '\n%s\n' 'SlurmctldHost=localhost(127.0.0.1)' SlurmctldPort=9 SlurmdDebug=info >>"$2/slurm.conf"
  head -c 1024 /dev/urandom >"$2/slurm.key" && chmod 600 "$2/slurm.key"
  [ "${TRIAL_DEVICES:-here}" = here ] || [ ! -e "$2/gres.conf" ] || give_devices "$2"
}

# Devices that Kubernetes hands to workers alone are taken as given: an empty file stands for each that is not here.
give_devices() { # folder
  sed -E -i 's/AutoDetect[[:space:]]*=[[:space:]]*[^[:space:]#]+/AutoDetect=off/Ig' "$1/gres.conf"
  # A list such as /dev/nvidia[0-3] is nothing for the shell to expand.
  set -f
  # shellcheck disable=SC2013 # a path has no spaces: the pattern ends there
  for path in $(sed -nE 's/^[^#]*Files?[[:space:]]*=[[:space:]]*([^[:space:]#]+).*/\1/Ip' "$1/gres.conf"); do
    for each in $(SLURM_CONF="$1/slurm.conf" scontrol show hostnames "$path" 2>/dev/null || printf '%s' "$path"); do
      mkdir -p "$1/given${each%/*}" && : >"$1/given$each"
    done
  done
  set +f
  sed -E -i -e "s#^([^\#]*Files?[[:space:]]*=[[:space:]]*)/#\1$1/given/#I" -e "s#,/dev/#,$1/given/dev/#g" "$1/gres.conf"
}

# It says so once every plugin is loaded and its port is open; that it has a version, it says before.
started() { grep -q 'slurmd started on' "$1"; }

ends() { # pid
  kill "$1" 2>/dev/null
  for _ in 1 2 3 4 5 6 7 8 9 10; do
    kill -0 "$1" 2>/dev/null || break
    sleep 0.1
  done
  kill -9 "$1" 2>/dev/null
  wait "$1" 2>/dev/null
}

# Whether slurmd starts with the files of a folder; what it says is beside them.
starts() { # folder
  log="$1.log"
  slurmd -D -Z -f "$1/slurm.conf" ${TRIAL_NODE_NAME:+-N "$TRIAL_NODE_NAME"} \
    ${TRIAL_NODE_CONF:+--conf "$TRIAL_NODE_CONF"} >"$log" 2>&1 &
  pid=$!
  left=$((LIMIT * 10))
  while [ "$left" -gt 0 ]; do
    started "$log" && break
    kill -0 "$pid" 2>/dev/null || break
    sleep 0.1
    left=$((left - 1))
  done
  ends "$pid"
  # One that did not come to an end may have been slow: a cold image, or a busy node.
  is_slow=no
  [ "$left" -gt 0 ] || is_slow=yes
  started "$log"
}

# What slurmd said, without its clock and our folder; not what says nothing, or what an addition to the operator's own
# lines always says.
said() { # folder
  sed -E 's/^\[[^]]*\] //; s/^slurmd[^ ]*: //; s#'"$1"'/given/#/#g; s#'"$1"'/##g' "$1.log" |
    grep -vE 'more than once|Unable to process configuration|slurmd initialization failed|Unable to register'
}

# What is wrong: the fatal line first, then errors.
why() { # folder file-with-lines-that-say-nothing
  said "$1" | grep -vxFf "$2" >"$1.said"
  found="$({ grep '^fatal' "$1.said"; grep '^error' "$1.said" | uniq | tail -n 4; } | paste -sd ';' - | sed 's/;/; /g')"
  printf '%s' "${found:-slurmd does not start within $LIMIT s: $(tail -n 1 "$1.log")}"
}

mkdir -p /var/spool/slurmd /run/slurm /var/log/slurm
prepare "$CANDIDATE" "$WORK/candidate" || say unclear "the files cannot be copied"
! starts "$WORK/candidate" || say accepted ""
was_slow="$is_slow"
cat "$WORK/candidate.log"
prepare "$GOOD" "$WORK/good" || say unclear "the last good files cannot be copied"
if starts "$WORK/good"; then
  # What it says in any case is not what it refuses.
  said "$WORK/good" >"$WORK/always"
  [ "$was_slow" = no ] || ! starts "$WORK/candidate" || say accepted ""
  say refused "$(why "$WORK/candidate" "$WORK/always")"
fi
: >"$WORK/always"
say unclear "here slurmd does not start with the configuration in force either: $(why "$WORK/good" "$WORK/always")"
