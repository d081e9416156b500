"""A changed auth/slurm key: who still has the old one, and what waits for whom.

In: a Controller, its key Secret, slurmctld's StatefulSet and the worker pods of the cluster. Out: which workers are of
an old key, and why daemons keep theirs for now. Old and new keys do not understand each other, and the steps of a
running job keep the key that they began with. So the workers are drained first; when Slurm itself has said of each that
no job holds it, slurmctld, slurmdbd and the login pods get the new key, and then the workers are recreated. What
leads from one step to the next is data that every reconcile sees: annotations of pods and of slurmctld's pod template.
Pure; used by `plan/nodeset.py`, `plan/owned.py`, `reconcile/nodeset.py` and `reconcile/owned.py`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from kube_runtime.client.objects import Pod, RawObject
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.meta import Resource
from slurm_operator.api.plural import share
from slurm_operator.build import hashes, labels
from slurm_operator.build.hashes import short_hash
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.plan.objects import Identity, identity

# As many characters of a hash as people are asked to type.
OF_SECRETS = (labels.SLURM_KEY_HASH, labels.JWT_KEY_HASH, labels.SSSD_CONF_HASH, labels.SSH_HOST_KEYS_HASH)
# What is left alone while a key waits: a restart takes the new key, and so does a reconfigure (26.05 and 24.11).
FROZEN = frozenset({"StatefulSet", "Deployment", "ConfigMap"})
# The hashes of a Secret, or of a key in one, that is not there.
NOTHING = ("", hashes.of_bytes(b""))


@dataclass(frozen=True, slots=True)
class KeyState:
    """Which key slurmctld has, and which one it is to have."""

    # Hashes; empty when there is no slurmctld of ours, or no Secret.
    in_force: str = ""
    current: str = ""
    # Whether slurmctld runs with what its template says.
    rolled_out: bool = True
    forced: bool = False

    @property
    def is_changing(self) -> bool:
        """Whether slurmctld has another key than the Secret."""
        return bool(self.in_force and self.current) and self.in_force != self.current

    @property
    def is_missing(self) -> bool:
        """Whether the Secret of a running slurmctld has gone."""
        return bool(self.in_force) and not self.current

    def of_pod(self, pod: Pod) -> str:
        """The key that a worker was made with; one that does not say has slurmctld's."""
        return pod.metadata.annotations.get(labels.SLURM_KEY_HASH, "") or self.in_force

    def is_old(self, pod: Pod) -> bool:
        """Whether a worker was made with another key than the Secret holds now."""
        return bool(self.current) and self.of_pod(pod) not in ("", self.current)


UNCHANGED = KeyState()


def state(cr: Controller, refs: Refs, stateful_set: Mapping[str, Any] | None) -> KeyState:
    """What is known of a cluster's key."""
    ref = cr.spec.slurm_key_ref
    if ref is None:
        return UNCHANGED
    current = hashes.of_map(refs.secrets.get(ref.name, {}))
    asked = cr.metadata.annotations.get(labels.FORCE_KEY_ROTATION, "")
    return KeyState(
        in_force=_in_force(stateful_set),
        current=current,
        rolled_out=stateful_set is None or _is_rolled_out(stateful_set),
        forced=bool(current) and asked == short_hash(current),
    )


def _in_force(stateful_set: Mapping[str, Any] | None) -> str:
    template = ((stateful_set or {}).get("spec") or {}).get("template") or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    return str(annotations.get(labels.SLURM_KEY_HASH) or "")


def _is_rolled_out(stateful_set: Mapping[str, Any]) -> bool:
    status = stateful_set.get("status") or {}
    generation = int((stateful_set.get("metadata") or {}).get("generation") or 0)
    wanted = int((stateful_set.get("spec") or {}).get("replicas", 1))
    seen = int(status.get("observedGeneration") or 0) >= generation
    return seen and min(int(status.get(each) or 0) for each in ("updatedReplicas", "readyReplicas")) >= wanted


def waits_for(cr: Controller, key: KeyState, pods: Iterable[Pod]) -> str:
    """Why the daemons of a cluster keep the key that they have; empty when they need not."""
    ref = cr.spec.slurm_key_ref
    if ref is None or not (key.is_changing or key.is_missing):
        return ""
    if key.is_missing:
        return f"Secret {ref.name!r} with the auth/slurm key is missing; the daemons keep the key that they have"
    old = [pod for pod in pods if key.is_old(pod) and pod.status.phase not in ("Failed", "Succeeded")]
    busy = sorted(pod.metadata.name for pod in old if not is_released(pod, key))
    if not busy or key.forced:
        return ""
    return (
        f"the key in Secret {ref.name!r} has changed; workers are drained before slurmctld gets it: "
        f"{share(len(old) - len(busy), len(old), 'worker')} free, {busy[0]} is not; to go on now and lose their jobs, "
        f"annotate Controller {cr.name} with {labels.FORCE_KEY_ROTATION}={short_hash(key.current)}"
    )


def is_released(pod: Pod, key: KeyState) -> bool:
    """Whether Slurm has said that no job holds this worker, after it was drained for this very key."""
    return pod.metadata.annotations.get(labels.RELEASED_FOR_KEY) == key.current


def sharing(cr: Resource, refs: Refs) -> list[Controller]:
    """The Controllers whose auth/slurm key the daemons of a resource use; slurmrestd gets along without."""
    if isinstance(cr, Controller):
        return [cr]
    if isinstance(cr, LoginSet):
        return [each for each in refs.controllers.values() if each.name == cr.spec.controller_ref.name]
    if isinstance(cr, Accounting):
        books = (each for each in refs.controllers.values() if each.spec.accounting_ref is not None)
        return [each for each in books if each.spec.accounting_ref and each.spec.accounting_ref.name == cr.name]
    return []


def with_known_hashes(desired: Iterable[Object], live: Mapping[Identity, RawObject]) -> list[Object]:
    """The same objects, where a hash of data that has gone stays as it was: a restart could not find that data."""
    return [_with_known_hashes(value, live.get(identity(value))) for value in desired]


def _with_known_hashes(value: Object, live: RawObject | None) -> Object:
    template = (value.get("spec") or {}).get("template") or {}
    wanted: Mapping[str, str] = (template.get("metadata") or {}).get("annotations") or {}
    gone = [key for key in OF_SECRETS if wanted.get(key) in NOTHING]
    if live is None or not gone:
        return value
    before = (((live.content().get("spec") or {}).get("template") or {}).get("metadata") or {}).get("annotations") or {}
    known = {key: before[key] for key in gone if key in before}
    metadata = {**template["metadata"], "annotations": {**wanted, **known}}
    return {**value, "spec": {**value["spec"], "template": {**template, "metadata": metadata}}}
