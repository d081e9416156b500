"""What a person does with a cluster in an hour of trying it out: deeds, most of which are left half done.

In: a cluster of the demonstration, and a source of chance. Out: `play`, a deed a minute without the minutes between
them, and `leave`, which leaves behind what a person forgets. Called by `test_played.py`. A deed never waits for what it
began, and Slurm or Kubernetes may refuse it: that is play too.
"""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Callable
from dataclasses import dataclass

from tests.real.local.e2e.cluster import CORDON
from tests.real.local.test_down_up import Cluster

EXTRA = "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\n"
NODESET = """\
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {{name: {name}, namespace: slurm}}
spec: {{controllerRef: {{name: slurm}}, replicas: 1, oversubscribeNode: true, partition: {{enabled: true}}{more}}}
"""
PARTITION = """\
apiVersion: slinky.slurm.net/v1beta1
kind: Partition
metadata: {{name: {name}, namespace: slurm}}
spec: {{controllerRef: {{name: slurm}}, nodeSets: [{nodeset}], maxTime: "{minutes}"}}
"""
BROKEN_CLAIM = """\
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: forgotten, namespace: slurm}
spec: {accessModes: [ReadWriteOnce], storageClassName: nosuch, resources: {requests: {storage: 1Gi}}}
"""
Deed = Callable[["Player"], object]


@dataclass
class Player:
    """A person at the keyboard, once as alice and once as the administrator."""

    cluster: Cluster
    chance: random.Random

    def alice(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.as_alice(command)

    def admin(self, command: str) -> subprocess.CompletedProcess[str]:
        return self.cluster.attempt("exec", "slurm-controller-0", "-c", "slurmctld", "--", "sh", "-c", command)

    def kubectl(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        return self.cluster.attempt(*arguments, stdin=stdin)

    def slurm(self, *arguments: str) -> object:
        return self.cluster.local("kubectl", "--", "slurm", *arguments, "-n", "slurm", check=False)

    def apply(self, text: str) -> subprocess.CompletedProcess[str]:
        return self.kubectl("apply", "-f", "-", stdin=text)

    def patch(self, kind: str, name: str, spec: object) -> subprocess.CompletedProcess[str]:
        return self.kubectl("patch", kind, name, "--type=merge", "-p", json.dumps({"spec": spec}))

    def node(self) -> str:
        """Some node that Slurm has."""
        found = self.alice("sinfo -h -N -o %N").stdout.split()
        return self.chance.choice(sorted(found) or ["compute-0"])

    def job(self) -> str:
        """Some job of alice's."""
        return self.chance.choice(self.alice("squeue -h -u alice -o %i").stdout.split() or ["1"])

    def worker(self) -> str:
        """Some worker pod."""
        found = self.cluster.objects("pods", "-l", "app.kubernetes.io/name=slurmd")
        names = [str(pod["metadata"]["name"]) for pod in found]
        return self.chance.choice(names or ["nosuch"])


def _scale(player: Player) -> None:
    name, replicas = player.chance.choice([("compute", 1), ("compute", 4), ("debug", 0), ("debug", 2), ("mine", 3)])
    player.kubectl("scale", "nodeset", name, f"--replicas={replicas}")


def _kill(player: Player) -> None:
    pods = [name for name in player.cluster.pods() if "mariadb" not in name]
    player.kubectl("delete", "pod", player.chance.choice(pods), "--wait=false")


def _partition(player: Player) -> None:
    nodeset, minutes = player.chance.choice(["compute", "debug", "mine"]), player.chance.randint(5, 50)
    player.apply(PARTITION.format(name="extra", nodeset=nodeset, minutes=minutes))


def _down_and_up(player: Player) -> None:
    # One that is left down is left to whoever set it down: it keeps its NodeSet from being deleted.
    node = player.node()
    player.admin(f"scontrol update nodename={node} state=down reason=trying")
    player.admin(f"scontrol update nodename={node} state=resume")


DEEDS: dict[str, Deed] = {
    "a short job": lambda p: p.alice("sbatch -o /dev/null --wrap 'srun hostname'"),
    "a long job": lambda p: p.alice("sbatch -o /dev/null -t 50 --wrap 'sleep 2400'"),
    "a job on all nodes": lambda p: p.alice("sbatch -o /dev/null -N2 --exclusive --wrap 'srun sleep 20'"),
    "an array": lambda p: p.alice("sbatch -o /dev/null -a 1-12%3 --wrap 'sleep 5'"),
    "a job that fails": lambda p: p.alice("sbatch -o /dev/null --wrap 'exit 3'"),
    "a job that nobody can run": lambda p: p.alice("sbatch -o /dev/null -N40 --wrap true"),
    "a job that waits for another": lambda p: p.alice(f"sbatch -o /dev/null -d afterok:{p.job()} --wrap true"),
    "a job for tomorrow": lambda p: p.alice("sbatch -o /dev/null -b tomorrow --wrap true"),
    "a job that is too long": lambda p: p.alice("sbatch -o /dev/null -p debug -t 600 --wrap true"),
    "an srun that is left alone": lambda p: p.alice("nohup srun sleep 600 >/dev/null 2>&1 &"),
    "an allocation that is left alone": lambda p: p.alice("salloc --no-shell -t 20 >/dev/null 2>&1 &"),
    "a hold": lambda p: p.alice(f"scontrol hold {p.job()}"),
    "a requeue": lambda p: p.alice(f"scontrol requeue {p.job()}"),
    "a cancel": lambda p: p.alice(f"scancel {p.job()}"),
    "a suspend": lambda p: p.admin(f"scontrol suspend {p.job()}"),
    "a drain by scontrol": lambda p: p.admin(f"scontrol update nodename={p.node()} state=drain reason=trying"),
    "a resume by scontrol": lambda p: p.admin(f"scontrol update nodename={p.node()} state=resume"),
    "a node down by scontrol, and up again": _down_and_up,
    "a partition down by scontrol": lambda p: p.admin("scontrol update partitionname=compute state=down"),
    "a reservation": lambda p: p.admin(
        f"scontrol create reservation starttime=now duration=30 users=root nodes={p.node()}"
    ),
    "a reconfigure": lambda p: p.admin("scontrol reconfigure"),
    "a restart of slurmctld": lambda p: p.admin("kill -9 $(pidof slurmctld)"),
    "a drain by kubectl slurm": lambda p: p.slurm("drain", p.node(), "--reason", "trying"),
    "an undrain by kubectl slurm": lambda p: p.slurm("undrain", p.node()),
    "a cordon by annotation": lambda p: p.kubectl("annotate", "pod", p.worker(), f"{CORDON}=true", "--overwrite"),
    "no cordon": lambda p: p.kubectl("annotate", "pod", p.worker(), f"{CORDON}-"),
    "another size": _scale,
    "a pod that is deleted": _kill,
    "a NodeSet": lambda p: p.apply(NODESET.format(name="mine", more="")),
    "a NodeSet of no image": lambda p: p.apply(NODESET.format(name="noimage", more=', slurmd: {image: "x/y:nosuch"}')),
    "a NodeSet that goes": lambda p: p.kubectl(
        "delete", "nodeset", p.chance.choice(["mine", "noimage", "debug"]), "--wait=false"
    ),
    "a Partition": _partition,
    "a Partition that goes": lambda p: p.kubectl("delete", "partition", "extra", "--wait=false"),
    "an option": lambda p: p.patch("controller", "slurm", {"extraConf": f"{EXTRA}MinJobAge=600\n"}),
    "an option that is none": lambda p: p.patch("controller", "slurm", {"extraConf": f"{EXTRA}Nonsense=1\n"}),
    "a plugin that stops workers": lambda p: p.patch("controller", "slurm", {"extraConf": "TaskPlugin=task/cgroup\n"}),
    "a limit of a partition": lambda p: p.patch(
        "nodeset", "compute", {"partition": {"enabled": True, "config": "Default=YES MaxNodes=3"}}
    ),
    "another environment of workers": lambda p: p.patch(
        "nodeset", "debug", {"slurmd": {"env": [{"name": "TRIED", "value": str(p.chance.random())}]}}
    ),
    "why": lambda p: p.slurm("why", f"job/{p.job()}"),
    "doctor": lambda p: p.slurm("doctor"),
    "status": lambda p: p.slurm("status"),
}


def play(player: Player, count: int) -> list[str]:
    """So many deeds; each kind once before any comes again. Answers what was done."""
    done: list[str] = []
    while len(done) < count:
        names = list(DEEDS)
        player.chance.shuffle(names)
        done.extend(names[: count - len(done)])
    for name in done:
        DEEDS[name](player)
    return done


def leave(player: Player) -> str:
    """What is forgotten at the end, whatever chance brought; answers the node that is drained and reserved then."""
    player.apply(NODESET.format(name="noimage", more=', slurmd: {image: "x/y:nosuch"}'))
    player.apply(BROKEN_CLAIM)
    player.patch("controller", "slurm", {"extraConf": f"{EXTRA}Nonsense=1\n"})
    node = player.node()
    # Whatever else the person has reserved on it.
    reserved = f"starttime=now duration=600 users=root flags=ignore_jobs,overlap nodes={node}"
    said: list[str] = []

    def is_made() -> bool:
        done = player.admin(f"scontrol create reservation reservationname=forgotten {reserved}")
        said.append(done.stderr.strip())
        return done.returncode == 0

    try:
        player.cluster.until("a reservation is left behind", is_made)
    except AssertionError as error:
        raise AssertionError(f"{error}: {said[-1]}") from None
    player.cluster.admin(f"scontrol update nodename={node} state=drain reason=forgotten")
    return node
