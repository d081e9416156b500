"""Host names that two workers of a Slurm would have: whose each is.

In: the host names of a NodeSet, and the other NodeSets of its Slurm. Out: of each name that another has, who has it.
A name is a Slurm node, and only one NodeSet writes to its record: the one that the record names, if it still wants it;
else one that has a pod of that name; else the older. Everybody comes to the same answer. NodeSets of other Controllers,
and of other namespaces, may join the same Slurm without saying so: a record that names one of them tells. Within a
NodeSet (DaemonSet mode, where `k9.rack1` and `k9.rack2` are both `k9`) it is the first pod by the name of its
Kubernetes node. Pure; used by `plan/nodeset.py` and `status/nodeset.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import hostnames, labels
from slurm_operator.plan.registration import read_pod_info
from slurm_operator.plan.workers import NodeSnapshot, Worker
from slurm_operator.slurm.model import Node, SlurmList


@dataclass(frozen=True, slots=True)
class Rival:
    """Another NodeSet of the Slurm."""

    cr: NodeSet
    # The host names of its pods.
    held: frozenset[str] = frozenset()
    # In DaemonSet mode: those of the Kubernetes nodes that it wants a worker on.
    wanted: frozenset[str] = frozenset()
    # Whether it has no more than that: it may be of another Slurm but for what a record says.
    only_held: bool = False

    def claims(self, own: NodeSet, names: frozenset[str]) -> Iterator[str]:
        """Which of another NodeSet's host names it has or wants too."""
        yield from names & self.held
        if self.only_held or self.cr.metadata.deletion_timestamp:
            return
        yield from names & self.wanted
        if hostnames.is_numbered(self.cr) and (not hostnames.is_numbered(own) or hostnames.are_related(own, self.cr)):
            yield from (name for name in names if hostnames.has_number(self.cr, name))


def taken(
    cr: NodeSet, names: frozenset[str], held: frozenset[str], rivals: Iterable[Rival], slurm: NodeSnapshot
) -> dict[str, str]:
    """By host name: the other NodeSet that it belongs to. `held` are those of the NodeSet's own pods."""
    claimants: dict[str, list[Rival]] = {}
    for rival in rivals:
        for name in set(rival.claims(cr, names)):
            claimants.setdefault(name, []).append(rival)
    recorded = _recorded(slurm, claimants.keys()) if claimants else {}
    own = Rival(cr, held)
    found: dict[str, str] = {}
    for name, others in claimants.items():
        first = min([own, *others], key=lambda each: _rank(each, name, recorded.get(name, "")))
        if first is not own:
            place = f" in namespace {first.cr.namespace}" if first.cr.namespace != cr.namespace else ""
            found[name] = f"NodeSet {first.cr.name}{place}"
    return found


def _rank(rival: Rival, name: str, recorded: str) -> tuple[bool, bool, str, str]:
    meta = rival.cr.metadata
    return (meta.uid != recorded, name not in rival.held, meta.creation_timestamp or "", meta.uid)


def _recorded(slurm: NodeSnapshot, names: Iterable[str]) -> dict[str, str]:
    """The NodeSets that these node records name, by uid."""
    wanted = set(names)
    nodes = slurm.nodes.items if isinstance(slurm.nodes, SlurmList) else ()
    return {node.name: str(read_pod_info(node.comment).get("nodeSetUID")) for node in nodes if node.name in wanted}


def named_owners(cr: NodeSet, held: frozenset[str], slurm: NodeSnapshot) -> dict[tuple[str, str, str], frozenset[str]]:
    """By namespace, name and uid: other NodeSets that records of this one's host names name, and these names."""
    found: dict[tuple[str, str, str], frozenset[str]] = {}
    for node in _of_our_names(cr, held, slurm):
        info = read_pod_info(node.comment)
        owner = (info.get("namespace", ""), info.get("nodeSetName", ""), info.get("nodeSetUID", ""))
        if all(owner):
            found[owner] = found.get(owner, frozenset()) | {node.name}
    return found


def _of_our_names(cr: NodeSet, held: frozenset[str], slurm: NodeSnapshot) -> Iterator[Node]:
    """Records of this NodeSet's host names that do not name it."""
    prefix = hostnames.prefix(cr)
    for node in slurm.nodes.items if isinstance(slurm.nodes, SlurmList) else ():
        # Most are its own, which are told apart the quickest.
        if cr.metadata.uid in node.comment:
            continue
        if node.name in held or (node.name.startswith(prefix) and hostnames.has_number(cr, node.name)):
            yield node


def twins(workers: Iterable[Worker]) -> Mapping[str, str]:
    """By pod: the pod of the same NodeSet that has its host name already."""
    first: dict[str, Worker] = {}
    found: dict[str, str] = {}
    for worker in sorted(workers, key=lambda each: (_place(each), each.name)):
        other = first.setdefault(worker.hostname, worker)
        if worker.hostname and other is not worker:
            found[worker.name] = f"pod {other.name} on node {_place(other) or 'unknown'}"
    return found


def _place(worker: Worker) -> str:
    return worker.pod.spec.node_name or worker.pod.metadata.annotations.get(labels.ASSIGNED_NODE, "")
