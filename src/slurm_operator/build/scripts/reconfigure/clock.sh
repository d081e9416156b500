# Time, in bash alone: a process ten times a second would be noticed.
exec {never}<> <(:)

pause() { read -rt "$1" -u "$never" _ || true; }

pause_ms() {
  local seconds
  printf -v seconds '%d.%03d' $(($1 / 1000)) $(($1 % 1000))
  pause "$seconds"
}

now_ms() { local us="${EPOCHREALTIME/[.,]/}"; now=$((us / 1000)); }
