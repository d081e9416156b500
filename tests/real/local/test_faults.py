"""What goes wrong on a machine: each fault is a sentence that says what to do, and nothing is left behind.

Every test has a machine of its own: namespaces for processes, mounts and network, with an empty /run. Ending them is a
power cut; what is on the disk stays. So nothing else that runs here can be touched, or be in the way. Needs root.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from kube_local.node import host
from kube_local.node.paths import Paths
from kube_runtime.errors import OperatorError
from slurm_operator.local import machine as requirements
from slurm_operator.local.image import apt, build, recipe, store
from slurm_operator.local.image.progress import Lines

DEMO = Path(__file__).parents[3] / "examples" / "demo"
pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
]

BOOT = """
set -e
mount -t proc proc /proc
# What this machine's own clusters have there was copied with everything else.
umount --recursive --lazy /run/netns 2>/dev/null || true
mount -t tmpfs tmpfs /run
ip link set lo up
echo "$2" > /run/boot_id
mount --bind /run/boot_id /proc/sys/kernel/random/boot_id
touch "$1"
exec bash -c 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done'
"""

PODS = """
apiVersion: v1
kind: Pod
metadata: {{name: stubborn, namespace: default}}
spec:
  terminationGracePeriodSeconds: 600
  containers:
  - name: main
    image: debian
    command: [sh, -c, "trap '' TERM; while :; do sleep 1; done"]
    resources: {{limits: {{memory: 64Mi}}}}
    volumeMounts: [{{name: memory, mountPath: /memory}}]
  volumes: [{{name: memory, emptyDir: {{medium: Memory}}}}]
{others}
"""

BROKEN = """---
apiVersion: v1
kind: Pod
metadata: {name: looping, namespace: default}
spec:
  containers: [{name: main, image: debian, command: [sh, -c, "exit 3"]}]
---
apiVersion: v1
kind: Pod
metadata: {name: lacking, namespace: default}
spec:
  containers: [{name: main, image: debian, command: [/no/such/program]}]
"""


class Machine:
    """A machine within this one, with a local cluster in one folder of its disk."""

    def __init__(self, disk: Path) -> None:
        self.disk, self.data = disk, disk / "cluster"
        self._first: subprocess.Popen[bytes] | None = None
        self.pid = 0

    def boot(self) -> None:
        """Start it, with an identity that no earlier start had."""
        ready = self.disk.with_suffix(".ready")
        self._first = subprocess.Popen(
            [
                *("unshare", "--net", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private"),
                *("bash", "-c", BOOT, "machine", str(ready), str(uuid.uuid4())),
            ],
            stdin=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        until(ready.exists, "the machine is up")
        ready.unlink()
        self.pid = int(Path(f"/proc/{self._first.pid}/task/{self._first.pid}/children").read_text())

    def cut_power(self) -> None:
        """Everything ends at once but the disk."""
        if self._first is None:
            return
        os.kill(self.pid, signal.SIGKILL)
        self._first.wait(timeout=30)
        self._first = None
        # The kernel is this machine's, and so are the groups that a real start would have begun without.
        until(self._without_cgroups, "no cgroups")

    def _without_cgroups(self) -> bool:
        host.remove_cgroups(Paths.of(self.data).prefix)
        return not self.cgroups()

    def local(self, *arguments: str, code: int = 0, **environment: str) -> str:
        """`slurm-operator local`, with what it printed."""
        own = [sys.executable, "-m", "slurm_operator.cli.main", "local", arguments[0], "--data", str(self.data)]
        done = subprocess.run(
            ["nsenter", "-t", str(self.pid), "-n", "-m", "-p", *own, *arguments[1:]],
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert "Traceback" not in said
        return said

    def shell(self, *command: str) -> str:
        """A command as alice."""
        return self.local("shell", "--", *command).strip()

    def cgroups(self) -> list[str]:
        """The groups of the cluster."""
        roots = host.cgroup_roots()
        return [str(found) for root in roots for found in root.glob(f"{Paths.of(self.data).prefix}*")]

    def inventory(self) -> dict[str, list[str]]:
        """Everything that a cluster could leave."""
        root = Path(f"/proc/{self.pid}/root")
        links = subprocess.run(
            ["nsenter", "-t", str(self.pid), "-n", "ip", "-o", "addr"], capture_output=True, text=True, check=True
        ).stdout
        mounts = [line.split()[4] for line in Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()]
        # Mounts of other clusters elsewhere were copied at the start, and go as those do.
        near = (str(self.disk), "/run/", "/sys", "/etc", "/proc")
        # `ip netns` makes its folder once and for everybody.
        return {
            "mounts": sorted(point for point in mounts if point.startswith(near) and point != "/run/netns"),
            "links": [line.split()[1] for line in links.splitlines()],
            "names": sorted(str(found) for found in (root / "run").rglob("*") if found != root / "run" / "netns"),
            "files": sorted(str(found) for found in self.disk.rglob("*")),
            "processes": sorted(self._programs()),
            "cgroups": self.cgroups(),
        }

    def _programs(self) -> Iterator[str]:
        space = Path(f"/proc/{self.pid}/ns/pid").readlink()
        for entry in Path("/proc").iterdir():
            with suppress(OSError):
                if entry.name.isdecimal() and (entry / "ns" / "pid").readlink() == space:
                    yield (entry / "comm").read_text().strip()


def until(is_so: Callable[[], object], what: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline, f"{what}: not within {seconds:g} s"
        time.sleep(0.1)


@pytest.fixture(scope="session")
def image() -> None:
    """What a machine without a network cannot fetch."""
    try:
        build.build(recipe.DEFAULT_VERSION, store.default_cache(), Lines(sys.stderr))
        requirements.kubectl(store.default_cache(), Lines(sys.stderr))
    except OperatorError as error:
        pytest.skip(str(error))


@pytest.fixture
def machine(image: None, tmp_path: Path) -> Iterator[Machine]:
    del image
    (tmp_path / "disk").mkdir()
    made = Machine(tmp_path / "disk")
    made.boot()
    yield made
    made.cut_power()


def test_after_a_power_cut_everything_that_was_saved_is_there(machine: Machine) -> None:
    machine.local("up", "-f", str(DEMO), "--timeout", "240")
    done = machine.shell("sbatch", "--parsable", "-o", "/dev/null", "--wrap", "true")
    until(lambda: machine.shell("sacct", "-nXP", "-j", done, "-o", "State") == "COMPLETED", "the first job")
    waits = machine.shell("sbatch", "--parsable", "-o", "/dev/null", "--hold", "-J", "waits", "--wrap", "true")
    saved = ["grep", "-rlaqs", "waits", "--include=job_state", str(machine.data)]
    until(lambda: subprocess.run(saved, check=False).returncode == 0, "the state is on disk")
    machine.cut_power()
    machine.boot()
    machine.local("up", "--timeout", "240")
    assert machine.shell("squeue", "-h", "-o", "%i %T") == f"{waits} PENDING"
    assert machine.shell("sacct", "-nXP", "-j", done, "-o", "State") == "COMPLETED"
    machine.shell("scontrol", "release", waits)
    until(lambda: machine.shell("sacct", "-nXP", "-j", waits, "-o", "State") == "COMPLETED", "the job that waited")


def test_broken_pods_are_told_and_a_reset_leaves_the_machine_as_it_was(machine: Machine) -> None:
    manifest = machine.disk / "pods.yaml"
    manifest.write_text(PODS.format(others=BROKEN))
    before = machine.inventory()
    said = machine.local("up", "-f", str(manifest), "--timeout", "10", code=1)
    assert "container main of pod default/looping keeps exiting (exit code 3" in said
    assert " logs -n default looping -c main --previous" in said
    assert "container main of pod default/lacking cannot start" in said
    assert "/no/such/program" in said
    assert "its image lacks that program" in said
    now = machine.inventory()
    assert all(len(now[what]) > len(before[what]) for what in ("mounts", "links", "names", "files", "processes"))
    machine.local("reset")
    until(lambda: machine.inventory()["processes"] == before["processes"], "the last processes are gone", 10)
    assert machine.inventory() == before


def test_a_container_that_ignores_term_does_not_stop_a_down(machine: Machine) -> None:
    manifest = machine.disk / "pods.yaml"
    manifest.write_text(PODS.format(others=""))
    before = machine.inventory()
    machine.local("up", "-f", str(manifest), "--timeout", "60")
    machine.local("down")
    until(lambda: machine.inventory()["processes"] == before["processes"], "the last processes are gone", 10)
    after = machine.inventory()
    assert {what: after[what] for what in after if what != "files"} == {
        what: before[what] for what in before if what != "files"
    }


def test_a_port_that_is_taken_is_said_before_anything_is_made(machine: Machine) -> None:
    listen = "import socket, time; s = socket.create_server(('127.0.0.1', 7443)); print(flush=True); time.sleep(600)"
    inside = ["nsenter", "-t", str(machine.pid), "-n", sys.executable, "-c", listen]
    with subprocess.Popen(inside, stdout=subprocess.PIPE) as taker:
        assert taker.stdout is not None
        taker.stdout.readline()
        said = machine.local("up", "--port", "7443", code=1)
        taker.kill()
    assert "port 7443 of 127.0.0.1 is taken" in said
    assert "give another --port, or 0 for any" in said
    assert not machine.data.exists()


def test_a_full_disk_is_said_before_anything_is_made(machine: Machine) -> None:
    mount = ["nsenter", "-t", str(machine.pid), "-m", "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs"]
    subprocess.run([*mount, str(machine.disk)], check=True)
    said = machine.local("up", code=1)
    assert "17 MB are free in" in said
    assert "free some space, or choose another disk with --data" in said
    assert not machine.data.exists()


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="images are built where apt is")
def test_an_image_that_does_not_fit_on_the_disk_is_said_before_the_mirror_is_asked(machine: Machine) -> None:
    mount = ["nsenter", "-t", str(machine.pid), "-m", "mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs"]
    cache = machine.disk.with_name("cache")
    cache.mkdir()
    subprocess.run([*mount, str(cache)], check=True)
    said = machine.local("up", code=1, SLURM_OPERATOR_CACHE=str(cache))
    assert "not enough disk space: an image needs" in said
    assert "choose another disk with SLURM_OPERATOR_CACHE" in said


@pytest.mark.skipif(shutil.which("apt-get") is None, reason="images are built where apt is")
def test_a_mirror_that_does_not_answer_is_named(machine: Machine) -> None:
    cache = machine.disk.with_name("cache")
    # Nobody listens there.
    elsewhere = {"SLURM_OPERATOR_CACHE": str(cache), apt.MIRROR_VARIABLE: "http://127.0.0.1:1/debian"}
    said = machine.local("up", code=1, **elsewhere)
    assert "the mirror http://127.0.0.1:1/debian does not give Debian" in said
    assert not store.list_images(cache)
    assert not machine.data.exists()


def test_a_killed_download_goes_on_where_it_was(tmp_path: Path) -> None:
    content = bytes(range(256)) * 20_000
    asked: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=_serve_halves, args=(server, content, asked), daemon=True).start()
        uri = f"http://127.0.0.1:{server.getsockname()[1]}/a.deb"
        command = [sys.executable, "-c", _FETCH, uri, str(tmp_path), json.dumps(len(content))]
        partial = tmp_path / "partial" / "a.deb"
        with subprocess.Popen(command) as first:
            until(lambda: partial.exists() and partial.stat().st_size > len(content) // 4, "half of it")
            first.kill()
        left = partial.stat().st_size
        subprocess.run(command, check=True, timeout=60)
    assert (tmp_path / "a.deb").read_bytes() == content
    assert asked[1:] == [f"bytes={left}-"]


_FETCH = """
import hashlib, sys
from pathlib import Path
from slurm_operator.local.image.download import Item, fetch
uri, folder, size = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
digest = hashlib.sha256(bytes(range(256)) * 20_000).hexdigest()
fetch([Item(uri, "a.deb", size, "sha256", digest)], folder, lambda done: None)
"""


def _serve_halves(server: socket.socket, content: bytes, asked: list[str]) -> None:
    """The first caller gets half and silence, the next one what it asks for."""
    first, _ = server.accept()
    _headers(first)
    asked.append("")
    first.sendall(f"HTTP/1.1 200 OK\r\nContent-Length: {len(content)}\r\n\r\n".encode() + content[: len(content) // 2])
    second, _ = server.accept()
    wanted = next(line.split(": ")[1] for line in _headers(second).splitlines() if line.startswith("Range"))
    asked.append(wanted)
    rest = content[int(wanted.removeprefix("bytes=").removesuffix("-")) :]
    second.sendall(f"HTTP/1.1 206 Partial Content\r\nContent-Length: {len(rest)}\r\n\r\n".encode() + rest)
    for each in (first, second):
        each.close()


def _headers(connection: socket.socket) -> str:
    said = b""
    while not said.endswith(b"\r\n\r\n"):
        said += connection.recv(4096)
    return said.decode()
