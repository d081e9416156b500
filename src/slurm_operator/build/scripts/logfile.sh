#!/bin/sh
# Prints what a daemon writes to its log file, and keeps the file small. It is a plain file: whoever reads it takes no
# line away from anybody. At MAX_BYTES it becomes FILE.1 and begins anew; the same file, since the daemon has it open.
set -eu
MAX_BYTES="${MAX_BYTES:-4194304}"
LOOK_SECONDS="${LOOK_SECONDS:-15}"
FILE="$SOCKET"

# Lines that were printed before this container restarted come again, none is left out.
LINES=100
mkdir -p "$(dirname "$FILE")"
if [ -L "$FILE" ] || [ ! -f "$FILE" ]; then
  rm -f "$FILE"
  LINES=+1
  # Not for the users whose jobs run beside the daemon. Made anew or not at all: never through a link.
  umask 117
  set -C
  : > "$FILE"
  set +C
fi
# From here on by its number: the name may lead elsewhere later.
exec 3>> "$FILE"
tail -n "$LINES" -f "$FILE" &
PRINTING=$!
trap 'kill "$PRINTING" 2> /dev/null || true; exit 0' TERM
trap 'kill "$PRINTING" 2> /dev/null || true; exit 1' INT HUP

begin_anew() {
  rm -f "$FILE.1"
  # Made anew here as well.
  (set -C && cat "/proc/$$/fd/3" > "$FILE.1") || true
  : > "/proc/$$/fd/3"
}

while kill -0 "$PRINTING" 2> /dev/null; do
  sleep "$LOOK_SECONDS" &
  wait $!
  if [ "$(wc -c < "/proc/$$/fd/3")" -gt "$MAX_BYTES" ]; then begin_anew; fi
done
exit 1
