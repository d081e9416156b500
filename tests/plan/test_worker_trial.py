"""The trial by slurmd as a table: what is wanted, which pods are there, and what follows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.build.resources import controller, nodeset

from kube_runtime.client.objects import ObjectMeta, Pod
from kube_runtime.times import parse_seconds
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
)

GOOD = {"slurm.conf": "ClusterName=a\nTaskPlugin=task/affinity\n", "cgroup.conf": "CgroupPlugin=disabled\n"}
OTHER = {**GOOD, "slurm.conf": "ClusterName=a\nTaskPlugin=task/affinity\nMinJobAge=301\n"}
NEW = {**GOOD, "slurm.conf": "ClusterName=a\nTaskPlugin=task/cgroup\n"}
HASH, OTHER_HASH = "a" * 64, "b" * 64
NOW = 1000.0
# The same moment on the clock by which pods are made.
TIME, MADE = parse_seconds("2030-01-01T00:01:00Z"), "2030-01-01T00:00:20Z"
CR = controller()
IMAGE = "ghcr.io/slinkyproject/slurmd:24.11"


def kinds_of(*nodesets: Any) -> tuple[worker_trial.WorkerKind, ...]:
    return worker_trial.kinds(CR, nodesets, Refs(controllers={"slurm": CR}, nodesets=tuple(nodesets)))


KINDS = kinds_of(nodeset("a"), nodeset("b", slurmd={"image": IMAGE}))
NAMES = [worker_trial.pod_name(CR, kind, HASH) for kind in KINDS]


def begun(wanted: Mapping[str, str] = NEW, **world: Any) -> TrialMemory:
    """What is remembered of a trial that begins now."""
    found = judge(CR, WorkersWorld(**{"kinds": KINDS, **world}), wanted, HASH, None, NOW).memory
    assert found is not None
    return found


YOUNG, OLD = replace(begun(), since=NOW - 1), replace(begun(), since=NOW - LIMIT_SECONDS)

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
    assert refused.memory is None
    assert actions(refused, pod(NAMES[0], NO), files=(FILES,)) == ([], [])


def test_the_time_of_a_trial_begins_when_it_is_wanted_and_not_again() -> None:
    assert judged(None, None, memory=None).memory == begun()
    assert begun().since == NOW
    assert judged(None, None, memory=YOUNG).memory == YOUNG
    assert judged(None, None, memory=TrialMemory("b" * 64, 1.0)).memory == begun()


REMEMBERED = {
    "other lines": ({"wanted": {**NEW, "slurm.conf": f"{NEW['slurm.conf']}PartitionName=p\nMinJobAge=9\n"}}, True),
    "another plugin": ({"wanted": {**NEW, "slurm.conf": "ClusterName=a\nTaskPlugin=task/none\n"}}, False),
    "other workers": ({"kinds": KINDS[:1]}, False),
    "the same workers in another order": ({"kinds": KINDS[::-1]}, True),
}


@pytest.mark.parametrize(("change", "goes_on"), REMEMBERED.values(), ids=REMEMBERED)
def test_a_trial_and_its_time_go_on_with(change: dict[str, Any], goes_on: bool) -> None:
    world = WorkersWorld(kinds=change.get("kinds", KINDS), is_one_version=True)
    before = replace(begun(is_one_version=True), since=NOW - 1)
    found = judge(CR, world, change.get("wanted", NEW), OTHER_HASH, before, NOW)
    assert (found.memory == before) is goes_on


def test_a_trial_whose_time_is_over_is_not_begun_anew_as_long_as_it_is_the_same() -> None:
    untried = judged(YES, NO_ROOM, memory=OLD)
    assert (untried.stage, untried.memory) == (TrialStage.UNTRIED, OLD)
    assert judged(YES, NO_ROOM, memory=untried.memory).stage is TrialStage.UNTRIED


SINCE = {
    "pods of an operator before this one": (({"creationTimestamp": MADE},) * 2, TIME, NOW - 40),
    "the first of them": (({"creationTimestamp": "2030-01-01T00:00:50Z"}, {"creationTimestamp": MADE}), TIME, NOW - 40),
    "one that is still to be made": (({"creationTimestamp": MADE}, None), TIME, NOW),
    "a clock that is behind": (({"creationTimestamp": "2030-01-01T00:09:00Z"},) * 2, TIME, NOW),
    "a time that is none": (({"creationTimestamp": "soon"},) * 2, TIME, NOW),
    "nobody who looked at the clock": (({"creationTimestamp": MADE},) * 2, None, NOW),
}


@pytest.mark.parametrize(("made", "time", "since"), SINCE.values(), ids=SINCE)
def test_after_a_restart_the_time_of_a_trial_began_with(
    made: tuple[Any, ...], time: float | None, since: float
) -> None:
    pods = tuple(pod(name, PENDING, **meta) for name, meta in zip(NAMES, made, strict=True) if meta is not None)
    assert begun(pods=pods, time=time).since == since


def test_a_verdict_that_is_old_takes_no_time_from_a_pod_that_waits() -> None:
    ended, waiting = pod(NAMES[0], YES, creationTimestamp=MADE), pod(NAMES[1], PENDING, creationTimestamp="")
    assert begun(pods=(ended, waiting), time=TIME).since == NOW


def existing(kind: worker_trial.WorkerKind, status: dict[str, Any]) -> Pod:
    """The pod of a trial of NEW, as it was made."""
    # With one version, so that not even the names of other keys count.
    _, made = judge(CR, WorkersWorld(kinds=(kind,), is_one_version=True), NEW, HASH, None, NOW).objects
    return msgspec.convert({**made, "spec": {}, "status": status}, Pod)


def same_for_slurmd(*pods: Pod) -> WorkerTrial:
    """The trial after a line changed that slurmd does not read."""
    wanted = {**NEW, "slurm.conf": f"{NEW['slurm.conf']}MinJobAge=301\n"}
    world = WorkersWorld(kinds=KINDS, pods=pods, is_one_version=True)
    return judge(CR, world, wanted, OTHER_HASH, None, NOW)


GOES_ON = {
    "a verdict": ((YES, YES), TrialStage.ACCEPTED),
    "pods that run": ((PENDING, PENDING), TrialStage.RUNNING),
    "pods that cannot tell": ((YES, said("unclear", "not here")), TrialStage.UNTRIED),
}


@pytest.mark.parametrize(("statuses", "stage"), GOES_ON.values(), ids=GOES_ON)
def test_a_line_that_slurmd_does_not_read_takes_no_other_pods_with(
    statuses: tuple[Any, ...], stage: TrialStage
) -> None:
    pods = [existing(kind, status) for kind, status in zip(KINDS, statuses, strict=True)]
    found = same_for_slurmd(*pods)
    assert found.stage is stage
    assert actions(found, *pods, files=(FILES,)) == ([], [])


def test_a_refusal_counts_for_the_very_files_that_were_tried() -> None:
    accepted, refused = existing(KINDS[0], YES), existing(KINDS[1], NO)
    found = same_for_slurmd(accepted, refused)
    assert found.stage is TrialStage.RUNNING
    again = worker_trial.pod_name(CR, KINDS[1], OTHER_HASH)
    files = str(worker_trial.config_map(CR, {}, OTHER_HASH)["metadata"]["name"])
    assert actions(found, accepted, refused, files=(FILES,)) == ([files, again], [refused.metadata.name])


def test_a_pod_that_tried_something_else_for_slurmd_is_not_asked() -> None:
    pods = [existing(kind, YES) for kind in KINDS]
    other = {**NEW, "slurm.conf": "ClusterName=a\nTaskPlugin=task/none\n"}
    found = judge(CR, WorkersWorld(kinds=KINDS, pods=tuple(pods), is_one_version=True), other, OTHER_HASH, None, NOW)
    assert found.stage is TrialStage.RUNNING
    assert actions(found, *pods, files=(FILES,))[1] == [FILES.name, *sorted(NAMES)]
