"""What an image is made of: suites, packages, users, files. Pure.

In: a Slurm version. Out: the lists that `build.py` hands to mmdebstrap, and a hash that changes whenever they do.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from importlib.resources import files

DEFAULT_VERSION = "26.05"
# Where to look for a version first; any other version is looked for in all of them.
SUITES = {"24.11": ("trixie",), "26.05": ("forky", "sid")}
ALL_SUITES = ("trixie", "forky", "sid")

SLURM = (
    "slurmctld",
    "slurmd",
    "slurmrestd",
    "slurmdbd",
    "slurm-client",
    "slurm-wlm-jwt-plugin",
    "slurm-wlm-mysql-plugin",
)
AROUND = (
    "bash",
    "curl",
    "iproute2",
    "jq",
    "mariadb-server",
    "mount",
    "netcat-openbsd",
    "openssh-client",
    "openssh-server",
    "procps",
    "tini",
)
PACKAGES = (*SLURM, *AROUND)
# A suite under way may lack these for a while; an image without them runs everything but ssh with a directory of users.
OPTIONAL = ("libnss-sss", "libpam-slurm-adopt", "libpam-sss", "sssd-ldap", "sssd-proxy")

LEFT_OUT = ("/usr/share/man/*", "/usr/share/locale/*", "/usr/share/doc/*", "/usr/share/info/*", "/usr/share/lintian/*")
DPKG_OPTIONS = ("force-unsafe-io", *(f"path-exclude={path}" for path in LEFT_OUT))

# Made before any package is unpacked: Debian's packages take over a user that is already there.
USERS = (
    ("slurm", 401, "/var/lib/slurm", "/usr/sbin/nologin"),
    ("mysql", 999, "/nonexistent", "/bin/false"),
    ("alice", 1000, "/home/alice", "/bin/bash"),
    ("bob", 1001, "/home/bob", "/bin/bash"),
)

ENTRY_POINTS = "/usr/lib/slurm-operator"
SCRIPTS = ("follow", "supervise", "sackd", "slurmctld", "slurmd", "login", "mariadb")
DATABASE_CONF = "mariadb.cnf"

FINISH = f"""\
set -eu
cd "$1"
install -d usr/lib/slurm-operator etc/mysql/conf.d
for script in {" ".join(SCRIPTS)}; do install -m 755 "$FILES/$script" usr/lib/slurm-operator/; done
install -m 644 "$FILES/{DATABASE_CONF}" etc/mysql/slurm-operator.cnf
for user in alice bob; do
  [ -d home/$user ] || cp -a etc/skel home/$user
  chroot . chown -R $user:$user /home/$user
  chmod 755 home/$user
done
rm -rf var/lib/mysql var/lib/mariadb
install -d -o 999 -g 999 var/lib/mysql
install -d -o 401 -g 401 var/spool/slurmctld var/log/slurm
install -d var/spool/slurmd
# Each pod brings its own; a host key or a server configuration in an image would be everyone's.
rm -f etc/ssh/sshd_config etc/ssh/ssh_host_* etc/slurm/slurm.conf etc/slurm/slurmdbd.conf etc/munge/munge.key
rm -f etc/hostname etc/resolv.conf etc/mysql/conf.d/*
: > etc/hostname; : > etc/resolv.conf
printf '127.0.0.1\\tlocalhost\\n' > etc/hosts
sed -i 's/^hosts:.*/hosts: files dns/' etc/nsswitch.conf
# No address of the mirror stays behind.
rm -rf etc/apt/sources.list etc/apt/sources.list.d/* etc/apt/apt.conf.d/99mmdebstrap
rm -rf var/lib/apt/lists/* var/cache/apt/*
rm -rf var/log/*.log var/log/apt var/cache/debconf/*-old
"""


def suites(version: str) -> tuple[str, ...]:
    """Where Debian may have that version, best first."""
    return SUITES.get(version, ALL_SUITES)


def users_script() -> str:
    """A shell script that adds the users to the file system at $1."""
    lines = ["set -eu", 'cd "$1/etc"']
    for name, number, home, shell in USERS:
        lines += [
            f"echo '{name}:x:{number}:{number}::{home}:{shell}' >> passwd",
            f"echo '{name}:x:{number}:' >> group",
            f"echo '{name}:*:19700:0:99999:7:::' >> shadow",
        ]
    return "\n".join(lines) + "\n"


@cache
def recipe_hash(version: str) -> str:
    """Changes whenever the recipe of that version does."""
    folder = files(__package__).joinpath("files")
    content = {name: folder.joinpath(name).read_text() for name in (*SCRIPTS, DATABASE_CONF)}
    parts = [version, suites(version), PACKAGES, OPTIONAL, DPKG_OPTIONS, USERS, FINISH, content]
    return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()[:12]


def digest(recipe: str, packages: dict[str, str]) -> str:
    """Names the content: the recipe and the exact version of every package."""
    return hashlib.sha256(json.dumps([recipe, packages], sort_keys=True).encode()).hexdigest()
