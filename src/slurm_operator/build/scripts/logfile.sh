#!/bin/sh
# Prints what a daemon writes to its log file: the file is a pipe, so nothing piles up on disk.
set -eu
trap 'exit 0' TERM
trap 'exit 1' INT HUP
mkdir -p "$(dirname "$SOCKET")"
if [ -L "$SOCKET" ] || [ ! -p "$SOCKET" ]; then
  rm -f "$SOCKET"
  # Not for the users whose jobs run beside the daemon.
  mkfifo -m 660 "$SOCKET"
fi
while true; do
  cat "$SOCKET" || true
  sleep 1 &
  wait $!
done
