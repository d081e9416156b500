"""Which nodes lack only memory for a job, how much they have left, and how much less would let it start now.

In: a job that waits, and its `Room`. Out: text, and MiB. Pure; used by `diagnose/short_of_nodes.py`. A job that says
nothing of memory gets all of a node's, unless the configuration has a default: then two small jobs never share a node,
which nobody expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from slurm_operator.diagnose.facts import Slurm, SlurmJob, SlurmNode
from slurm_operator.diagnose.room import Room, is_free_but_for_memory, is_short_of_memory, memory_free

MAX_NAMED = 3


@dataclass(frozen=True, slots=True)
class Shortage:
    """What is said of memory; nothing where other things are missing."""

    # Why it needs a node's memory whole.
    whole: str = ""
    # How much the nodes have left.
    left: str = ""
    # MiB on each node with which it would start now; 0 where less would not do, or it says how much it needs.
    less: int = 0


def shortage(job: SlurmJob, slurm: Slurm, room: Room, wanted: int) -> Shortage:
    """Whether memory is what its nodes lack."""
    short = _short(job, slurm, room)
    if not short:
        return Shortage()
    if not job.whole_memory_mib:
        return Shortage(left=_left(short))
    chosen = short[: wanted - len(room.free)]
    used = (*chosen, *(slurm.nodes[name] for name in room.free))
    return Shortage(_whole(job, wanted), _left(short), _less(used, room.cpus) if len(used) >= wanted else 0)


def _short(job: SlurmJob, slurm: Slurm, room: Room) -> list[SlurmNode]:
    """The nodes that would take it if they had more memory left; those with most of it first."""
    busy = (slurm.nodes[name] for name in room.busy)
    short = (node for node in busy if is_short_of_memory(job, node, room.cpus))
    found = [node for node in short if is_free_but_for_memory(job, node, room.cpus)]
    return sorted(found, key=lambda node: (-memory_free(node), node.name))


def _whole(job: SlurmJob, wanted: int) -> str:
    memory = "all of its memory" if wanted == 1 else "all memory of each"
    return (
        f" and {memory} ({job.whole_memory_mib} MiB), since neither the job (--mem) nor the configuration "
        "(DefMemPerCPU, DefMemPerNode) sets less"
    )


def _left(short: Sequence[SlurmNode]) -> str:
    return ", ".join(f"{node.name} has {memory_free(node)} of {node.memory_mib} MiB free" for node in short[:MAX_NAMED])


def _less(nodes: Iterable[SlurmNode], cpus: int) -> int:
    """The share of its CPUs in a node's memory, or what is left."""
    return min(min(node.memory_mib * cpus // max(node.cpus, 1), memory_free(node)) for node in nodes)
