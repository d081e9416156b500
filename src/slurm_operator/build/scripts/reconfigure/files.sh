# Sets of files: their hash, the note beside them, and the one link that decides which set is read.
hash_of() { # folder: leaves it in $hash
  hash="$(cd "$1" && set -- * && { (($# == 0)) || sha256sum -- "$@"; } | sha256sum)"
  hash="${hash%% *}"
}

# A line `key=value` of the note that came with a set of files.
noted() { # folder key: leaves it in $value
  local line
  value=""
  [[ -r "$1/$NOTE" ]] || return 0
  while IFS= read -r line; do [[ "$line" != "$2="* ]] || value="${line#*=}"; done <"$1/$NOTE"
}

copy() { # from to: one set of files that nobody else can change
  [[ ! -e "$2" ]] || rm -rf "$2" || return 1
  cp -rL -- "$1" "$2" && chmod -R 0750 "$2"
}

# Names are added before the link moves and taken away after; where it does not move, what it led to is still there.
swap() { # version
  local path name
  for path in "$LIVE/$1"/*; do
    name="${path##*/}"
    [[ -L "$LIVE/$name" ]] || ln -s "..data/$name" "$LIVE/$name" || return 1
  done
  ln -sfn "$1" "$LIVE/..data_tmp" && mv -T "$LIVE/..data_tmp" "$LIVE/..data" || return 1
  tidy "$1"
}

tidy() { # version: names that it lacks go
  local path name
  for path in "$LIVE"/*; do
    name="${path##*/}"
    [[ -e "$KEYS/$name" || -e "$LIVE/$1/$name" ]] || rm -f "$path"
  done
}
