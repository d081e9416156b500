"""The judge of the hostile campaigns sees what it is there for: each fault that was found is put back once.

T8 has no place here: who gets a privileged container is a default and a right, not an answer to hostile input.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import pytest
from tests.campaigns import hostile_answers, hostile_manifests
from tests.campaigns.hostile_answers import FOREIGN, RigPoint
from tests.campaigns.hostile_manifests import ManifestPoint
from tests.campaigns.hostile_values import BY_NAME, HostileValue, Path

from slurm_operator.build import labels
from slurm_operator.plan import marks, nodeset, workers
from slurm_operator.reconcile import observe, token
from slurm_operator.slurm import hostlist, lenient, policy, vanished, wire
from slurm_operator.slurm.items import items
from slurm_operator.slurm.model import SlurmList

Plant = Callable[..., None]


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Plant:
    """Put a fault back, in a module that is named as text where it may move."""

    def put(where: Any, name: str, fault: Any) -> None:
        target = importlib.import_module(where) if isinstance(where, str) else where
        monkeypatch.setattr(target, name, fault)

    return put


def at_door(name: str) -> tuple[str, ...]:
    return hostile_answers.replay(f"R7/26.05/{name}").violations


def in_rig(what: str, path: Path, value: str) -> tuple[str, ...]:
    point = RigPoint("26.05", what, path, BY_NAME.get(value, HostileValue(value, b"")))
    return hostile_answers.run_rig("26.05", [point])[0].violations


def beside(kind: str, path: Path, value: HostileValue) -> tuple[str, ...]:
    return hostile_manifests.run_rig([ManifestPoint(kind, path, value, in_rig=True)])[0].violations


def telling(kind: str, path: Path, name: str) -> tuple[str, ...]:
    points = hostile_manifests.telling_points(kind, in_rig=True)
    point = next(each for each in points if each.path == path and each.value.name == name)
    return hostile_manifests.run_rig([point])[0].violations


def said(found: tuple[str, ...], *words: str) -> bool:
    return any(all(word in each for word in words) for each in found)


def test_t1_bytes_that_are_no_text_are_found(plant: Plant) -> None:
    plant(lenient, "as_utf8", lambda body: body)
    plant(lenient, "UNREADABLE", (ZeroDivisionError,))
    plant(wire, "_list", _strict_list)
    assert said(at_door("live-jobs/jobs.0.name/utf8-invalid"), "door:")
    assert said(in_rig("jobs", ("jobs", 2, "name"), "utf8-invalid"), "I11")


def _strict_list(answer: Any, found: Any, convert: Any, *_: Any) -> Any:
    read = tuple(convert(raw) for raw in items(found))
    return SlurmList(read, complete=True, last_update=answer.last_update.seconds())


def test_t2_a_time_limit_beyond_the_calendar_is_found(plant: Plant) -> None:
    for module in (policy, marks):
        plant(module, "MAX_EPOCH_SECONDS", 10**18)
    assert said(in_rig("jobs", ("jobs", 2, "time_limit", "number"), "year-10192-minutes"), "I11")


def test_t3_a_merge_that_is_quadratic_is_found(plant: Plant) -> None:
    def slow(self: Any, wanted: Any) -> int | None:
        own = self._identity(wanted)
        return next((at for at in sorted(self._under, key=str) if self._under[at] == own), None)

    plant(importlib.import_module("kube_runtime.item_index").ItemIndex, "find", slow)
    found = hostile_manifests.replay("R8/NodeSet/spec.slurmd.env/largest").violations
    assert said(found, "admission:", "CPU")


def test_t4_objects_of_others_that_are_overwritten_are_found(plant: Plant) -> None:
    ours = importlib.import_module("slurm_operator.plan.ownership").WriteRight.OURS
    for module in ("execute", "owned"):
        plant(f"slurm_operator.reconcile.{module}", "demand", lambda *_, **__: None)
    plant(token, "judge_live", lambda *_: ours)
    assert said(telling("Token", ("spec", "secretRef"), "slurm-key"), "foreign: secrets slurm-key was changed")
    assert said(telling("Controller", ("metadata", "name"), "taken"), "foreign: configmaps taken-config was changed")


def test_t5_workers_that_nobody_sees_are_found(plant: Plant) -> None:
    real: Any = getattr(observe.Observer, "controlled_pods")  # noqa: B009

    def by_subdomain(self: observe.Observer, namespace: str, uid: str) -> list[Any]:
        return [pod for pod in real(self, namespace, uid) if pod.spec.subdomain != "elsewhere"]

    plant("slurm_operator.build.nodeset", "_with_identity", lambda spec, _: dict(spec))
    plant(observe.Observer, "controlled_pods", by_subdomain)
    plant(nodeset, "_still_held", lambda _: None)
    path = ("spec", "template", "spec", "subdomain")
    assert said(telling("NodeSet", path, "elsewhere"), "I1: jobs", "were lost")


def test_t6_a_controller_that_cannot_be_read_and_counts_as_gone_is_found(plant: Plant) -> None:
    plant(importlib.import_module("slurm_operator.reconcile.nodeset").NodeSets, "_unreadable", lambda *_: "")
    assert said(beside("Stored", ("spec",), BY_NAME["zero"]), "left: a worker with a job went")


def test_t7_answers_of_another_cluster_are_found(plant: Plant) -> None:
    plant(wire, "_check_identity", lambda *_: None)
    for module in (workers, vanished):
        plant(module, "is_plausible", lambda *_: True)
    assert said(in_rig(FOREIGN, (), "for-50-seconds"), "I1: pod", "with jobs")


def test_t7_a_name_that_is_not_compared_is_found(plant: Plant) -> None:
    plant(wire, "_check_identity", lambda *_: None)
    assert said(in_rig("nodes", ("meta", "slurm", "cluster"), "json"), "SlurmReachable=True while another cluster")


def test_t9_two_nodesets_with_one_prefix_are_found(plant: Plant) -> None:
    plant("slurm_operator.plan.duplicates", "taken", lambda *_: {})
    found = telling("NodeSet", ("spec", "template", "spec", "hostname"), "twin")
    assert said(found, "hot:") or said(found, "HotLoopError")


def test_t10_jobs_that_a_list_has_lost_are_found(plant: Plant) -> None:
    async def listed_is_all(_: Any, listed: Any, *__: Any) -> Any:
        return listed

    plant(vanished.VanishedJobs, "believed", listed_is_all)
    assert said(in_rig("jobs", ("jobs",), "list"), "I1: jobs", "were lost")


def test_t11_host_lists_that_are_expanded_are_found(plant: Plant) -> None:
    real, kept = hostlist.HostList.__post_init__, list[Any]()

    def eager(self: hostlist.HostList) -> None:
        real(self)
        kept.append(list(self))

    plant(hostlist.HostList, "__post_init__", eager)
    # Jobs share a short host list; then it would be expanded only once.
    plant(wire, "_hosts", hostlist.HostList)
    found = at_door("live-jobs/jobs.0.nodes/hosts-100000-x40")
    assert said(found, "of CPU") or said(found, "MiB")


def test_t13_a_number_of_five_thousand_digits_is_found(plant: Plant) -> None:
    plant(workers.Worker, "cost", property(_unbounded_cost))
    path = ("metadata", "annotations", labels.POD_DELETION_COST)
    assert said(beside("Pod", path, BY_NAME["digits-text"]), "I11")


def _unbounded_cost(worker: workers.Worker) -> int:
    return int(worker.pod.metadata.annotations.get(labels.POD_DELETION_COST, "0"))


def test_t16_a_job_without_a_state_that_holds_nothing_is_found(plant: Plant) -> None:
    plant(policy, "holds_nodes", lambda job: not policy.is_over(job) and not job.states <= {"PENDING"})
    assert said(at_door("live-jobs/jobs.2.job_state/list"), "I1: n3 may go")
