"""What counts as ready, and what people are told about what is not."""

from __future__ import annotations

from typing import Any

import pytest

from slurm_operator.local.readiness import Key, problems, state, states, states_with_leftovers


def item(kind: str, **parts: Any) -> dict[str, Any]:
    metadata = {"namespace": "slurm", "name": "it", "generation": 2, **parts.pop("metadata", {})}
    return {"kind": kind, "metadata": metadata, **parts}


def conditions(**status: str) -> dict[str, Any]:
    return {"conditions": [{"type": kind, "status": value, "message": "so it is"} for kind, value in status.items()]}


def container(reason: str = "", **more: Any) -> dict[str, Any]:
    return {"name": "slurmd", "state": {"waiting": {"reason": reason}} if reason else {"running": {}}, **more}


READY: dict[str, dict[str, Any]] = {
    "a resource whose Ready is True": item("Controller", status=conditions(Ready="True")),
    "a node": item("Node", status=conditions(Ready="True")),
    "a pod": item("Pod", status={"phase": "Running", **conditions(Ready="True")}),
    "a pod that has ended well": item("Pod", status={"phase": "Succeeded"}),
    "a bound claim": item("PersistentVolumeClaim", status={"phase": "Bound"}),
    "a StatefulSet with all pods": item(
        "StatefulSet", spec={"replicas": 2}, status={"observedGeneration": 2, "readyReplicas": 2, "updatedReplicas": 2}
    ),
    "a Deployment scaled to nothing": item("Deployment", spec={"replicas": 0}, status={"observedGeneration": 2}),
}
NOT_READY: dict[str, tuple[dict[str, Any], str]] = {
    "a resource that nobody looked at": (item("NodeSet"), "nothing is known"),
    "a resource whose Ready is False": (item("NodeSet", status=conditions(Ready="False")), "so it is"),
    "a resource whose Ready is of an older generation": (
        item("NodeSet", status={"conditions": [{"type": "Ready", "status": "True", "observedGeneration": 1}]}),
        "has not been seen",
    ),
    "a StatefulSet that lacks a pod": (
        item("StatefulSet", spec={"replicas": 2}, status={"observedGeneration": 2, "readyReplicas": 1}),
        "1 of 2",
    ),
    "a StatefulSet with pods of an older template": (
        item("StatefulSet", spec={"replicas": 1}, status={"observedGeneration": 2, "readyReplicas": 1}),
        "1 of 1",
    ),
    "a workload whose change was not seen": (
        item("Deployment", spec={"replicas": 0}, status={"observedGeneration": 1}),
        "0 of 0",
    ),
    "a pod without a node": (
        item("Pod", status={"phase": "Pending", **conditions(PodScheduled="False")}),
        "so it is",
    ),
    "a pod that waits": (
        item("Pod", status={"phase": "Pending", "containerStatuses": [container("PodInitializing")]}),
        "container slurmd: PodInitializing",
    ),
    "a pod that is ending": (
        item("Pod", metadata={"deletionTimestamp": "now"}, status=conditions(Ready="True")),
        "ending",
    ),
    "a claim without a volume": (item("PersistentVolumeClaim"), "Pending"),
}


@pytest.mark.parametrize("given", READY.values(), ids=READY)
def test_ready(given: dict[str, Any]) -> None:
    found = state(given)
    assert found is not None
    assert found.ready


@pytest.mark.parametrize(("given", "said"), NOT_READY.values(), ids=NOT_READY)
def test_not_ready_and_why(given: dict[str, Any], said: str) -> None:
    found = state(given)
    assert found is not None
    assert not found.ready
    assert said in found.message


def test_kinds_that_are_never_waited_for_have_no_state() -> None:
    assert states([item("ConfigMap"), item("Service")]) == []


def test_a_crash_loop_is_told_with_the_command_that_shows_why() -> None:
    looping = container("CrashLoopBackOff", restartCount=4, lastState={"terminated": {"exitCode": 127}})
    (sentence,) = problems([item("Pod", status={"containerStatuses": [looping]})])
    assert "exit code 127, 4 restarts" in sentence
    assert "local kubectl logs -n slurm it -c slurmd --previous" in sentence


def test_a_program_that_the_image_lacks_is_told_with_what_to_change() -> None:
    never = {"exitCode": 128, "reason": "StartError", "message": "/no/such/program: no such file or directory"}
    looping = container("CrashLoopBackOff", restartCount=4, lastState={"terminated": never})
    (sentence,) = problems([item("Pod", status={"containerStatuses": [looping]})])
    assert "cannot start (/no/such/program: no such file" in sentence
    assert "change its command, or what its image stands for in images.yaml" in sentence


def test_an_image_that_cannot_be_had_is_told_with_its_reason() -> None:
    waiting = {"reason": "ErrImagePull", "message": "Slurm 25.11 is not built"}
    broken = {"name": "init", "state": {"waiting": waiting}}
    (sentence,) = problems([item("Pod", status={"initContainerStatuses": [broken]})])
    assert "Slurm 25.11 is not built" in sentence
    assert "describe pod -n slurm it" in sentence


def test_a_pod_that_is_only_starting_is_no_trouble() -> None:
    assert problems([item("Pod", status={"containerStatuses": [container("ContainerCreating"), container()]})]) == []


# --- what is left over ------------------------------------------------------------------------------------------------


def named(kind: str, name: str, owner: tuple[str, str] = ("", ""), **parts: Any) -> dict[str, Any]:
    owners = [{"kind": owner[0], "name": owner[1]}] if owner[0] else []
    return item(kind, metadata={"name": name, "ownerReferences": owners, **parts.pop("metadata", {})}, **parts)


def left_out(objects: list[dict[str, Any]], applied: set[Key] | None) -> dict[str, str]:
    """The names that nobody waits for, and why."""
    found = states_with_leftovers(objects, applied)
    return {each.name: each.left_out for each in found if each.left_out}


MOUNTED = {"volumes": [{"persistentVolumeClaim": {"claimName": "data"}}, {"emptyDir": {}}]}
DELETED = {"deletionTimestamp": "now"}


def test_a_claim_that_no_pod_uses_is_not_waited_for() -> None:
    """`make demo` waited 200 s for a Pending claim of an earlier run, and never said so (U2)."""
    objects = [named("PersistentVolumeClaim", "data"), named("PersistentVolumeClaim", "old")]
    objects += [named("Pod", "db", spec=MOUNTED)]
    assert left_out(objects, None) == {"old": "no pod that is waited for uses it"}


def test_what_is_being_deleted_is_not_waited_for_nor_is_what_it_owns() -> None:
    objects = [named("NodeSet", "old", metadata=DELETED), named("Pod", "old-0", ("NodeSet", "old")), named("Pod", "x")]
    assert left_out(objects, None) == {"old": "it is being deleted", "old-0": "it is being deleted"}


def test_of_what_was_applied_everything_that_it_owns_is_waited_for_and_nothing_else() -> None:
    objects = [
        named("Controller", "slurm"),
        named("StatefulSet", "slurm-controller", ("Controller", "slurm")),
        named("Pod", "slurm-controller-0", ("StatefulSet", "slurm-controller"), spec=MOUNTED),
        named("PersistentVolumeClaim", "data"),
        named("Deployment", "login"),
        named("Pod", "login-5d9f-x7k", ("ReplicaSet", "login-5d9f")),
        named("NodeSet", "mine"),
        named("Pod", "mine-0", ("NodeSet", "mine")),
        item("Node", metadata={"name": "local-0", "namespace": ""}),
    ]
    applied = {("Controller", "slurm", "slurm"), ("Deployment", "slurm", "login")}
    why = "it is not in the files that were given"
    assert left_out(objects, applied) == {"mine": why, "mine-0": why}


@pytest.mark.parametrize(
    ("status", "is_left_out"),
    [
        ({"observedGeneration": 2, "replicas": 3, "readyReplicas": 2}, True),
        ({"observedGeneration": 2, "replicas": 2, "readyReplicas": 1}, False),
        ({"observedGeneration": 2, "replicas": 3, "readyReplicas": 1}, False),
        ({"observedGeneration": 1, "replicas": 3, "readyReplicas": 2}, False),
        ({}, False),
    ],
    ids=["one too many", "one is missing", "too many, not ready", "not seen yet", "never seen"],
)
def test_workers_that_leave_are_not_waited_for(status: dict[str, Any], is_left_out: bool) -> None:
    found = left_out([named("NodeSet", "compute", spec={"replicas": 2}, status=status)], None)
    assert found == ({"compute": "only workers that are being removed wait, for their jobs"} if is_left_out else {})


def test_the_trouble_of_what_is_left_out_is_not_told() -> None:
    pod = named("Pod", "old-0", status={"containerStatuses": [container("ErrImagePull")]})
    assert len(problems([pod])) == 1
    assert problems([pod], {("Pod", "slurm", "old-0")}) == []
