# The keys that this pod began with: a key that changes under a running slurmctld would come in with any reconfigure, and
# cut it off from every slurmd that has not got it. The operator makes a new pod for a new key.
KEY_FILES="$LIVE/..keys"
keys_now() { [[ ! -e "$KEYS/slurm.key" ]] || sha256sum <"$KEYS/slurm.key"; }
keys_changed() { [[ -s "$KEY_FILES" && "$(keys_now)" != "$(<"$KEY_FILES")" ]]; }

link_keys() {
  local path
  for path in "$KEYS"/*; do ln -sfn "$path" "$LIVE/${path##*/}"; done
}
