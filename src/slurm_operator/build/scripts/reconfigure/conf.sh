# What slurm.conf says, read without Slurm.
setting() { # folder key: leaves its last value in slurm.conf in $value
  local line pattern="^[[:space:]]*$2[[:space:]]*=[[:space:]]*([^#[:space:]]*)"
  value=""
  shopt -s nocasematch
  while IFS= read -r line || [[ -n "$line" ]]; do
    [[ "$line" =~ $pattern ]] && value="${BASH_REMATCH[1]}"
  done <"$1/slurm.conf"
  shopt -u nocasematch
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
