"""Back to a configuration that was in force: what of which resource is written back, and what stays as it is.

In: a revision, and the resources as they are now. Out: a `Rollback`, printed before anything is written, and then done.
The resources are what a configuration is made from, so they are what is changed: the operator does the rest, with its
linter, its trial and its way back. Objects are changed, never made or deleted; nothing is written where the result
could not be built.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime.client.objects import CONFIG_MAPS, Resource
from slurm_operator.api.controller import Controller
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.validate import decode
from slurm_operator.build.config_revision import file_hash, inputs
from slurm_operator.build.hashes import short_hash
from slurm_operator.build.refs import Refs
from slurm_operator.cli.kubectl.change import HELM_RELEASE, POLL_SECONDS, Changes, Done
from slurm_operator.cli.waiting import Reason, until
from slurm_operator.diagnose.facts import Object, condition_of, status_of
from slurm_operator.plan.config_history import Revision, changes
from slurm_operator.reconcile.resources import OURS

# Files first, the Controller, which names them, last.
ORDER = ("ConfigMap", "NodeSet", "Partition", "Controller")
READ: dict[str, Resource[Any]] = {"ConfigMap": CONFIG_MAPS, **{kind: OURS[kind] for kind in ORDER if kind in OURS}}
# Whoever keeps a resource as a repository says writes its own text again.
KEEPERS = ("argocd", "kustomize-controller", "flux", "helm-controller")
# Seconds after which a configuration that is in force, and is not the very one that was kept, is what it came to.
STEADY_SECONDS = 3.0
Patch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Step:
    """One resource that is written back."""

    kind: str
    name: str
    patch: Object
    resource_version: str
    fields: tuple[str, ...]
    # Who will write it again, if somebody does.
    keeper: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.name}: {', '.join(self.fields)}"


@dataclass(frozen=True, slots=True)
class Rollback:
    """All of it."""

    revision: Revision
    steps: tuple[Step, ...]
    # What differs and stays so, each with what to do.
    left: tuple[str, ...] = ()
    # Why nothing is written at all.
    refused: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Now:
    """The resources of a namespace, by kind and name."""

    controller: str
    objects: Mapping[str, Mapping[str, Object]]

    def get(self, key: str) -> Object | None:
        """One of them, by `Kind/name`."""
        kind, _, name = key.partition("/")
        return self.objects.get(kind, {}).get(name)


async def read_now(changing: Changes, controller: str) -> Now:
    """What is there."""
    objects = {}
    for kind, resource in READ.items():
        listing = await changing.client.list(resource.raw(), changing.namespace)
        objects[kind] = {item.metadata.name: item.content() for item in listing.items}
    return Now(controller, objects)


def plan_rollback(revision: Revision, now: Now) -> Rollback:
    """What to write so that the resources say again what they said then."""
    present = inputs(*_decoded(now))
    changed = changes(revision.inputs, present)
    steps = sorted(_steps(revision, now, present), key=lambda step: ORDER.index(step.kind))
    return Rollback(revision, tuple(steps), tuple(_left(revision, changed, present)), tuple(_missing(revision, now)))


def _decoded(now: Now) -> tuple[Controller, Refs]:
    kinds = ("Controller", "NodeSet", "Partition")
    read = [decode(each, served=True).resource for kind in kinds for each in _every(now, kind)]
    controllers = {each.name: each for each in read if isinstance(each, Controller)}
    refs = Refs(
        controllers,
        nodesets=tuple(each for each in read if isinstance(each, NodeSet)),
        partitions=tuple(each for each in read if isinstance(each, Partition)),
        config_maps={name: _texts(each) for name, each in now.objects.get("ConfigMap", {}).items()},
    )
    return controllers[now.controller], refs


def _every(now: Now, kind: str) -> Iterator[Object]:
    yield from now.objects.get(kind, {}).values()


def _texts(config_map: Object) -> dict[str, str]:
    return {str(key): str(text) for key, text in (config_map.get("data") or {}).items()}


def _steps(revision: Revision, now: Now, present: Mapping[str, Object]) -> Iterator[Step]:
    for key, then in revision.inputs.items():
        kind, _, name = key.partition("/")
        there = now.get(key)
        if there is None:
            continue
        if kind == "ConfigMap":
            data = _files(revision, name, _texts(there))
            patch: Patch = {"data": data}
        else:
            data = merge_patch(then, present.get(key, {})) if key in present else {}
            patch = {"spec": data}
        if data:
            meta = there.get("metadata") or {}
            yield Step(kind, name, patch, str(meta.get("resourceVersion", "")), tuple(sorted(data)), _keeper(meta))


def merge_patch(then: Mapping[str, object], now: Mapping[str, object]) -> Patch:
    """The merge patch that makes one mapping of another; None takes an entry away."""
    patch: Patch = {key: None for key in now if key not in then}
    for key, value in then.items():
        before = now.get(key)
        if before == value:
            continue
        if isinstance(value, Mapping) and isinstance(before, Mapping):
            patch[key] = merge_patch(value, before)
        else:
            patch[key] = value
    return patch


def _files(revision: Revision, name: str, now: Mapping[str, str]) -> Patch:
    """A ConfigMap's files as they were; one of the same name in a later ConfigMap is what Slurm saw."""
    then = revision.inputs[f"ConfigMap/{name}"]
    patch: Patch = {file: None for file in now if file not in then}
    for file, hash_ in then.items():
        text = revision.files.get(file)
        if text is not None and file_hash(text) == hash_ and now.get(file) != text:
            patch[file] = text
    return patch


def _keeper(meta: Object) -> str:
    release = (meta.get("annotations") or {}).get(HELM_RELEASE)
    if release:
        return f"Helm release {release}"
    managers = [str(each.get("manager", "")) for each in meta.get("managedFields") or ()]
    return next((each for each in managers if each.startswith(KEEPERS)), "")


def _left(revision: Revision, changed: Mapping[str, tuple[str, ...]], present: Mapping[str, Object]) -> Iterator[str]:
    for key in changed:
        kind, _, name = key.partition("/")
        if kind not in ("NodeSet", "Partition"):
            continue
        if key not in present:
            yield f"{kind} {name} has been deleted since, and is not recreated"
        elif key not in revision.inputs:
            command = f"kubectl delete {kind.lower()}s.slinky.slurm.net {name}"
            yield f"{kind} {name} has been created since, and stays; to remove it: {command}"


def _missing(revision: Revision, now: Now) -> Iterator[str]:
    for key in revision.inputs:
        kind, _, name = key.partition("/")
        there = now.get(key)
        if kind == "ConfigMap" and there is None:
            yield (
                f"ConfigMap {name}, which revision {revision.number} names, has been deleted; its files are in the "
                f"revision: kubectl slurm config show --revision {revision.number} --file all"
            )
        elif kind == "ConfigMap" and there is not None and there.get("immutable") and _differs(revision, name, there):
            yield f"ConfigMap {name} is immutable, and its files have changed: create one with another name"


def _differs(revision: Revision, name: str, there: Object) -> bool:
    return bool(_files(revision, name, _texts(there)))


async def carry_out(changing: Changes, rollback: Rollback, controller: str, seconds: float) -> Done:
    """Write it, and wait until Slurm runs with it."""
    began = time.monotonic()
    for step in rollback.steps:
        await changing.writer.patch(
            READ[step.kind], step.name, step.patch, changing.namespace, resource_version=step.resource_version
        )
    reason, done = "the operator has not reconciled it yet", None

    async def is_so() -> bool:
        nonlocal reason, done
        content = (await changing.get(OURS["Controller"], controller)).content()
        done = outcome(content, rollback.revision, time.monotonic() - began)
        reason = str((condition_of(content, "ConfigApplied") or {}).get("message", reason))
        return done is not None

    async def why() -> Reason:
        return Reason(reason, f"kubectl slurm -n {changing.namespace} config diff {controller}")

    what = f"slurmctld runs with revision {rollback.revision.number}"
    await until(what, is_so, why, seconds, poll_seconds=POLL_SECONDS)
    return done or Done(reason, time.monotonic() - began, False)


def outcome(controller: Object, revision: Revision, passed: float) -> Done | None:
    """What a rollback has come to, None while it is on its way."""
    config = status_of(controller).get("config") or {}
    if config.get("hash") == revision.hash and not config.get("candidate"):
        return Done(f"slurmctld runs with revision {revision.number} again", passed, True)
    generation = int((controller.get("metadata") or {}).get("generation") or 0)
    if passed < STEADY_SECONDS or int(status_of(controller).get("observedGeneration") or 0) < generation:
        return None
    valid = condition_of(controller, "ConfigValid") or {}
    if valid.get("status") == "False":
        return Done(str(valid.get("message", "")), passed, False)
    if config.get("candidate"):
        return None
    now = short_hash(str(config.get("hash", "")))
    return Done(f"slurmctld runs with {now}; it differs: kubectl slurm config diff {revision.number}", passed, True)
