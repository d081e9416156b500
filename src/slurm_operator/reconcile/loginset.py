"""One reconcile of a LoginSet.

In: a key. Out: the objects of login pods and a status. The steps are those of `OwnedObjects` in `reconcile/owned.py`.
The ssh host keys are generated once, and never again while their Secret exists, whatever it holds. Called by
`reconcile/operator.py`, which runs the result.
"""

from __future__ import annotations

from kube_runtime.clock import Clock
from slurm_operator.api.loginset import LoginSet
from slurm_operator.build import labels, loginset, names
from slurm_operator.plan.actions import Action, CreateHostKeys, Outcomes
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import OwnedObjects, Report, ResourceWorld
from slurm_operator.status import workload


def reconcile(observer: Observer, executor: Executor, clock: Clock) -> OwnedObjects[LoginSet]:
    """The reconcile function of LoginSets."""
    return OwnedObjects(LoginSet, observer, executor, clock, loginset.objects, _report, _once, always=_selector)


def _once(world: ResourceWorld[LoginSet]) -> tuple[Action, ...]:
    return () if names.ssh_host_keys(world.cr) in world.refs.secrets else (CreateHostKeys(world.cr),)


def _selector(name: str) -> dict[str, object]:
    return {"selector": labels.selector_text(labels.LOGIN, name)}


def _report(world: ResourceWorld[LoginSet], outcomes: Outcomes) -> Report:
    cr = world.cr
    deployment = world.content(outcomes, ("apps/v1", "Deployment", cr.namespace, cr.name))
    status = (deployment or {}).get("status") or {}
    fields = {
        "replicas": int(status.get("replicas") or 0),
        "readyReplicas": int(status.get("readyReplicas") or 0),
    }
    return Report(workload.rollout("login", deployment, world.secrets(outcomes)), fields)
