#!/bin/sh
# Copies keys and configuration to where sackd wants them, owned by Slurm's user.
set -eu
from=/mnt/slurm
to=/mnt/etc/slurm
find "$from" -maxdepth 2 \( -name '*.conf' -o -name '*.key' \) ! -path '*/..*' -exec cp -L {} "$to"/ \;
for file in "$to"/*.conf "$to"/*.key; do
  [ -e "$file" ] || continue
  chown "${SLURM_USER_ID:-401}:${SLURM_USER_ID:-401}" "$file"
  case "$file" in
  */slurmdbd.conf | *.key) chmod 600 "$file" ;;
  *) chmod 644 "$file" ;;
  esac
done
ls -al "$to"
