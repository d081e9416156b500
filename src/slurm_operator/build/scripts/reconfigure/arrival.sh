# Waiting for the next candidate: asleep until the folder of the last one goes away, and never longer than an interval.
# A kubelet takes the old folder away once the new one is in place, and tail learns of it from the kernel. A tail that
# cannot watch changes nothing: what is left is the interval.
watcher="" news="$never"

watch() { # folder
  unwatch
  exec {news}< <(exec tail -qn 0 -F -- "$1/slurm.conf" 2>&1)
  watcher=$!
}

unwatch() {
  [[ -n "$watcher" ]] || return 0
  kill "$watcher" 2>/dev/null
  exec {news}<&-
  watcher="" news="$never"
}

wait_for_news() { # seconds
  read -rt "$1" -u "$news" _ && return 0
  # Above 128 the time is over; else tail has ended.
  (($? > 128)) || unwatch
}
