"""What `kubectl slurm` changes: always the resource, never Slurm behind its back, so that at once and for good are one.

In: a client and what is wanted. Out: what Slurm came to say, and how long that took.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kube_runtime.client.client import Client
from kube_runtime.client.errors import Conflict, KubeError
from kube_runtime.client.objects import NODES, PODS, RawObject, Resource
from kube_runtime.client.write import Writer
from slurm_operator.api import text
from slurm_operator.build import labels
from slurm_operator.cli.kubectl.gather import SlurmRefused, scontrol
from slurm_operator.cli.kubectl.options import nodeset_patch, partition_patch, written
from slurm_operator.cli.waiting import Reason, until
from slurm_operator.diagnose.facts import Facts, Object, condition_of, spec_of, status_of
from slurm_operator.diagnose.partition_owner import Owner, partition_config
from slurm_operator.diagnose.scontrol import arguments, node_names, partitions
from slurm_operator.plan.partition_fields import Line, canonical, changed_options, differences, unsettable
from slurm_operator.reconcile.resources import ALL, OURS
from slurm_operator.slurm import hostlist
from slurm_operator.slurm.errors import SlurmError
from slurm_operator.slurm.model import Partition

MANAGER = "kubectl-slurm"
POLL_SECONDS = 0.05
# Slurm itself is asked with a command in its pod, which costs more.
SLURM_POLL_SECONDS = 0.25
# From then on, what a Controller says about a partition is about this change and not the one before.
REFUSAL_SECONDS = 3.0
MAX_CONFLICTS = 5
NOT_RECONCILED = "the operator has not reconciled it yet"
# Reasons of conditions that waiting does not change.
NOT_DONE = frozenset({"RefusedBySlurm", "LinterRefused", "NeedsNewPartition", "NodesNotTakenOut", "NodesNotAdded"})
HELM_LABEL = "app.kubernetes.io/managed-by"
HELM_RELEASE = "meta.helm.sh/release-name"
HELM_NAMESPACE = "meta.helm.sh/release-namespace"


@dataclass(frozen=True, slots=True)
class Done:
    """How a change ended."""

    sentence: str
    seconds: float
    reconciled: bool
    # It was refused, and waiting does not change that.
    refused: bool = False
    # What happened to the resource after a refusal; empty if it still has the change.
    taken_back: str = ""


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

    async def resources(self) -> Facts:
        """The resources that declare partitions, and the pods: everything that a change depends on."""
        read: tuple[Resource[Any], ...] = (OURS["Controller"], OURS["NodeSet"], OURS["Partition"], PODS)
        listings = [await self.client.list(each.raw(), self.namespace) for each in read]
        objects = {
            each.kind: {item.metadata.name: item.content() for item in listing.items}
            for each, listing in zip(read, listings, strict=True)
        }
        return Facts(self.namespace, objects)

    async def set_options(self, facts: Facts, owner: Owner, options: Mapping[str, str], seconds: float) -> Done:
        """Change options of a partition in the resource that has it, and wait until Slurm has them."""
        began = time.monotonic()
        if owner.kind == "NodeSet":
            before, after = await self._patched(owner, lambda found: nodeset_patch(found, options))
            change = _Change(owner, options, partition_config(before), partition_config(after.content()))
            done = await self._wait_for_slurm(facts, change, began, seconds)
        else:
            before, after = await self._patched(owner, lambda found: partition_patch(found, options))
            state = options.get("State", "") or ("UP" if "State" in options else "")
            generation = after.metadata.generation
            done = await self._wait_until_reconciled(owner.name, generation, state.upper(), began, seconds)
        return await self._taken_back(owner, before, after, done) if done.refused else done

    async def _taken_back(self, owner: Owner, before: Object, after: RawObject, done: Done) -> Done:
        """Restore the resource that a refused change was written to, unless somebody has changed it since."""
        ours, kept = spec_of(after.content()), f"{owner.place} still asks for it"
        undo = reverse(spec_of(before), ours)
        try:
            now = await self.get(OURS[owner.kind], owner.name)
            if spec_of(now.content()) != ours:
                return replace(done, taken_back=f"{kept}: somebody else has changed {owner.place} since")
            meta = now.metadata
            await self.writer.patch(
                OURS[owner.kind],
                owner.name,
                {"spec": undo},
                self.namespace,
                uid=meta.uid,
                resource_version=meta.resource_version,
            )
        except KubeError as error:
            return replace(done, taken_back=f"{kept}: {error}")
        return replace(done, taken_back=f"{owner.place} is as it was before")

    async def edit_nodes(self, owner: Owner, change: str, seconds: float) -> Done:
        """Add hosts to a Partition or remove them, starting from its current list."""
        began = time.monotonic()
        before, after = await self._patched(
            owner, lambda found: {"nodes": merged_edit(str(spec_of(found).get("nodes") or ""), change)}
        )
        done = await self._wait_until_reconciled(owner.name, after.metadata.generation, "", began, seconds)
        return await self._taken_back(owner, before, after, done) if done.refused else done

    async def _patched(self, owner: Owner, patch: Callable[[Object], Mapping[str, Any]]) -> tuple[Object, RawObject]:
        """Change the spec of exactly the version that was read, so that nobody else's change is lost."""
        resource, tries = OURS[owner.kind], 0
        while True:
            seen = await self.get(resource, owner.name)
            spec, meta = {"spec": dict(patch(seen.content()))}, seen.metadata
            try:
                return seen.content(), await self.writer.patch(
                    resource, owner.name, spec, self.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
            except Conflict:
                # Most likely its status was written.
                tries += 1
                if tries == MAX_CONFLICTS:
                    raise
                await asyncio.sleep(POLL_SECONDS)

    async def _wait_until_reconciled(
        self, name: str, generation: int, state: str, began: float, seconds: float
    ) -> Done:
        sentence, verdict = NOT_RECONCILED, None

        async def is_so() -> bool:
            nonlocal sentence, verdict
            content = (await self.get(OURS["Partition"], name)).content()
            sentence, verdict = outcome(content, generation, state)
            return verdict is not None

        async def why() -> Reason:
            return Reason(sentence, f"kubectl slurm -n {self.namespace} why partition/{name}")

        await until(f"Slurm has partition {name} as asked", is_so, why, seconds, poll_seconds=POLL_SECONDS)
        return Done(sentence, time.monotonic() - began, bool(verdict), verdict is False)

    async def _wait_for_slurm(self, facts: Facts, change: _Change, began: float, seconds: float) -> Done:
        """A NodeSet has no status for its partition: ask Slurm itself, and the Controller why it refuses a change."""
        done = Done(NOT_RECONCILED, 0.0, False)
        owner = change.owner

        async def is_so() -> bool:
            nonlocal done
            done, refused = await self._look(facts, change), ""
            if not done.reconciled and time.monotonic() - began >= REFUSAL_SECONDS:
                refused = refusal((await self.get(OURS["Controller"], owner.cluster)).content(), owner.partition)
            done = replace(done, sentence=refused or done.sentence, refused=bool(refused))
            return done.reconciled or done.refused

        async def why() -> Reason:
            return Reason(done.sentence, f"kubectl slurm -n {self.namespace} why controller/{owner.cluster}")

        what = f"Slurm has partition {owner.partition} as asked"
        await until(what, is_so, why, seconds, poll_seconds=SLURM_POLL_SECONDS)
        return replace(done, seconds=time.monotonic() - began)

    async def _look(self, facts: Facts, change: _Change) -> Done:
        """Whether Slurm has the change."""
        try:
            found = (await self.slurm_partitions(facts, change.owner.cluster)).get(change.owner.partition)
        except (KubeError, SlurmError, SlurmRefused) as error:
            return Done(f"Slurm cannot be asked: {error}", 0.0, False)
        is_open, sentence = change.still_open(found)
        return Done(sentence, 0.0, not is_open)

    async def slurm_partitions(self, facts: Facts, cluster: str) -> dict[str, Partition]:
        """All partitions that a cluster's slurmctld has."""
        return partitions(await self._asked(facts, cluster, "partitions"))

    async def slurm_nodes(self, facts: Facts, cluster: str) -> frozenset[str]:
        """The names of all nodes that a cluster's slurmctld has."""
        return node_names(await self._asked(facts, cluster, "nodes"))

    async def _asked(self, facts: Facts, cluster: str, what: str) -> bytes:
        pods = facts.pods_of(labels.CONTROLLER, cluster)
        if not pods:
            raise SlurmRefused(f"Controller {cluster!r} has no slurmctld pod")
        return await scontrol(self.client, facts, pods[0], *arguments(what))

    async def workers(self) -> list[RawObject]:
        """The pods of all Slurm nodes."""
        selector = f"{labels.NAME}={labels.WORKER.daemon}"
        return list((await self.client.list(PODS.raw(), self.namespace, label_selector=selector)).items)

    async def machines(self) -> list[str]:
        """The names of all Kubernetes nodes; none if they may not be listed."""
        try:
            return [each.metadata.name for each in (await self.client.list(NODES.raw())).items]
        except KubeError:
            return []

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


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of a NodeSet's partition: the requested options, and its config before and after."""

    owner: Owner
    options: Mapping[str, str]
    before: str
    after: str

    def still_open(self, found: Partition | None) -> tuple[bool, str]:
        """Whether the change is not in effect yet, and what Slurm has."""
        if found is None:
            return True, f"Slurm does not have partition {self.owner.partition}"
        line = _line(self.owner.partition, self.after)
        asked = changed_options(line, _line(self.owner.partition, self.before)) | self.options.keys()
        rows = [each for each in differences(line, found) if each.field in asked]
        if rows:
            row = rows[0]
            is_now = f"{row.field} is {row.found or 'not set'}, not {row.wanted or 'unset'}"
            return True, f"partition {self.owner.partition}: {is_now}"
        unseen = sorted(frozenset(unsettable(line)) & asked)
        more = f"; Slurm does not show {', '.join(unseen)}, and from 26.05 on accepts it only for a new partition"
        done = f"NodeSet {self.owner.name}, partition {self.owner.partition}: {written(self.options)}"
        return False, done + (more if unseen else "")


def _line(name: str, config: str) -> Line:
    return Line(name, canonical(each for each in text.options(config) if not isinstance(each, str)))


def outcome(partition: Object, generation: int, state: str) -> tuple[str, bool | None]:
    """What a Partition reports about its last change, and whether it is in effect; None while that is not known."""
    if int(status_of(partition).get("observedGeneration") or 0) < generation:
        return NOT_RECONCILED, None
    accepted, applied, ready = (condition_of(partition, each) or {} for each in ("Accepted", "Applied", "Ready"))
    if accepted.get("status") == "False" or accepted.get("reason") in NOT_DONE:
        return str(accepted.get("message", "")), False
    if applied.get("status") != "True":
        return str(applied.get("message", "")), False if applied.get("reason") in NOT_DONE else None
    return str(ready.get("message", "")), True if is_as_asked(ready, state) else None


def is_as_asked(ready: Mapping[str, Any], state: str) -> bool:
    """Whether a Partition's Ready shows the state that was asked for; any state if none was."""
    if ready.get("status") == "True" or ready.get("reason") == "NoNodes":
        return state in ("", "UP")
    return ready.get("reason") == "NotUp" and (not state or str(ready.get("message", "")).endswith(state))


def refusal(controller: Object, partition: str) -> str:
    """Why a Controller refuses the line of a partition; empty if it does not."""
    degraded = condition_of(controller, "Degraded") or {}
    message = str(degraded.get("message", ""))
    named = re.search(rf"(?<![\w.-]){re.escape(partition)}(?![\w.-])", message) is not None
    refused = degraded.get("status") == "True" and degraded.get("reason") in ("ConfigNotValid", "RefusedBySlurm")
    return message if refused and named else ""


def reverse(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The merge patch that turns a mapping into what it was before."""
    undo: dict[str, Any] = {}
    for key in (*before, *(each for each in after if each not in before)):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        undo[key] = reverse(old, new) if isinstance(old, Mapping) and isinstance(new, Mapping) else old
    return undo


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
