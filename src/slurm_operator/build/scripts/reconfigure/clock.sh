# Time, in bash alone: a process ten times a second would be noticed.
exec {never}<> <(:)

pause() { read -rt "$1" -u "$never" _ || true; }
now_ms() { local us="${EPOCHREALTIME/[.,]/}"; now=$((us / 1000)); }
