"""Which nodes lack only memory for a job, how much they have left, and how much less would let it start now.

In: a job that waits, and its `Room`. Out: text, and MiB. Pure; used by `diagnose/short_of_nodes.py`. A job that says
nothing of memory gets all of a node's, unless the configuration has a default: then two small jobs never share a node,
which nobody expects.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from slurm_operator.diagnose.facts import Slurm, SlurmJob, SlurmNode
from slurm_operator.diagnose.room import Room, is_free_but_for_memory, is_short_of_memory, memory_free

MAX_NAMED = 3


def nodes_short(job: SlurmJob, slurm: Slurm, room: Room) -> list[SlurmNode]:
    """The nodes that would take it if they had more memory left; those with most of it first."""
    busy = (slurm.nodes[name] for name in room.busy)
    short = (node for node in busy if is_short_of_memory(job, node, room.cpus))
    found = [node for node in short if is_free_but_for_memory(job, node, room.cpus)]
    return sorted(found, key=lambda node: (-memory_free(node), node.name))


def why_all(job: SlurmJob, wanted: int) -> str:
    """Why it needs a node's memory whole."""
    whole = "all of its memory" if wanted == 1 else "all memory of each"
    return (
        f" and {whole} ({job.whole_memory_mib} MiB), since neither the job (--mem) nor the configuration "
        "(DefMemPerCPU, DefMemPerNode) sets less"
    )


def left(short: Sequence[SlurmNode]) -> str:
    """How much memory such nodes have left."""
    return ", ".join(f"{node.name} has {memory_free(node)} of {node.memory_mib} MiB free" for node in short[:MAX_NAMED])


def less(short: Sequence[SlurmNode], free: Iterable[SlurmNode], missing: int, cpus: int) -> int:
    """MiB on each node with which it would start now: the share of its CPUs, or what is left; 0 where none would do."""
    chosen = short[:missing]
    if len(chosen) < missing:
        return 0
    shares = (node.memory_mib * cpus // node.cpus for node in (*chosen, *free) if node.cpus)
    return min([*shares, *(memory_free(node) for node in chosen)])
