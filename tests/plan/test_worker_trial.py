"""The trial by slurmd as a table: what is wanted, which pods are there, and what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.build.resources import controller, nodeset

from kube_runtime.client.objects import ObjectMeta, Pod
from slurm_operator.build import worker_trial
from slurm_operator.build.refs import Refs
from slurm_operator.build.worker_trial import MAX_KINDS
from slurm_operator.plan.actions import Create, Delete
from slurm_operator.plan.worker_trial import (
    LIMIT_SECONDS,
    TrialMemory,
    TrialStage,
    WorkersWorld,
    WorkerTrial,
    is_needed,
    is_one_version,
    judge,
    plan_trial,
    remembered,
)

GOOD = {"slurm.conf": "ClusterName=a\nTaskPlugin=task/affinity\n", "cgroup.conf": "CgroupPlugin=disabled\n"}
OTHER = {**GOOD, "slurm.conf": "ClusterName=a\nTaskPlugin=task/affinity\nMinJobAge=301\n"}
NEW = {**GOOD, "slurm.conf": "ClusterName=a\nTaskPlugin=task/cgroup\n"}
HASH = "a" * 64
NOW = 1000.0
YOUNG, OLD = TrialMemory(HASH, NOW - 1), TrialMemory(HASH, NOW - LIMIT_SECONDS)
CR = controller()
IMAGE = "ghcr.io/slinkyproject/slurmd:24.11"


def kinds_of(*nodesets: Any) -> tuple[worker_trial.WorkerKind, ...]:
    return worker_trial.kinds(CR, nodesets, Refs(controllers={"slurm": CR}, nodesets=tuple(nodesets)))


KINDS = kinds_of(nodeset("a"), nodeset("b", slurmd={"image": IMAGE}))
NAMES = [str(worker_trial.pod(CR, kind, HASH)["metadata"]["name"]) for kind in KINDS]

FILES = ObjectMeta(name=str(worker_trial.config_map(CR, {}, HASH)["metadata"]["name"]))


def said(stage: str, reason: str = "") -> dict[str, Any]:
    message = f'worker-trial version=1 stage={stage} reason="{reason}"'
    return ended({"exitCode": 0, "message": message}, "Succeeded")


def ended(how: dict[str, Any], phase: str = "Failed", **more: Any) -> dict[str, Any]:
    return {"phase": phase, "containerStatuses": [{"name": "slurmd", "state": {"terminated": how}}], **more}


PENDING: dict[str, Any] = {"phase": "Pending"}
NO_ROOM = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes fit"}],
}
NO_IMAGE = {
    "phase": "Pending",
    "containerStatuses": [
        {"name": "slurmd", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such tag"}}}
    ],
}
YES, NO = said("accepted"), said("refused", "fatal: no plugin")


def pod(name: str, status: dict[str, Any], **meta: Any) -> Pod:
    return msgspec.convert({"metadata": {"name": name, "uid": f"uid-{name}", **meta}, "status": status}, Pod)


def judged(*statuses: dict[str, Any] | None, memory: TrialMemory | None = YOUNG, **world: Any) -> WorkerTrial:
    """The trial in which the pods of both kinds are as told; None for no pod."""
    pods = tuple(pod(name, status) for name, status in zip(NAMES, statuses, strict=False) if status is not None)
    return judge(CR, WorkersWorld(**{"kinds": KINDS, "pods": pods, **world}), NEW, HASH, memory, NOW)


STAGES = {
    "nobody has begun": ((None, None), YOUNG, TrialStage.RUNNING, ""),
    "it was just wanted": ((None, None), None, TrialStage.RUNNING, ""),
    "one is waited for": ((YES, PENDING), YOUNG, TrialStage.RUNNING, ""),
    "one that cannot start is waited for": ((YES, NO_IMAGE), YOUNG, TrialStage.RUNNING, ""),
    "all accept it": ((YES, YES), YOUNG, TrialStage.ACCEPTED, ""),
    "all accepted it, however long ago": ((YES, YES), OLD, TrialStage.ACCEPTED, ""),
    "one refuses it": ((YES, NO), YOUNG, TrialStage.REFUSED, "fatal: no plugin"),
    "one refuses it before the other has begun": ((NO, None), YOUNG, TrialStage.REFUSED, "fatal: no plugin"),
    "one refused it, and the other is too late": ((NO, PENDING), OLD, TrialStage.REFUSED, "fatal: no plugin"),
    "no node has room": ((YES, NO_ROOM), OLD, TrialStage.UNTRIED, "Unschedulable: 0/3 nodes fit"),
    "the image cannot be had": ((YES, NO_IMAGE), OLD, TrialStage.UNTRIED, "ErrImagePull: no such tag"),
    "a pod says nothing in its time": ((YES, PENDING), OLD, TrialStage.UNTRIED, "within 60 s"),
    "a place in which no slurmd starts": (
        (YES, said("unclear", "not here")),
        YOUNG,
        TrialStage.UNTRIED,
        "not here",
    ),
    "a container without a word": (
        (YES, ended({"exitCode": 137, "reason": "OOMKilled"})),
        YOUNG,
        TrialStage.UNTRIED,
        "the trial pod failed: OOMKilled",
    ),
    "a pod that was evicted": (
        (YES, {"phase": "Failed", "reason": "Evicted", "message": "the node was low on memory"}),
        YOUNG,
        TrialStage.UNTRIED,
        "the trial pod failed: the node was low on memory",
    ),
    "pods that nobody lets in": (
        (None, None),
        replace(YOUNG, denied="exceeded quota"),
        TrialStage.UNTRIED,
        "the trial pod cannot be created: exceeded quota",
    ),
    "one pod that nobody lets in, and one that runs": (
        (PENDING, None),
        replace(YOUNG, denied="exceeded quota"),
        TrialStage.RUNNING,
        "",
    ),
    "what was waited for was another configuration": (
        (YES, PENDING),
        TrialMemory("b" * 64, 0.0),
        TrialStage.RUNNING,
        "",
    ),
}


@pytest.mark.parametrize(("statuses", "memory", "stage", "reason"), STAGES.values(), ids=STAGES)
def test_what_pods_say_of_a_configuration(
    statuses: tuple[Any, ...], memory: TrialMemory | None, stage: TrialStage, reason: str
) -> None:
    found = judged(*statuses, memory=memory)
    assert found.stage is stage
    assert reason in found.reason


def test_who_refuses_is_named_and_slurmds_line_is_as_it_was() -> None:
    found = judged(YES, NO)
    assert (found.nodesets, found.reason) == (("b",), "fatal: no plugin")


def test_no_workers_need_no_trial() -> None:
    assert judged(kinds=()) == WorkerTrial()


def test_workers_beyond_the_bound_are_said_to_be_untried() -> None:
    many = kinds_of(*(nodeset(f"n{each}", extraConf=f"Weight={each + 1}") for each in range(MAX_KINDS + 1)))
    names = [str(worker_trial.pod(CR, kind, HASH)["metadata"]["name"]) for kind in many[:MAX_KINDS]]
    found = judged(kinds=many, pods=tuple(pod(name, YES) for name in names))
    assert found.stage is TrialStage.UNTRIED
    assert found.nodesets == many[-1].nodesets
    assert len(found.objects) == 1 + MAX_KINDS


def test_a_complaint_about_a_folder_that_only_workers_have_refuses_nothing() -> None:
    mounted = {"volumeMounts": [{"name": "apps", "mountPath": "/opt/apps"}]}
    volumes = {"spec": {"volumes": [{"name": "apps", "hostPath": {"path": "/opt/apps"}}]}}
    kinds = kinds_of(nodeset("a", slurmd=mounted, template=volumes))
    name = str(worker_trial.pod(CR, kinds[0], HASH)["metadata"]["name"])
    about = judged(kinds=kinds, pods=(pod(name, said("refused", "error: /opt/apps/x.so: no such file")),))
    assert about.stage is TrialStage.UNTRIED
    assert about.reason == "the trial pod does not have /opt/apps: error: /opt/apps/x.so: no such file"
    other = judged(kinds=kinds, pods=(pod(name, NO),))
    assert other.stage is TrialStage.REFUSED


NEEDED = {
    "the first one": (None, None, NEW, False),
    "what is in force": (GOOD, None, GOOD, False),
    "what slurmd cannot tell from it": (GOOD, GOOD, OTHER, False),
    "what slurmd can": (GOOD, GOOD, NEW, True),
    "what was handed over already": (GOOD, NEW, NEW, False),
}


@pytest.mark.parametrize(("good", "candidate", "wanted", "expected"), NEEDED.values(), ids=NEEDED)
def test_a_trial_is_needed_for(good: Any, candidate: Any, wanted: Any, expected: bool) -> None:
    assert is_needed(good, candidate, wanted, is_one_version=True) is expected


def test_one_version_is_known_by_the_tags_of_all_images() -> None:
    new, old, odd = (nodeset(slurmd={"image": f"example.org/slurmd:{tag}"}) for tag in ("26.05", "24.11", "ours"))
    cr = controller(slurmctld={"image": "example.org/slurmctld:26.05-1"})
    assert is_one_version(cr, [new])
    assert is_one_version(cr, [])
    assert not is_one_version(cr, [new, old])
    assert not is_one_version(cr, [odd])
    assert not is_one_version(controller(slurmctld={"image": "example.org/slurmctld:ours"}), [odd])


def actions(trial: WorkerTrial, *present: Pod, files: tuple[ObjectMeta, ...] = ()) -> tuple[list[str], list[str]]:
    """The names that are created, and those that are deleted."""
    found = plan_trial(trial, WorkersWorld(pods=present, files=files)).actions
    created = [str(each.desired["metadata"]["name"]) for each in found if isinstance(each, Create)]
    return created, [each.name for each in found if isinstance(each, Delete)]


def test_objects_of_a_trial_are_made_once_and_stay_until_nothing_asks_for_them() -> None:
    running = judged(None, None)
    assert actions(running) == ([FILES.name, *NAMES], [])
    assert actions(running, *(pod(name, PENDING) for name in NAMES), files=(FILES,)) == ([], [])
    there = [pod(name, YES) for name in NAMES]
    # Until the caches show that the candidate was handed over, the verdicts must be there.
    assert actions(judged(YES, YES), *there, files=(FILES,)) == ([], [])
    assert actions(WorkerTrial(), *there, files=(FILES,)) == ([], [FILES.name, *sorted(NAMES)])


def test_the_files_of_a_trial_are_there_before_its_pods() -> None:
    stages = plan_trial(judged(None, None), WorkersWorld()).stages
    assert [[each.desired["kind"] for each in stage if isinstance(each, Create)] for stage in stages] == [
        ["ConfigMap"],
        ["Pod", "Pod"],
    ]


def test_what_tried_another_configuration_goes() -> None:
    older = pod("slurm-trial-older", NO), ObjectMeta(name="slurm-config-trial-older")
    found = actions(judged(None, None), older[0], files=(older[1],))
    assert found == ([FILES.name, *NAMES], ["slurm-config-trial-older", "slurm-trial-older"])


def test_a_pod_that_goes_is_not_deleted_again() -> None:
    assert actions(WorkerTrial(), pod("slurm-trial-older", NO, deletionTimestamp="2030-01-01T00:00:00Z")) == ([], [])


def test_a_refusal_is_remembered_by_its_pods_alone() -> None:
    refused = judged(NO, None)
    assert remembered(refused, HASH, YOUNG, NOW) is None
    assert actions(refused, pod(NAMES[0], NO), files=(FILES,)) == ([], [])


def test_the_time_of_a_trial_begins_when_it_is_wanted_and_not_again() -> None:
    running = judged(None, None)
    assert remembered(running, HASH, None, NOW) == TrialMemory(HASH, NOW)
    assert remembered(running, HASH, YOUNG, NOW) == YOUNG
    assert remembered(running, HASH, TrialMemory("b" * 64, 1.0), NOW) == TrialMemory(HASH, NOW)
