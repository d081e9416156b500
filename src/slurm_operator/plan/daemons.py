"""Which daemons run with the configuration in force, as far as it can be known without a command in their pods.

In: Slurm's node records, the pods of slurmrestd and of logins, and when slurmctld last read its files. Out: one
`Census` for each kind of daemon. A slurmd restarts at each reconfigure that reaches it (24.11 and 26.05 alike), so
one whose record has an older start has missed it. slurmrestd reads slurm.conf when it starts; sackd of a login pod is
sent each new configuration, and nobody records whether it came. Pure; called by `status/cluster.py`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from kube_runtime.client.objects import Pod
from kube_runtime.times import parse_seconds
from slurm_operator.slurm.model import Node

# Clocks of nodes differ a little, and Slurm counts whole seconds.
CLOCK_SLACK_SECONDS = 2.0
NO_SLURMD = frozenset({"DOWN", "NOT_RESPONDING", "FUTURE", "UNKNOWN", "POWERED_DOWN"})
AT_START = "reads slurm.conf when it starts, and started before it changed"
SENT = "sackd is sent each new configuration; whether it arrived is not recorded"


@dataclass(frozen=True, slots=True)
class Census:
    """The daemons of one kind."""

    daemon: str
    total: int
    # Names of those that have another configuration, and of those of which nobody can say.
    behind: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    why: str = ""

    @property
    def current(self) -> int:
        """How many run with the one in force."""
        return self.total - len(self.behind) - len(self.unknown)


def of_nodes(nodes: Iterable[Node], read_at: float | None) -> Census:
    """The slurmds of a cluster; `read_at` is when slurmctld last read its files, and sent them to all."""
    known = tuple(nodes)
    if read_at is None:
        names = tuple(sorted(node.name for node in known))
        return Census("slurmd", len(known), unknown=names, why="it is not known when slurmctld read its files")
    # A set: of ten thousand, half may be silent and half behind.
    silent = {node.name for node in known if not node.slurmd_start_time or not NO_SLURMD.isdisjoint(node.states)}
    oldest = read_at - CLOCK_SLACK_SECONDS
    behind = sorted(node.name for node in known if node.slurmd_start_time < oldest and node.name not in silent)
    why = "has not restarted since slurmctld read its files" if behind else "does not answer" if silent else ""
    return Census("slurmd", len(known), tuple(behind), tuple(sorted(silent)), why)


def of_pods(daemon: str, pods: Iterable[Pod], changed_at: float | None, why: str) -> Census:
    """Daemons that read their files at least when they start: of older ones nobody can say."""
    known = sorted(pods, key=lambda pod: pod.metadata.name)
    old = tuple(pod.metadata.name for pod in known if not _started_after(pod, changed_at))
    return Census(daemon, len(known), unknown=old, why=why if old else "")


def _started_after(pod: Pod, time: float | None) -> bool:
    started = parse_seconds(pod.status.start_time)
    return time is not None and started is not None and started >= time
