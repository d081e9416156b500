#!/usr/bin/env bash
# The owner of /etc/slurm: fills it from the last good configuration, and lets a candidate in only when Slurm itself
# has accepted it. Everything that happens ends in one verdict line for the operator; the last one is what is true now.
# Needs bash, coreutils, sed, grep and Slurm; starts no process while idle.
set -uo pipefail
shopt -s nullglob extglob
export LC_ALL=C

LIVE="${SLURM_CONF_DIR:-/etc/slurm}"
GOOD="${CONFIG_GOOD_DIR:-/etc/slurm-config/good}"
CANDIDATE="${CONFIG_CANDIDATE_DIR:-/etc/slurm-config/candidate}"
KEYS="${CONFIG_KEYS_DIR:-/etc/slurm-config/keys}"
# Seconds between two looks at the candidate where nothing tells of a new one.
INTERVAL="${RECONFIGURE_INTERVAL:-0.1}"
# Seconds: to read a file, to start a trial, to reconfigure, to answer again after it.
PARSE_LIMIT="${PARSE_LIMIT:-5}"
TRIAL_LIMIT="${TRIAL_LIMIT:-10}"
RECONFIGURE_LIMIT="${RECONFIGURE_LIMIT:-8}"
ANSWER_LIMIT="${ANSWER_LIMIT:-5}"
# Seconds: for slurmctld to start before a trial explains why it does not, to answer again after a way back.
START_LIMIT="${START_LIMIT:-10}"
RETURN_LIMIT="${RETURN_LIMIT:-60}"
# Seconds between two reconfigures while jobs wait to start.
SPACING="${RECONFIGURE_SPACING:-5}"
# Seconds until a candidate that only ran out of time is tried again, for each time that it is.
RETRY_AFTER="${RETRY_AFTER-30 300}"
TRIAL="$LIVE/..trial"
NOTE=".candidate"
HOST="${HOSTNAME:-$(uname -n)}"

# What all parts share: the reason and the milliseconds of the next verdict, when slurmctld read its files, the hash and
# the number of the set in force, when the last reconfigure ended; whether an attempt only ran out of time, which
# candidate is tried again for that, how often it was, and when it is next (0: it is not).
why="" parse_ms=0 trial_ms=0 reconfigure_ms=0 at=0 force_hash="" number=1 read_ms=0 overtaken=0
late=0 late_hash="" retries=0 retry_ms=0
