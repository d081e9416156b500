"""What `kubectl slurm` changes: always the resource, never Slurm behind its back, so that at once and for good are one.

In: a client and what is wanted. Out: what Slurm came to say, and how long that took.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime.client.client import Client
from kube_runtime.client.objects import NODES, PODS, RawObject, Resource
from kube_runtime.client.write import Writer
from slurm_operator.build import labels
from slurm_operator.build.partition import adoption
from slurm_operator.cli.waiting import Reason, until
from slurm_operator.diagnose.facts import Object, condition_of, host_of, status_of
from slurm_operator.reconcile.resources import ALL, OURS
from slurm_operator.slurm import hostlist

MANAGER = "kubectl-slurm"
POLL_SECONDS = 0.05
HELM_LABEL = "app.kubernetes.io/managed-by"
HELM_RELEASE = "meta.helm.sh/release-name"
HELM_NAMESPACE = "meta.helm.sh/release-namespace"


@dataclass(frozen=True, slots=True)
class Done:
    """How a change ended."""

    sentence: str
    seconds: float
    reconciled: bool


@dataclass(frozen=True, slots=True)
class Changes:
    """Writes in one namespace."""

    client: Client
    namespace: str

    @property
    def writer(self) -> Writer:
        """Writes under a name of its own, so that one can see who set what."""
        return Writer(self.client, resources=ALL, field_manager=MANAGER)

    async def get(self, resource: Resource[Any], name: str) -> RawObject:
        """One object."""
        return await self.client.get(resource.raw(), name, self.namespace if resource.namespaced else "")

    async def partition(self, name: str, spec: Mapping[str, Any], seconds: float) -> Done:
        """Change a Partition and wait for Slurm's own answer."""
        began = time.monotonic()
        patched = await self.writer.patch(OURS["Partition"], name, {"spec": dict(spec)}, self.namespace)
        state = str(spec.get("state") or "")
        return await self._wait_until_reconciled(name, patched.metadata.generation, state, began, seconds)

    async def _wait_until_reconciled(
        self, name: str, generation: int, state: str, began: float, seconds: float
    ) -> Done:
        reason = "the operator has not reconciled it yet"

        async def is_so() -> bool:
            nonlocal reason
            content = (await self.get(OURS["Partition"], name)).content()
            if int(status_of(content).get("observedGeneration") or 0) < generation:
                return False
            ready = condition_of(content, "Ready") or {}
            reason = str(ready.get("message", ""))
            return is_as_asked(ready, state)

        async def why() -> Reason:
            return Reason(reason, f"kubectl slurm -n {self.namespace} why partition/{name}")

        what = f"Slurm has partition {name} as asked"
        waited = await until(what, is_so, why, seconds, look_seconds=POLL_SECONDS)
        return Done(reason, time.monotonic() - began, waited.is_so)

    async def edit_nodes(self, name: str, change: str, seconds: float) -> Done:
        """Add hosts to a Partition, or take them away, whatever list it has now."""
        current = (await self.get(OURS["Partition"], name)).content()
        nodes = merged_edit(str((current.get("spec") or {}).get("nodes") or ""), change)
        return await self.partition(name, {"nodes": nodes}, seconds)

    async def worker(self, name: str) -> RawObject | None:
        """The pod of a Slurm node, by either name."""
        listing = await self.client.list(
            PODS.raw(), self.namespace, label_selector=f"{labels.NAME}={labels.WORKER.daemon}"
        )
        return next((pod for pod in listing.items if name in (pod.metadata.name, host_of(pod.content()))), None)

    async def cordon(self, pod: RawObject, on: bool) -> None:
        """Let a worker take no jobs, or take them again."""
        value = "true" if on else None
        annotations: dict[str, str | None] = {labels.POD_CORDON: value}
        if not on:
            annotations[labels.OLD_POD_CORDON] = None
        await self.writer.patch(
            PODS, pod.metadata.name, {"metadata": {"annotations": annotations}}, self.namespace, uid=pod.metadata.uid
        )

    async def cordon_node(self, name: str, on: bool, reason: str) -> None:
        """Cordon a Kubernetes node, with a reason that becomes Slurm's."""
        annotations = {labels.NODE_CORDON_REASON: reason or None if on else None}
        patch = {"spec": {"unschedulable": on}, "metadata": {"annotations": annotations}}
        await self.writer.patch(NODES, name, patch)

    async def adopt(self, kind: str, name: str, release: str) -> None:
        """Hand a resource to a Helm release, or take it back when no release is named."""
        labelled = {HELM_LABEL: "Helm" if release else None}
        place = {HELM_RELEASE: release or None, HELM_NAMESPACE: self.namespace if release else None}
        patch = {"metadata": {"labels": labelled, "annotations": place}}
        await self.writer.patch(OURS[kind], name, patch, self.namespace)


def is_as_asked(ready: Mapping[str, Any], state: str) -> bool:
    """Whether a Partition's Ready tells of the state that was asked for; any will do where none was."""
    if ready.get("status") == "True":
        return state in ("", "UP")
    return ready.get("reason") == "NotUp" and (not state or str(ready.get("message", "")).endswith(state))


def merged_edit(current: str, change: str) -> str:
    """A host list, or an edit of one, with one more edit: `+a,-b` items stay edits, plain lists are changed."""
    if not current:
        return change
    if current[0] in "+-":
        kept = [item for item in items_of(current) if item[1:] not in {other[1:] for other in items_of(change)}]
        return ",".join([*kept, *items_of(change)])
    return hostlist.compress(hostlist.edit(hostlist.expand(current), change))


def items_of(text: str) -> list[str]:
    """The signed items of an edit; commas in brackets part nothing."""
    items, depth, start = [], 0, 0
    for at, letter in enumerate(text):
        depth += (letter == "[") - (letter == "]")
        if letter == "," and depth == 0:
            items.append(text[start:at])
            start = at + 1
    return [item for item in [*items, text[start:]] if item]


def drift_patch(partition: Object) -> dict[str, Any]:
    """What to write into a Partition so that it says what Slurm has now."""
    rows = status_of(partition).get("drift") or ()
    return adoption((str(row.get("field")), str(row.get("found", ""))) for row in rows)
