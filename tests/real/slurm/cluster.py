"""One Slurm cluster in namespaces of its own: slurmctld, some slurmds, slurmrestd, and slurmdbd on request.

In: a root file system from `rootfs.py`. Out: a running cluster whose slurmrestd is reached through a unix socket
in a folder shared with the tests; daemons can be started, killed and asked one by one. Called by `conftest.py`.
Everything lives in one PID, mount, network, UTS and IPC namespace: ending its first process ends all of it.
"""

from __future__ import annotations

import asyncio
import secrets
import shutil
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.real.slurm.rootfs import CannotProvision

NODES = ("n0", "n1", "n2")

SLURM_CONF = """\
ClusterName=test
SlurmUser=slurm
SlurmctldHost=ctl(127.0.0.1)
SlurmctldPort=6817
SlurmdPort=6818
StateSaveLocation=/var/spool/slurmctld
SlurmdSpoolDir=/var/spool/slurmd/%n
SlurmctldPidFile=/run/slurmctld/slurmctld.pid
SlurmdPidFile=/run/slurm/slurmd-%n.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd-%n.log
MaxNodeCount=64
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
AuthInfo=use_client_ids
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
PropagateResourceLimits=NONE
ReturnToService=2
KillWait=1
MessageTimeout=10
SchedulerParameters=bf_interval=3,sched_interval=5,batch_sched_delay=0,sched_min_interval=0
NodeSet=compute Feature=compute
PartitionName=compute Nodes=compute Default=YES MaxTime=60
"""

ACCOUNTING_CONF = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
"""

SLURMDBD_CONF = """\
DbdHost=ctl
DbdAddr=127.0.0.1
SlurmUser=slurm
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt_hs256.key
AuthInfo=use_client_ids
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=slurm
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurmdbd/slurmdbd.pid
"""

# The upper layer is a tmpfs of this mount namespace: nothing is left on disk, whatever way it ends.
FIRST_PROCESS = """
set -e
root=$1 shared=$2
mount -t tmpfs tmpfs "$shared/mnt"
cd "$shared/mnt"
mkdir upper work root
mount -t overlay overlay -o lowerdir="$root",upperdir=upper,workdir=work root
hostname ctl
ip link set lo up
# glibc finds no address to listen on where a network has nothing but 127.0.0.1.
ip addr add 192.0.2.1/32 dev lo
cd root
mount -t proc proc proc
mount --rbind /sys sys
mount --rbind /dev dev
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp -o mode=1777
mkdir -p shared
mount --bind "$shared/io" shared
printf '127.0.0.1 localhost ctl\\n' > etc/hosts
mkdir -p run/slurm run/slurmctld run/slurmdbd run/mysqld run/mariadbd var/spool/slurmctld var/spool/slurmd var/log/slurm
chown 64030 run/slurmctld run/slurmdbd var/spool/slurmctld var/log/slurm
install -o 64030 -g 64030 -m 600 shared/etc/* etc/slurm/
chmod 644 etc/slurm/slurm.conf etc/slurm/cgroup.conf
touch shared/ready
exec chroot . /bin/bash -c 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'
"""


class ClusterFailed(Exception):
    """A daemon did not come up, or a command failed; the text holds what it said."""


@dataclass
class Cluster:
    """A running cluster. Every method returns when its effect can be seen."""

    version: str
    root: Path
    accounting: bool = False
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp(prefix="slurm-test-")))
    jwt_key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _first: subprocess.Popen[bytes] | None = None
    _pid: int = 0

    @property
    def socket(self) -> Path:
        """The unix socket of slurmrestd, as seen by the tests."""
        return self.folder / "io" / "rest.sock"

    def start(self) -> None:
        """Everything up, all nodes idle."""
        self.start_empty()
        if self.accounting:
            self.start_database()
        self.start_controller()
        for index, name in enumerate(NODES):
            self.start_node(name, 17000 + index)
        self.start_rest()
        wait_for(lambda: self._idle() >= set(NODES), 30, f"nodes {NODES} idle")
        # A registration alone is not written to disk, and 26.05 does not start without the usage file that only a
        # clean stop or five minutes bring: without this, a killed controller would forget its nodes or never return.
        self.stop_controller()
        self.start_controller()
        wait_for(lambda: self._idle() >= set(NODES), 30, f"nodes {NODES} idle again")

    def start_empty(self) -> None:
        """Namespaces and files, without a daemon."""
        self._prepare()
        self._enter_namespaces()

    def stop(self) -> None:
        """End every process and give back the folder; safe to call twice."""
        if self._first is not None:
            self._first.kill()
            self._first.wait(timeout=20)
            wait_for(lambda: not Path(f"/proc/{self._pid}").exists(), 20, "the end of the namespaces")
            self._first = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def run(self, *command: str, check: bool = True, timeout: float = 30) -> str:
        """Run a command inside as root; gives stdout."""
        inside = [*self.enter(), *command]
        done = subprocess.run(inside, capture_output=True, text=True, errors="replace", timeout=timeout, check=False)
        if check and done.returncode != 0:
            raise ClusterFailed(f"{command} gave {done.returncode}: {done.stdout[-500:]}{done.stderr[-500:]}")
        return done.stdout

    def shell(self, script: str, *, check: bool = True, timeout: float = 30) -> str:
        """Run a shell script inside as root; gives stdout."""
        return self.run("/bin/bash", "-c", script, check=check, timeout=timeout)

    def enter(self) -> list[str]:
        """The command line prefix that runs a command inside."""
        return ["nsenter", "-t", str(self._pid), "-m", "-u", "-n", "-p", "-i", "-r", "-w"]

    def enter_network(self) -> list[str]:
        """The prefix that runs a command of the host in the cluster's network."""
        return ["nsenter", "-t", str(self._pid), "-n"]

    def start_controller(self) -> None:
        """Start slurmctld and wait until it answers."""
        self.shell("slurmctld")
        wait_for(self.controller_is_up, 30, "slurmctld", self.controller_log)

    def controller_is_up(self) -> bool:
        """Whether slurmctld answers a ping."""
        return "is UP" in self.run("scontrol", "ping", check=False)

    def controller_log(self) -> str:
        """The last lines of slurmctld's log."""
        return self.shell("tail -5 /var/log/slurm/slurmctld.log", check=False)

    def kill_controller(self) -> None:
        """kill -9, as a node failure would."""
        self._end_controller("-9")

    def stop_controller(self) -> None:
        """A clean stop, with all state written."""
        self._end_controller("-15")

    def _end_controller(self, signal: str) -> None:
        pid = self.run("cat", "/run/slurmctld/slurmctld.pid").strip()
        self.run("kill", signal, pid)
        wait_for(lambda: not self._alive(pid), 20, "the end of slurmctld")

    def wait_saved(self, text: str, file: str = "node_state") -> None:
        """Until slurmctld's state on disk holds that text: what is younger dies with a killed controller."""
        command = ("grep", "-acF", text, f"/var/spool/slurmctld/{file}")
        wait_for(lambda: self.run(*command, check=False).strip() not in {"", "0"}, 20, f"{text!r} in {file}")

    def start_node(self, name: str, port: int, conf: str = "Feature=compute") -> None:
        """Start a dynamic slurmd under that name."""
        self.shell(f"mkdir -p /var/spool/slurmd/{name}; slurmd -Z -N {name} --conf 'Port={port} {conf}'")

    def kill_node(self, name: str) -> None:
        """Stop a slurmd; its node record stays."""
        pid = self.run("cat", f"/run/slurm/slurmd-{name}.pid").strip()
        self.run("kill", pid)
        wait_for(lambda: not self._alive(pid), 10, f"the end of slurmd {name}")

    def start_rest(self) -> None:
        """Start slurmrestd on the shared socket and on 127.0.0.1:6820."""
        plugins = "openapi/slurmctld" + (",openapi/slurmdbd" if self.accounting else "")
        self.shell(
            f"cd /tmp; rm -f /shared/rest.sock; SLURM_JWT=daemon setsid setpriv --reuid=restd --regid=restd"
            f" --clear-groups slurmrestd -a rest_auth/jwt -s {plugins} unix:/shared/rest.sock 127.0.0.1:6820"
            " </dev/null >/run/rest.log 2>&1 & echo $! > /run/rest.pid"
        )
        wait_for(self.socket.exists, 20, "slurmrestd", lambda: self.run("cat", "/run/rest.log", check=False))

    def kill_rest(self) -> None:
        """kill -9 slurmrestd."""
        pids = self.run("pgrep", "-x", "slurmrestd", check=False).split()
        self.run("kill", "-9", *pids)
        wait_for(lambda: not any(self._alive(pid) for pid in pids), 10, "the end of slurmrestd")

    def write_jwt_key(self, key: bytes) -> None:
        """Put another JWT key in place; nobody is told."""
        self.jwt_key = key
        _secret(self.folder / "io" / "etc" / "jwt_hs256.key", key)
        self.shell("install -o 64030 -g 64030 -m 600 /shared/etc/jwt_hs256.key /etc/slurm/jwt_hs256.key")

    def start_database(self) -> None:
        """MariaDB and slurmdbd, with the database made."""
        self.shell(
            "chown mysql /run/mysqld /run/mariadbd; mkdir -p /var/lib/db; chown mysql /var/lib/db;"
            " mariadb-install-db --user=mysql --datadir=/var/lib/db --skip-test-db >/tmp/install-db.log 2>&1;"
            " setsid mariadbd --no-defaults --user=mysql --datadir=/var/lib/db --socket=/run/mysqld/mysqld.sock"
            " --skip-networking --innodb-buffer-pool-size=64M --innodb-lock-wait-timeout=900"
            f" {'--innodb-snapshot-isolation=OFF' if self.version == '26.05' else ''}"
            " --skip-log-bin </dev/null >/tmp/mariadb.log 2>&1 &",
            timeout=120,
        )
        ping = ("mariadb-admin", "--socket=/run/mysqld/mysqld.sock", "ping")
        wait_for(
            lambda: "alive" in self.run(*ping, check=False),
            60,
            "MariaDB",
            lambda: self.shell("tail -5 /tmp/install-db.log /tmp/mariadb.log", check=False),
        )
        self.shell(
            "mariadb --socket=/run/mysqld/mysqld.sock -e 'create database slurm_acct_db;"
            " create user slurm@localhost; grant all on slurm_acct_db.* to slurm@localhost';"
            " ln -sf /run/mysqld/mysqld.sock /run/mariadbd/mysqld.sock; slurmdbd"
        )
        wait_for(
            lambda: ":6819" in self.run("ss", "-ltnH"),
            60,
            "slurmdbd",
            lambda: self.shell("tail -5 /var/log/slurm/slurmdbd.log", check=False),
        )

    def _prepare(self) -> None:
        etc = self.folder / "io" / "etc"
        etc.mkdir(parents=True)
        (self.folder / "mnt").mkdir()
        # slurmrestd runs as a user of its own and makes its socket here; the folder above is for root alone.
        (self.folder / "io").chmod(0o777)
        (etc / "slurm.conf").write_text(SLURM_CONF + (ACCOUNTING_CONF if self.accounting else ""))
        (etc / "cgroup.conf").write_text("CgroupPlugin=disabled\n")
        _secret(etc / "slurm.key", secrets.token_bytes(1024))
        _secret(etc / "jwt_hs256.key", self.jwt_key)
        if self.accounting:
            (etc / "slurmdbd.conf").write_text(SLURMDBD_CONF)

    def _enter_namespaces(self) -> None:
        # pdeathsig: a test run that is killed takes its cluster along.
        unshare = ("setpriv", "--pdeathsig", "KILL", "unshare", "-n", "-m", "-u", "-p", "-i", "-f")
        script = ("/bin/bash", "-c", FIRST_PROCESS, "cluster", str(self.root), str(self.folder))
        log = self.folder / "first.log"
        with log.open("wb") as out:
            self._first = subprocess.Popen(
                [*unshare, "--kill-child", "--propagation", "private", *script],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=out,
            )
        wait_for((self.folder / "io" / "ready").exists, 20, "the namespaces", log.read_text)
        children = Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children")
        self._pid = int(children.read_text().split()[0])
        wait_for(lambda: Path(f"/proc/{self._pid}/root").readlink().name == "root", 10, "the root file system")

    def _alive(self, pid: str) -> bool:
        return "Z" not in self.shell(f"cut -d' ' -f3 /proc/{pid}/stat 2>/dev/null || echo Z", check=False)

    def quiet(self) -> None:
        """Back to the beginning: no jobs, no extra partitions or reservations, the three nodes idle."""
        self.shell(
            "squeue -h -o %A | xargs -r scancel;"
            " for r in $(scontrol -o show reservation | sed -n 's/^ReservationName=\\([^ ]*\\).*/\\1/p');"
            " do scontrol delete reservationname=$r; done",
            check=False,
        )
        wait_for(lambda: not self.run("squeue", "-h").strip(), 20, "an empty queue", lambda: self.run("squeue"))
        self.shell(f"scontrol update nodename={','.join(NODES)} state=undrain", check=False)
        wait_for(lambda: self._idle() >= set(NODES), 20, "idle nodes", lambda: self.run("sinfo", "-N", "-l"))

    def wait_job(self, job_id: int, state: str = "RUNNING") -> None:
        """Until the job has that state."""
        shown = ("scontrol", "-o", "show", "job", str(job_id))
        wait_for(
            lambda: f"JobState={state}" in self.run(*shown, check=False),
            30,
            f"job {job_id} {state}",
            lambda: self.run(*shown, check=False),
        )

    def wait_idle(self, name: str) -> None:
        """Until the node is registered and idle."""
        wait_for(lambda: name in self._idle(), 20, f"node {name} idle", lambda: self.run("sinfo", "-N", "-l"))

    def _idle(self) -> set[str]:
        """Idle and answering: Slurm marks the others with a star, and starts no job on them."""
        shown = self.run("sinfo", "-h", "-N", "-o", "%N=%t", check=False).split()
        return {name for name, _, state in (entry.partition("=") for entry in shown) if state == "idle"}


def require_namespaces() -> None:
    """Raise CannotProvision where this process may not make namespaces."""
    tried = subprocess.run(
        ["unshare", "-n", "-m", "-u", "-p", "-i", "-f", "true"], capture_output=True, text=True, timeout=30, check=False
    )
    if tried.returncode != 0:
        raise CannotProvision(f"no namespaces of our own: {tried.stderr.strip()}")


def _secret(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def wait_for(true: Callable[[], object], seconds: float, what: str, explain: Callable[[], str] = lambda: "") -> None:
    """Return as soon as `true()` is; raise with what `explain()` says when the time is over."""
    end = time.monotonic() + seconds
    while not true():
        if time.monotonic() > end:
            raise ClusterFailed(f"{what} did not come within {seconds} s: {explain()}")
        time.sleep(0.05)


async def eventually(true: Callable[[], Awaitable[object]], seconds: float = 20) -> None:
    """The same for what is asked through the client."""
    async with asyncio.timeout(seconds):
        while not await true():  # noqa: ASYNC110 - what is waited for is another process
            await asyncio.sleep(0.1)
