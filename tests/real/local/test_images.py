"""Every daemon of an image, started by runc as the operator's pods start it: same names, arguments, users, rights.

One network namespace holds all containers, so that nothing outside is touched; volumes are folders with the owner and
mode that a kubelet gives them. The image comes from the cache, and is built the first time. Needs root.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from kube_runtime.errors import OperatorError
from slurm_operator.local.image import rules, store
from slurm_operator.local.image.build import build
from slurm_operator.local.image.progress import Lines

# ruff: noqa: S108 - these are folders of containers
pytestmark = [pytest.mark.real_slurm, pytest.mark.timeout(1200)]

REGISTRY = "ghcr.io/slinkyproject"
ADDRESS = "198.51.100.1"
NAMES = ("demo-controller", "demo-controller-0", "demo-accounting", "demo-accounting-0", "db", "demo-login", "w-0")
RESTRICTED: tuple[str, ...] = ()
ORDINARY = tuple(
    f"CAP_{name}"
    for name in (
        *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
        *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
    )
)

SLURM_CONF = """\
ClusterName=demo
SlurmUser=slurm
SlurmctldHost=demo-controller-0(demo-controller-0)
SlurmctldPort=6817
SlurmctldAddr=demo-controller
StateSaveLocation=/var/spool/slurmctld/demo
SlurmdUser=root
SlurmdPort=6818
SlurmdSpoolDir=/var/spool/slurmd
MaxNodeCount=1024
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
AuthInfo=use_client_ids
SlurmctldParameters=enable_configless,reconfig_on_restart
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=demo-accounting
AccountingStoragePort=6819
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
PropagateResourceLimits=NONE
SchedulerParameters=bf_interval=3,sched_interval=5,batch_sched_delay=0,sched_min_interval=0
NodeSet=w Feature=w
PartitionName=all Nodes=w Default=YES MaxTime=60
"""

SLURMDBD_CONF = """\
DbdHost=demo-accounting-0
DbdPort=6819
SlurmUser=slurm
AuthType=auth/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key
AuthInfo=use_client_ids
StorageType=accounting_storage/mysql
StorageHost=db
StoragePort=3306
StorageUser=slurm
StorageLoc=slurm_acct_db
StoragePass=very'secret
LogFile=/dev/null
"""

SSHD_CONFIG = "UsePAM yes\nSubsystem sftp internal-sftp\n"


def wait_for(true: Callable[[], object], seconds: float, what: str, explain: Callable[[], str] = str) -> float:
    """How long it took until `true()`; fails with what `explain()` says when the time is over."""
    start = time.monotonic()
    while not true():
        assert time.monotonic() < start + seconds, f"{what} did not come within {seconds} s: {explain()}"
        time.sleep(0.05)
    return time.monotonic() - start


@dataclass(frozen=True)
class Volume:
    """A folder of the test that a container sees."""

    source: Path
    target: str
    read_only: bool = False

    def mount(self) -> dict[str, object]:
        """As OCI says it."""
        options = ["rbind", "ro" if self.read_only else "rw"]
        return {"type": "bind", "source": str(self.source), "destination": self.target, "options": options}


@dataclass
class Container:
    """One running container."""

    name: str
    folder: Path
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        """What it printed."""
        return (self.folder / "log").read_text(errors="replace")

    def run(self, *command: str, user: str = "0:0", check: bool = True) -> str:
        """Run a command inside, as kubectl exec would; gives what it printed."""
        done = subprocess.run(
            ["runc", *self._root(), "exec", "--user", user, "--cwd", "/tmp", self.name, *command],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0 or not check, f"{command}: {done.stdout}{done.stderr}\n{self.name}: {self.log}"
        return done.stdout + done.stderr

    def kill(self, signal: str) -> None:
        """Send a signal to its first process."""
        subprocess.run(["runc", *self._root(), "kill", self.name, signal], check=True, timeout=30)

    def delete(self) -> None:
        """End it, whatever it does."""
        subprocess.run(["runc", *self._root(), "delete", "--force", self.name], check=False, timeout=60)
        self.process.wait(timeout=30)
        subprocess.run(["umount", str(self.folder / "root")], check=False, timeout=30)
        subprocess.run(["umount", str(self.folder)], check=False, timeout=30)

    def _root(self) -> tuple[str, str]:
        return "--root", str(self.folder.parent / "runc")


@dataclass
class Pods:
    """Containers in one network of their own."""

    images: dict[str, store.Image]
    folder: Path
    network: subprocess.Popen[bytes] = field(init=False)
    running: dict[str, Container] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Make the network."""
        script = f"ip link set lo up; ip addr add {ADDRESS}/32 dev lo; echo up; exec sleep infinity"
        command = ["setpriv", "--pdeathsig", "KILL", "unshare", "-n", "sh", "-c", script]
        self.network = subprocess.Popen(command, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
        assert self.network.stdout is not None
        assert self.network.stdout.readline() == b"up\n"
        self.network.stdout.close()
        hosts = [f"127.0.0.1 localhost\n{ADDRESS} {' '.join(NAMES)}\n"]
        (self.folder / "hosts").write_text("".join(hosts))

    def start(
        self,
        hostname: str,
        image: str,
        *,
        volumes: Sequence[Volume] = (),
        args: tuple[str, ...] | None = None,
        env: dict[str, str] | None = None,
        capabilities: Sequence[str] = RESTRICTED,
    ) -> Container:
        """Start a container of that image."""
        resolved = rules.resolve(image, rules.DEFAULT, self.images)
        name = f"{self.folder.name}-{hostname}"
        folder = self.folder / hostname
        folder.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(folder)], check=True)
        for each in ("root", "upper", "work"):
            (folder / each).mkdir()
        overlay = f"lowerdir={resolved.rootfs},upperdir={folder}/upper,workdir={folder}/work"
        subprocess.run(["mount", "-t", "overlay", "overlay", "-o", overlay, str(folder / "root")], check=True)
        user = [int(part) for part in (resolved.user or "0:0").split(":")]
        config = self._config(
            hostname,
            (*resolved.entrypoint, *(resolved.command if args is None else args)),
            {**resolved.env, **(env or {})},
            user,
            [Volume(self.folder / "hosts", "/etc/hosts"), *volumes],
            capabilities,
        )
        (folder / "config.json").write_text(json.dumps(config))
        with (folder / "log").open("wb") as out:
            process = subprocess.Popen(
                ["runc", "--root", str(self.folder / "runc"), "run", "--bundle", str(folder), name],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.running[hostname] = Container(name, folder, process)
        return self.running[hostname]

    def _config(
        self,
        hostname: str,
        argv: Sequence[str],
        env: dict[str, str],
        user: Sequence[int],
        volumes: Sequence[Volume],
        capabilities: Sequence[str],
    ) -> dict[str, object]:
        sets = {kind: list(capabilities) for kind in ("bounding", "effective", "permitted")}
        namespaces = [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]
        standard = [("proc", "/proc"), ("tmpfs", "/dev"), ("tmpfs", "/tmp"), ("sysfs", "/sys")]
        return {
            "ociVersion": "1.0.2",
            "hostname": hostname,
            "root": {"path": "root"},
            "process": {
                "args": list(argv),
                "env": [f"{key}={value}" for key, value in env.items()],
                "cwd": "/",
                "user": {"uid": user[0], "gid": user[1]},
                "capabilities": sets,
                "noNewPrivileges": not capabilities,
            },
            "mounts": [
                *({"type": kind, "source": kind, "destination": target} for kind, target in standard),
                *(volume.mount() for volume in volumes),
            ],
            "linux": {
                "namespaces": [*namespaces, {"type": "network", "path": f"/proc/{self.network.pid}/ns/net"}],
                "cgroupsPath": f"/{self.folder.name}/{hostname}",
            },
        }

    def stop(self) -> None:
        """End every container and the network."""
        for container in self.running.values():
            container.delete()
        self.network.kill()
        self.network.wait(timeout=30)
        for folder in Path("/sys/fs/cgroup").glob(f"**/{self.folder.name}"):
            folder.rmdir()

    def volume(self, name: str, target: str, *, owner: tuple[int, int] = (0, 0), mode: int = 0o777) -> Volume:
        """An empty folder."""
        path = self.folder / "volumes" / name
        if not path.exists():
            path.mkdir(parents=True)
            os.chown(path, *owner)
            path.chmod(mode)
        return Volume(path, target)

    def files(self, name: str, target: str, files: dict[str, bytes], owner: tuple[int, int], mode: int) -> Volume:
        """A folder with files, as a projected volume."""
        volume = self.volume(name, target)
        for file, content in files.items():
            path = volume.source / file
            path.write_bytes(content)
            os.chown(path, *owner)
            path.chmod(mode)
        return Volume(volume.source, target, read_only=True)


@dataclass
class Cluster:
    """All daemons of a cluster."""

    pods: Pods
    tag: str
    keys: dict[str, bytes] = field(
        default_factory=lambda: {"slurm.key": secrets.token_bytes(1024), "jwt.key": secrets.token_bytes(32)}
    )
    times: dict[str, float] = field(default_factory=dict)

    def image(self, name: str) -> str:
        """The name that stands in the operator's pods."""
        return f"{REGISTRY}/{name}:{self.tag}"

    def listens(self, port: int) -> bool:
        """Whether someone listens in the pods' network."""
        command = ["nsenter", "-t", str(self.pods.network.pid), "-n", "ss", "-ltnH", f"sport = :{port}"]
        return bool(subprocess.run(command, capture_output=True, check=True).stdout.strip())

    def wait_port(self, name: str, port: int) -> None:
        """Until the container listens; remembers how long that took."""
        pod = self.pods.running[name]
        self.times[name] = wait_for(lambda: self.listens(port), 90, f"{name} on port {port}", lambda: pod.log)

    def start_database(self) -> Container:
        """MariaDB, with the settings of a manifest."""
        env = {"MARIADB_DATABASE": "slurm_acct_db", "MARIADB_USER": "slurm", "MARIADB_PASSWORD": "very'secret"}
        data = self.pods.volume("db", "/var/lib/mysql")
        pod = self.pods.start("db", "mariadb:11.8", volumes=[data], env=env, capabilities=ORDINARY)
        self.wait_port("db", 3306)
        return pod

    def start_accounting(self) -> Container:
        """slurmdbd as user 401 without any right."""
        conf = {"slurmdbd.conf": SLURMDBD_CONF.encode(), **self.keys}
        volumes = [
            self.pods.files("dbd-etc", "/etc/slurm", conf, (401, 401), 0o600),
            self.pods.volume("dbd-run", "/run", owner=(0, 401)),
        ]
        pod = self.pods.start("demo-accounting-0", self.image("slurmdbd"), volumes=volumes)
        self.wait_port("demo-accounting-0", 6819)
        return pod

    def start_controller(self) -> Container:
        """slurmctld as user 401 without any right; the state survives."""
        conf = {"slurm.conf": SLURM_CONF.encode(), "cgroup.conf": b"CgroupPlugin=disabled\n", **self.keys}
        volumes = [
            self.pods.files("ctl-etc", "/etc/slurm", conf, (0, 401), 0o650),
            self.pods.volume("ctl-run", "/run", owner=(0, 401)),
            self.pods.volume("ctl-socket", "/run/slurmctld", owner=(0, 401)),
            self.pods.volume("ctl-state", "/var/spool/slurmctld/demo", owner=(0, 401)),
            self.pods.volume("ctl-log", "/var/log/slurm", owner=(0, 401)),
        ]
        pod = self.pods.start("demo-controller-0", self.image("slurmctld"), volumes=volumes)
        self.wait_port("demo-controller-0", 6817)
        return pod

    def start_worker(self) -> Container:
        """slurmd with the operator's arguments, quotes and all."""
        key = {"slurm.key": self.keys["slurm.key"]}
        volumes = [
            self.pods.files("w-etc", "/etc/slurm", key, (0, 0), 0o600),
            self.pods.volume("w-log", "/var/log/slurm"),
        ]
        pod = self.pods.start(
            "w-0",
            self.image("slurmd"),
            volumes=volumes,
            args=("-Z", "--conf-server", "demo-controller:6817", "--conf", "'Features=w Weight=3'"),
            env={"POD_CPUS": "1", "POD_MEMORY": "512", "POD_TOPOLOGY": ""},
            capabilities=ORDINARY,
        )
        self.wait_port("w-0", 6818)
        return pod

    def start_rest(self) -> Container:
        """slurmrestd as nobody without any right."""
        conf = {"slurm.conf": SLURM_CONF.encode(), "slurm.key": self.keys["slurm.key"]}
        pod = self.pods.start(
            "demo-restapi",
            self.image("slurmrestd"),
            volumes=[self.pods.files("rest-etc", "/etc/slurm", conf, (0, 65534), 0o640)],
            args=("0.0.0.0:6820",),
            env={"SLURM_JWT": "daemon", "SLURMRESTD_SECURITY": "disable_unshare_files,disable_unshare_sysv"},
        )
        self.wait_port("demo-restapi", 6820)
        return pod

    def start_login(self) -> Container:
        """sshd and the auth socket."""
        key = {"slurm.key": self.keys["slurm.key"]}
        sshd = self.pods.files("login-ssh", "/ssh", {"sshd_config": SSHD_CONFIG.encode()}, (0, 0), 0o600)
        volumes = [
            self.pods.files("login-etc", "/etc/slurm", key, (401, 401), 0o600),
            self.pods.volume("login-run", "/run/slurm"),
            Volume(sshd.source / "sshd_config", "/etc/ssh/sshd_config", read_only=True),
        ]
        pod = self.pods.start(
            "demo-login",
            self.image("login"),
            volumes=volumes,
            env={"SACKD_OPTIONS": "--conf-server demo-controller:6817", "SACKD_INTERVAL": "1"},
            capabilities=ORDINARY,
        )
        socket = ("test", "-S", "/run/slurm/sack.socket")
        self.times["demo-login"] = wait_for(lambda: self._ready(pod, socket), 60, "the auth socket", lambda: pod.log)
        return pod

    def _ready(self, pod: Container, probe: Sequence[str]) -> bool:
        return (
            subprocess.run(
                ["runc", *pod._root(), "exec", pod.name, *probe], check=False, capture_output=True
            ).returncode
            == 0
        )

    def as_alice(self, *command: str) -> str:
        """A command of an ordinary user in the login pod."""
        return self.pods.running["demo-login"].run(*command, user="1000:1000")


@pytest.fixture(scope="module", params=["24.11", "26.05"])
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A whole cluster out of one image."""
    if os.geteuid() != 0:
        pytest.skip("containers need root: run this as root to test the images")
    if shutil.which("runc") is None:
        pytest.skip("runc is missing: apt-get install runc to test the images")
    try:
        image = build(request.param, store.default_cache(), Lines(sys.stderr))
    except OperatorError as error:
        pytest.skip(f"no image: {error}")
    pods = Pods({request.param: image}, tmp_path_factory.mktemp(f"images-{request.param.replace('.', '')}-"))
    made = Cluster(pods, f"{request.param}-ubuntu26.04")
    try:
        made.start_database()
        made.start_accounting()
        made.start_controller()
        made.start_worker()
        made.start_rest()
        made.start_login()
        wait_for(lambda: "idle" in made.as_alice("sinfo", "-h", "-o", "%t").split(), 30, "an idle node")
        sys.stderr.write(f"Slurm {request.param}, seconds to ready: {made.times}\n")
        yield made
    finally:
        pods.stop()


def test_an_ordinary_user_submits_from_the_login_pod_and_accounting_knows(cluster: Cluster) -> None:
    submitted = cluster.as_alice("sbatch", "--parsable", "-o", "/tmp/out", "--wrap", "id -un; sleep 0.2")
    job = submitted.split()[-1]
    shown = ("sacct", "-nPX", "-j", job, "-o", "User,State")
    wait_for(
        lambda: cluster.as_alice(*shown).strip() == "alice|COMPLETED",
        60,
        f"job {job} completed",
        lambda: cluster.as_alice(*shown) + cluster.as_alice("scontrol", "show", "job", job),
    )
    assert cluster.pods.running["w-0"].run("cat", "/tmp/out") == "alice\n"


def test_srun_runs_on_the_worker(cluster: Cluster) -> None:
    assert cluster.as_alice("srun", "hostname").strip() == "w-0"


def test_an_ordinary_user_is_no_administrator(cluster: Cluster) -> None:
    pod = cluster.pods.running["demo-login"]
    refused = pod.run("scontrol", "update", "partitionname=all", "state=down", user="1000:1000", check=False)
    assert "Invalid user id" in refused or "Access/permission denied" in refused


def test_the_worker_has_what_its_arguments_and_its_pod_say(cluster: Cluster) -> None:
    shown = cluster.as_alice("scontrol", "show", "node", "w-0")
    assert "AvailableFeatures=w" in shown
    assert "Weight=3" in shown
    assert "MemSpecLimit=" in shown
    assert ("CoreSpecCount=" in shown) == ((os.cpu_count() or 1) > 1)


def test_the_login_pod_follows_a_changed_configuration(cluster: Cluster) -> None:
    path = cluster.pods.folder / "volumes" / "ctl-etc" / "slurm.conf"
    path.write_text(SLURM_CONF + "PartitionName=late Nodes=w MaxTime=30\n")
    cluster.pods.running["demo-controller-0"].run("scontrol", "reconfigure", user="401:401")
    conf = ("grep", "-c", "PartitionName=late", "/run/slurm/conf/slurm.conf")
    login = cluster.pods.running["demo-login"]
    wait_for(lambda: login.run(*conf, check=False).strip() == "1", 20, "the new slurm.conf", lambda: login.log)
    assert "late" in cluster.as_alice("sinfo", "-h", "-o", "%P").split()


def test_a_bad_configuration_does_not_end_the_controller(cluster: Cluster) -> None:
    controller = cluster.pods.running["demo-controller-0"]
    path = cluster.pods.folder / "volumes" / "ctl-etc" / "slurm.conf"
    good = path.read_text()
    path.write_text(good + "PartitionName=broken Nodes=nobody-knows\n")
    try:
        controller.run("scontrol", "reconfigure", user="401:401", check=False)
    finally:
        path.write_text(good)
    assert controller.process.poll() is None
    assert "UP" in cluster.as_alice("scontrol", "ping")


def test_slurmrestd_answers_with_a_token(cluster: Cluster) -> None:
    token = cluster.pods.running["demo-controller-0"].run("scontrol", "token", user="401:401").strip().partition("=")[2]
    parser = "v0.0.42"
    said = cluster.pods.running["demo-restapi"].run(
        "curl", "-sS", "-H", f"X-SLURM-USER-TOKEN: {token}", f"http://127.0.0.1:6820/slurm/{parser}/nodes"
    )
    assert [node["name"] for node in json.loads(said)["nodes"]] == ["w-0"]


@pytest.mark.parametrize("signal", ["KILL", "TERM"])
def test_a_controller_that_ended_comes_back_with_its_state(cluster: Cluster, signal: str) -> None:
    # The job ends only after the controller is back: an end that a killed controller did not write down is lost to it.
    wait = f"until [ -e /tmp/go-{signal} ]; do sleep 0.1; done"
    job = cluster.as_alice("sbatch", "--parsable", "-o", "/dev/null", "--wrap", wait).split()[-1]
    wait_for(
        lambda: "R" in cluster.as_alice("squeue", "-h", "-j", job, "-o", "%t"),
        60,
        "a running job",
        lambda: cluster.as_alice("scontrol", "show", "job", job) + cluster.as_alice("sinfo", "-N", "-l"),
    )
    # What is younger than the last write of its state dies with a killed controller.
    cluster.as_alice("scontrol", "update", f"jobid={job}", f"comment=before-{signal}")
    # Slurm takes the old file away before the new one is there, so grep may find none.
    state = cluster.pods.folder / "volumes" / "ctl-state" / "job_state"
    found = ("grep", "-aqs", f"before-{signal}", str(state))
    wait_for(lambda: subprocess.run(found, check=False).returncode == 0, 20, "the state on disk")
    old = cluster.pods.running.pop("demo-controller-0")
    old.kill(signal)
    old.process.wait(timeout=30)
    old.delete()
    shutil.rmtree(old.folder)
    cluster.start_controller()
    cluster.pods.running["w-0"].run("touch", f"/tmp/go-{signal}")
    shown = ("sacct", "-nPX", "-j", job, "-o", "State")
    wait_for(lambda: cluster.as_alice(*shown).strip() == "COMPLETED", 60, "the job", lambda: cluster.as_alice(*shown))


def test_a_database_that_was_killed_comes_back_with_its_data(cluster: Cluster) -> None:
    before = cluster.as_alice("sacct", "-nPX", "-a", "-o", "JobID").split()
    old = cluster.pods.running.pop("db")
    old.kill("KILL")
    old.process.wait(timeout=30)
    old.delete()
    shutil.rmtree(old.folder)
    cluster.start_database()
    wait_for(
        lambda: cluster.as_alice("sacct", "-nPX", "-a", "-o", "JobID").split()[: len(before)] == before, 60, "sacct"
    )


def test_sshd_answers_in_the_login_pod(cluster: Cluster) -> None:
    said = cluster.pods.running["demo-login"].run("sh", "-c", "sleep 1 | nc -w 2 127.0.0.1 22")
    assert said.startswith("SSH-2.0-OpenSSH")


def test_a_worker_says_good_bye_and_ends_when_asked(cluster: Cluster) -> None:
    worker = cluster.pods.running["w-0"]
    worker.run("/usr/bin/sh", "-c", "scontrol update nodename=$(hostname) state=down reason='Pod is terminating'")
    assert "down" in cluster.as_alice("sinfo", "-h", "-o", "%t")
    worker.kill("TERM")
    assert worker.process.wait(timeout=20) == 0
