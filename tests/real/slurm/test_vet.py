"""The reconfigure sidecar's script against a real slurmctld: what gets in, what does not, and the way back.

The script runs as in its container: as Slurm's user, without capabilities or new privileges, with a read-only socket
folder; the volumes are folders whose `..data` link is moved as a kubelet does.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise

import pytest
from tests.real.slurm import rootfs
from tests.real.slurm.bad_configurations import EXTRA, FILES, ONLY_THE_LINTER
from tests.real.slurm.cluster import NODES, SLURM_CONF, Cluster, require_namespaces, wait_for

from slurm_operator.build import verdicts
from slurm_operator.build.sidecar import program
from slurm_operator.plan.config import locate
from slurm_operator.plan.daemons import CLOCK_SLACK_SECONDS
from slurm_operator.plan.lint import linted
from slurm_operator.status.config import shown

pytestmark = [pytest.mark.real_slurm, pytest.mark.timeout(300)]

CGROUP = "CgroupPlugin=disabled\n"
BASE = SLURM_CONF.replace("/etc/slurm/jwt_hs256.key", "/etc/slurm/jwt.key")
# What a restricted container runs with: no capabilities, none to gain, a socket folder that cannot be written to.
RESTRICTED = (
    "exec setpriv --reuid=64030 --regid=64030 --clear-groups --no-new-privs --bounding-set=-all --inh-caps=-all"
)
START = f"""
mount --bind /run/slurmctld /run/slurmctld && mount -o remount,ro,bind /run/slurmctld
CONFIG_GOOD_DIR=/cfg/good CONFIG_CANDIDATE_DIR=/cfg/candidate CONFIG_KEYS_DIR=/cfg/keys HOSTNAME=ctl \
  {RESTRICTED} bash /cfg/reconfigure.sh >/cfg/log 2>&1
"""
PREPARE = """
mkdir -p /cfg/good /cfg/candidate /cfg/keys
mv /etc/slurm/slurm.key /cfg/keys/; mv /etc/slurm/jwt_hs256.key /cfg/keys/jwt.key
rm -rf /etc/slurm/*; chown -R slurm /etc/slurm /cfg
"""


@dataclass
class Sidecar:
    """The running script and the volumes it reads."""

    cluster: Cluster
    process: subprocess.Popen[bytes] | None = None
    count: int = 0
    notes: dict[str, str] = field(default_factory=dict)

    def start(self) -> None:
        self.cluster.shell(PREPARE)
        self.write("/cfg/reconfigure.sh", program())
        self.publish({"slurm.conf": BASE, "cgroup.conf": CGROUP}, to="good")
        unshare = ("unshare", "-m", "--propagation", "private", "bash", "-c", START)
        self.process = subprocess.Popen([*self.cluster.enter(), *unshare])
        wait_for(lambda: self.last()[0] == "applied", 20, "the first verdict", self.log)

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(10)

    def write(self, path: str, text: str) -> None:
        command = [*self.cluster.enter(), "/bin/sh", "-c", f"cat > {shlex.quote(path)}"]
        subprocess.run(command, input=text.encode(), check=True, timeout=10)

    def publish(self, files: Mapping[str, str], *, to: str = "candidate", **note: str) -> str:
        """Put files in place as a kubelet does; gives their hash."""
        self.count += 1
        folder, version = f"/cfg/{to}", f"..{self.count}"
        self.cluster.run("mkdir", f"{folder}/{version}")
        for name, text in files.items():
            self.write(f"{folder}/{version}/{name}", text)
        if note:
            self.write(f"{folder}/{version}/.candidate", "".join(f"{key}={value}\n" for key, value in note.items()))
        self.cluster.shell(
            f"cd {folder}; chmod -R a+rX .; old=$(readlink ..data); ln -sfn {version} tmp; mv -T tmp ..data;"
            ' [ -z "$old" ] || rm -rf "$old"'
        )
        lines = "".join(f"{sha256(text.encode()).hexdigest()}  {name}\n" for name, text in sorted(files.items()))
        return sha256(lines.encode()).hexdigest()

    def log(self) -> str:
        return self.cluster.run("cat", "/cfg/log", check=False)

    def verdicts(self) -> list[Mapping[str, str]]:
        return [found.values for found in map(verdicts.read, self.log().splitlines()) if found]

    def last(self) -> tuple[str, str, str]:
        """Stage, hash and reason of the last verdict."""
        found = self.verdicts()
        return (found[-1]["stage"], found[-1]["hash"], found[-1]["reason"]) if found else ("", "", "")

    def judged(self, files: Mapping[str, str], *, seconds: float = 30, **note: str) -> tuple[str, str]:
        """Stage and reason of the verdict on these files."""
        before = len(self.verdicts())
        hash_ = self.publish(files, **note)
        wait_for(lambda: len(self.verdicts()) > before and self.last()[1] == hash_, seconds, "a verdict", self.log)
        return self.last()[0], self.last()[2]

    def reconfigures(self) -> int:
        return self.log().count("Reconfiguring Slurm...")


@pytest.fixture(scope="module", params=sorted(rootfs.SUITES))
def sidecar(request: pytest.FixtureRequest) -> Iterator[Sidecar]:
    """A cluster of its own for each version, whose /etc/slurm belongs to the script."""
    try:
        root = rootfs.provide(request.param)
        require_namespaces()
    except rootfs.CannotProvision as missing:
        pytest.skip(f"no real Slurm {request.param}: {missing}")
    cluster = Cluster(request.param, root)
    made = Sidecar(cluster)
    try:
        cluster.start()
        made.start()
        yield made
    finally:
        made.stop()
        cluster.stop()


def files(extra: str = "", **more: str) -> dict[str, str]:
    """The configuration that every test starts from, with lines and files added."""
    return {"slurm.conf": BASE + extra, "cgroup.conf": CGROUP, **more}


def in_force(sidecar: Sidecar) -> str:
    return sidecar.cluster.run("cat", "/etc/slurm/slurm.conf")


@pytest.fixture(autouse=True)
def base_afterwards(sidecar: Sidecar) -> Iterator[None]:
    """Every test finds the base in force."""
    yield
    assert sidecar.judged(files())[0] == "applied"


def test_a_good_candidate_is_in_force_when_its_verdict_comes(sidecar: Sidecar) -> None:
    assert sidecar.judged(files("PartitionName=more Nodes=compute MaxTime=5\n")) == ("applied", "")
    assert "MaxTime=00:05:00" in sidecar.cluster.run("scontrol", "show", "partition", "more")
    assert "PartitionName=more" in in_force(sidecar)


def test_files_beside_slurm_conf_come_and_go_with_the_swap(sidecar: Sidecar) -> None:
    sidecar.judged(files(**{"prolog.sh": "#!/bin/sh\n"}))
    assert sidecar.cluster.run("cat", "/etc/slurm/prolog.sh") == "#!/bin/sh\n"
    sidecar.judged(files())
    assert "prolog.sh" not in sidecar.cluster.run("ls", "/etc/slurm")
    assert {"slurm.key", "jwt.key"} <= set(sidecar.cluster.run("ls", "/etc/slurm").split())


CASES = {**{name: ({}, lines) for name, lines in EXTRA.items()}, **FILES}


@dataclass(frozen=True)
class Judgement:
    """Who refused a configuration, and how the condition puts it."""

    by: str
    message: str


def judge(sidecar: Sidecar, name: str) -> Judgement:
    """What the operator and the sidecar make of a bad configuration: the linter first, then Slurm."""
    more, extra = CASES[name]
    wanted = files(f"### EXTRA CONFIG ###\n{extra}\n", **more)
    found = linted(wanted, extra + "\n", sidecar.cluster.version)
    if found:
        return Judgement("linter", shown(found[0]))
    stage, reason = sidecar.judged(wanted)
    return Judgement(stage, f"{locate(wanted, reason)}: {reason}")


@pytest.mark.parametrize("name", CASES, ids=lambda name: name.replace(" ", "-"))
def test_a_bad_configuration_is_refused_and_nobody_notices(sidecar: Sidecar, name: str) -> None:
    before = sidecar.reconfigures()
    judgement = judge(sidecar, name)
    assert judgement.by in ("linter", "refused"), judgement
    assert re.match(r"[\w.]+:\d+: \S", judgement.message), judgement
    assert in_force(sidecar) == BASE
    assert sidecar.reconfigures() == before
    assert sidecar.cluster.controller_is_up()


WITHOUT_LINTER = sorted(CASES.keys() - ONLY_THE_LINTER)


@pytest.mark.parametrize("name", WITHOUT_LINTER, ids=lambda name: name.replace(" ", "-"))
def test_slurm_itself_would_refuse_it_too(sidecar: Sidecar, name: str) -> None:
    more, extra = CASES[name]
    stage, reason = sidecar.judged(files(f"{extra}\n", **more))
    assert (stage, bool(reason)) == ("refused", True)
    assert in_force(sidecar) == BASE


MAX_OUTAGE_SECONDS = 15.0
MISSING_FILE = ("included file is missing", "topology.conf is missing")
# A copy of the good file for the one who asks: a client that cannot read a bad one says nothing of slurmctld.
PINGS = """
cp /etc/slurm/* /cfg/pings/ 2>/dev/null; : > /cfg/pings/times; touch /cfg/pings/on
export SLURM_CONF=/cfg/pings/slurm.conf
while [ -e /cfg/pings/on ]; do
  timeout 3 scontrol ping | grep -q UP && echo $EPOCHREALTIME >> /cfg/pings/times
  sleep 0.05
done
"""


@pytest.fixture
def pings(sidecar: Sidecar) -> Iterator[Callable[[], float]]:
    """Asks slurmctld all the time; gives the longest silence so far in seconds."""
    sidecar.cluster.shell("mkdir -p /cfg/pings")
    process = subprocess.Popen([*sidecar.cluster.enter(), "bash", "-c", PINGS])

    def longest() -> float:
        count = len(times())
        wait_for(lambda: len(times()) > count, 60, "an answer of slurmctld")
        seen = times()
        return max((after - before for before, after in pairwise(seen)), default=0.0)

    def times() -> list[float]:
        return [float(line) for line in sidecar.cluster.run("cat", "/cfg/pings/times", check=False).split()]

    wait_for(lambda: len(times()) > 1, 30, "the first answers")
    yield longest
    # The end of `nsenter` is not the end of what it entered.
    sidecar.cluster.run("rm", "/cfg/pings/on")
    process.wait(10)


@pytest.mark.parametrize("name", WITHOUT_LINTER, ids=lambda name: name.replace(" ", "-"))
def test_without_the_check_a_bad_one_is_rolled_back(
    sidecar: Sidecar, pings: Callable[[], float], name: str, record_property: Callable[[str, object], None]
) -> None:
    job = sidecar.cluster.shell("cd /tmp; sbatch --parsable -n1 -o /dev/null --wrap='sleep 600'").strip()
    sidecar.cluster.wait_job(int(job))
    more, extra = CASES[name]
    stage, reason = sidecar.judged(files(f"{extra}\n", **more), seconds=90, check="off")
    silence = pings()
    record_property("silence", silence)
    print(f"OFF {sidecar.cluster.version} {name}: {stage} silence={silence:.2f} {reason}")
    # A missing file would silence slurmctld for a minute: it stays outside even then.
    assert (stage, bool(reason)) == ("refused" if name in MISSING_FILE else "rolledback", True)
    assert in_force(sidecar) == BASE
    assert silence <= MAX_OUTAGE_SECONDS
    assert "JobState=RUNNING" in sidecar.cluster.run("scontrol", "show", "job", job)
    sidecar.cluster.run("scancel", job)


def test_a_candidate_that_differs_in_nothing_to_reconfigure_is_only_swapped_in(sidecar: Sidecar) -> None:
    sidecar.judged(files("# one\n"), reconfigure="same")
    before = sidecar.reconfigures()
    assert sidecar.judged(files("# two\n"), reconfigure="same")[0] == "applied"
    assert sidecar.reconfigures() == before
    assert in_force(sidecar).endswith("# two\n")


def test_ten_quick_changes_need_few_reconfigures_and_the_last_one_wins(sidecar: Sidecar) -> None:
    before = sidecar.reconfigures()
    for number in range(9):
        sidecar.publish(files(f"# {number}\n"))
    assert sidecar.judged(files("# last\n"))[0] == "applied"
    assert in_force(sidecar).endswith("# last\n")
    assert sidecar.reconfigures() - before <= 5


def read_at(sidecar: Sidecar) -> int:
    """When slurmctld last read its files, in seconds."""
    found = re.findall(r" stage=applied .* at=(\d+) ", sidecar.log())
    return int(found[-1])


def with_all_nodes(cluster: Cluster) -> None:
    """Bring back what a slurmctld forgot that could not keep its state: a dynamic slurmd registers when it starts."""
    cluster.shell("squeue -h -o %A | xargs -r scancel")
    for index, name in enumerate(NODES):
        if name not in cluster.run("sinfo", "-h", "-N", "-o", "%N").split():
            cluster.kill_node(name)
            cluster.start_node(name, 17000 + index)
        cluster.wait_idle(name)


def test_while_jobs_wait_two_reconfigures_are_apart(sidecar: Sidecar) -> None:
    cluster = sidecar.cluster
    with_all_nodes(cluster)
    cluster.shell("for each in 1 2; do sbatch -N 3 --exclusive -o /dev/null --wrap 'sleep 120'; done")
    waiting, queue = ("squeue", "-h", "-t", "PD", "-o", "%r"), lambda: cluster.run("squeue")
    wait_for(lambda: {"Resources", "Priority"} & set(cluster.run(*waiting).split()), 60, "a job that waits", queue)
    try:
        times = []
        for number in range(2):
            assert sidecar.judged(files(f"MinJobAge={600 + number}\n"))[0] == "applied"
            times.append(read_at(sidecar))
    finally:
        cluster.shell("squeue -h -o %A | xargs -r scancel")
        wait_for(lambda: not cluster.run("squeue", "-h").strip(), 20, "an empty queue")
    assert times[1] - times[0] >= 5


def test_while_the_key_changes_nothing_is_reconfigured(sidecar: Sidecar) -> None:
    before = sidecar.reconfigures()
    sidecar.cluster.shell("cp -p /cfg/keys/slurm.key /cfg/key; printf x >> /cfg/keys/slurm.key")
    try:
        wanted = files("MinJobAge=311\n")
        hash_ = sidecar.publish(wanted)
        wait_for(lambda: "key is changing" in sidecar.log(), 30, "the sidecar holds it", sidecar.log)
        assert (in_force(sidecar), sidecar.reconfigures()) == (BASE, before)
    finally:
        sidecar.cluster.shell("cat /cfg/key > /cfg/keys/slurm.key")
    wait_for(lambda: sidecar.last()[:2] == ("applied", hash_), 30, "it goes on with the old key", sidecar.log)


def test_a_slurmd_that_got_a_configuration_has_started_anew(sidecar: Sidecar) -> None:
    """This is how the operator tells who lags: by SlurmdStartTime, against the verdict's `at`."""
    sidecar.judged(files("MinJobAge=312\n"))
    at = int(re.findall(r" at=(\d+) ", sidecar.log())[-1])
    assert at > 0

    def started() -> list[int]:
        shown = sidecar.cluster.shell("scontrol -o show node | grep -o 'SlurmdStartTime=[^ ]*'")
        stamps = [line.partition("=")[2] for line in shown.split()]
        return [int(sidecar.cluster.run("date", "-d", each, "+%s")) for each in stamps]

    wait_for(lambda: min(started()) >= at - CLOCK_SLACK_SECONDS, 20, "every slurmd has started anew")


def test_what_was_refused_and_taken_back_is_said_to_be_in_force(sidecar: Sidecar) -> None:
    sidecar.judged(files("Bogus=1\n"))
    assert sidecar.judged(files()) == ("applied", "in force already")


def test_no_trace_of_a_trial_is_left_running(sidecar: Sidecar) -> None:
    sidecar.judged(files("# trial\n"))
    running = sidecar.cluster.shell("grep -lz -- '[.][.]trial' /proc/[0-9]*/cmdline", check=False)
    assert running == ""
