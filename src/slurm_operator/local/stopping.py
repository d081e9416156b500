"""Stops the pods of a cluster whose parts have ended, and takes away what they left on the machine.

In: a data folder. Out: no container, network namespace, mount or cgroup of that cluster; its volumes and its store
stay. Called by `cluster.down` and `cluster.reset`. First, nodes with jobs are set down in Slurm, as at the end of any
worker pod, so that Slurm requeues or fails these jobs. Then containers are asked to end, so that databases close their
files; `node/cleanup.py` finds everything else by its name, also after a crash or a reboot.
"""

from __future__ import annotations

import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from kube_local.node import cleanup, host, records
from kube_local.node.paths import Paths
from slurm_operator.build.labels import CONTROLLER
from slurm_operator.build.nodeset import TERMINATING
from slurm_operator.local.home import Home
from slurm_operator.local.machine import which

GRACE_SECONDS = 10.0
MAX_CONCURRENT_STOPS = 16
_LOOK_SECONDS = 0.1
HOOK_SECONDS = 20
# What every worker's pod would do when it ends, in one call: only for nodes on which a job loses its processes, and not
# for drained ones, which keep the reason of their drain.
HOOK = f"""
busy=$(squeue --noheader --states=running,suspended --format=%N | paste --serial --delimiters=,)
[ "$busy" ] || exit 0
states=$(sinfo --all --noheader --Node --nodes="$busy" --format='%N %T')
nodes=$(echo "$states" | grep --invert-match drain | cut --delimiter=' ' --fields=1 | sort --unique)
[ "$nodes" ] || exit 0
scontrol update nodename="$(echo $nodes | tr ' ' ,)" state=down reason='{TERMINATING}'
"""


def stop_pods(home: Home, grace: float = GRACE_SECONDS) -> int:
    """Stop every container, politely first; answers how many pods there were."""
    paths = Paths.of(home.data)
    pods = records.all_pods(paths.pods)
    _end_containers(paths, grace)
    cleanup.remove_everything(home.data)
    return len(pods)


def has_pods(home: Home) -> bool:
    """Whether a pod of the cluster runs, or was left behind."""
    return bool(records.all_pods(Paths.of(home.data).pods))


def remove_folder(home: Home) -> None:
    """Everything else."""
    host.remove_tree(home.data)


def take_nodes_down(home: Home) -> None:
    """Let slurmctld requeue or fail running jobs, while DNS still works: its commands need that."""
    base, names = _containers(Paths.of(home.data))
    # A name is: uid of the pod, name of the container, number of its start.
    found = [name for name in names if name.split(".")[1:2] == [CONTROLLER.daemon]]
    command = ["timeout", str(HOOK_SECONDS), "/bin/sh", "-c", HOOK]
    for name in sorted(found)[:1]:
        # Do not wait long for a slurmctld that does not answer.
        with suppress(subprocess.TimeoutExpired):
            host.run_now([*base, "exec", name, *command], seconds=HOOK_SECONDS + 5)


def _containers(paths: Paths) -> tuple[list[str], list[str]]:
    """The runc command of this cluster, and the names of its containers; none if there is no runc."""
    runc = which("runc")
    names = [entry.name for entry in os.scandir(paths.runc)] if runc and paths.runc.is_dir() else []
    return [runc or "runc", f"--root={paths.runc}"], names


def _end_containers(paths: Paths, grace: float) -> None:
    base, names = _containers(paths)
    if not names:
        return
    deadline = time.monotonic() + grace
    with ThreadPoolExecutor(MAX_CONCURRENT_STOPS) as pool:
        if grace > 0:
            list(pool.map(lambda name: host.run_now([*base, "kill", name, "TERM"]), names))
            _wait(_processes(paths), deadline)
        list(pool.map(lambda name: host.run_now([*base, "delete", "--force", name]), names))


def _wait(processes: list[tuple[int, str]], deadline: float) -> None:
    while any(host.is_alive(pid, started) for pid, started in processes) and time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)


def _processes(paths: Paths) -> list[tuple[int, str]]:
    """The first process of each container."""
    files = paths.pods.glob("*/containers/*/container.json")
    found = (records.load(file, records.ContainerRecord) for file in files)
    return [(record.pid, record.pid_start) for record in found if record is not None and record.pid]
