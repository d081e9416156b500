"""Who has the old key, who waits for whom, and what is said of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import pytest
from tests.plan.small_cluster import Cluster, of_type

from kube_runtime.client.objects import RawObject, decode_hook
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.meta import Resource
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import hashes, labels
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.plan import keys
from slurm_operator.plan.actions import Delete, Drain, PatchMetadata, Undrain
from slurm_operator.plan.nodeset import plan_nodeset
from slurm_operator.plan.objects import identity

OLD, NEW = hashes.of_map({"key": b"old"}), hashes.of_map({"key": b"new"})
CHANGING = keys.KeyState(OLD, NEW)
CHANGED = keys.KeyState(NEW, NEW)


def stateful_set(hash_: str = OLD, **status: Any) -> dict[str, Any]:
    rolled_out = {"observedGeneration": 3, "updatedReplicas": 1, "readyReplicas": 1}
    template = {"metadata": {"annotations": {labels.SLURM_KEY_HASH: hash_}}}
    spec = {"replicas": 1, "template": template}
    return {"metadata": {"generation": 3}, "spec": spec, "status": {**rolled_out, **status}}


def made_with(hash_: str, **more: str) -> dict[str, str]:
    return {labels.SLURM_KEY_HASH: hash_, **more}


@pytest.mark.parametrize(
    ("secret", "live", "changing", "missing"),
    [
        pytest.param(b"old", stateful_set(), False, False, id="the same"),
        pytest.param(b"new", stateful_set(), True, False, id="another"),
        pytest.param(None, stateful_set(), False, True, id="no Secret"),
        pytest.param(b"new", None, False, False, id="no slurmctld yet"),
        pytest.param(b"new", {"spec": {}}, False, False, id="a StatefulSet that says nothing"),
    ],
)
def test_the_state_of_a_key(
    cluster: Cluster, secret: bytes | None, live: dict[str, Any] | None, changing: bool, missing: bool
) -> None:
    refs = Refs(secrets={"keys": {"key": secret}} if secret else {})
    found = keys.state(cluster.controller(), refs, live)
    assert (found.is_changing, found.is_missing) == (changing, missing)


@pytest.mark.parametrize(
    ("status", "rolled_out"),
    [
        ({}, True),
        ({"observedGeneration": 2}, False),
        ({"updatedReplicas": 0}, False),
        ({"readyReplicas": 0}, False),
    ],
    ids=["ready", "not seen yet", "not updated", "not ready"],
)
def test_slurmctld_has_its_key_when_its_rollout_is_over(
    cluster: Cluster, status: dict[str, Any], rolled_out: bool
) -> None:
    assert keys.state(cluster.controller(), Refs(), stateful_set(**status)).rolled_out is rolled_out


@pytest.mark.parametrize(
    ("annotations", "old"),
    [({}, True), (made_with(OLD), True), (made_with(NEW), False), (made_with(""), True)],
    ids=["does not say: slurmctld's", "old", "new", "empty"],
)
def test_a_worker_has_the_key_that_it_was_made_with(cluster: Cluster, annotations: dict[str, str], old: bool) -> None:
    assert CHANGING.is_old(cluster.pod("w-0", annotations=annotations)) is old


def test_nobody_is_old_without_a_secret(cluster: Cluster) -> None:
    assert not keys.KeyState(OLD, "").is_old(cluster.pod("w-0", annotations=made_with(OLD)))


@pytest.mark.parametrize(
    ("pod", "waits"),
    [
        pytest.param({"annotations": made_with(OLD)}, True, id="old"),
        pytest.param({"annotations": made_with(OLD, **{labels.RELEASED_FOR_KEY: NEW})}, False, id="released"),
        pytest.param({"annotations": made_with(OLD, **{labels.RELEASED_FOR_KEY: OLD})}, True, id="of another time"),
        pytest.param({"annotations": made_with(OLD), "terminating": True}, True, id="terminating"),
        pytest.param({"annotations": made_with(OLD), "phase": "Failed"}, False, id="over"),
        pytest.param({"annotations": made_with(NEW)}, False, id="new"),
    ],
)
def test_daemons_wait_for_every_worker_that_slurm_has_not_released(
    cluster: Cluster, pod: dict[str, Any], waits: bool
) -> None:
    assert bool(keys.waits_for(cluster.controller(), CHANGING, [cluster.pod("w-0", **pod)])) is waits


def test_the_message_names_a_worker_and_the_way_out(cluster: Cluster) -> None:
    pods = [cluster.pod("w-0", annotations=made_with(OLD, **{labels.RELEASED_FOR_KEY: NEW})), cluster.pod("w-1")]
    said = keys.waits_for(cluster.controller(), CHANGING, pods)
    assert "1 of 2 workers is free, w-1 is not" in said
    assert f"{labels.FORCE_KEY_ROTATION}={NEW[:12]}" in said


@pytest.mark.parametrize(("asked", "forced"), [(NEW[:12], True), (OLD[:12], False), ("true", False), ("", False)])
def test_only_the_hash_of_this_key_forces_it(cluster: Cluster, asked: str, forced: bool) -> None:
    cr = msgspec.structs.replace(
        cluster.controller(),
        metadata=msgspec.structs.replace(cluster.controller().metadata, annotations={labels.FORCE_KEY_ROTATION: asked}),
    )
    found = keys.state(cr, Refs(secrets={"keys": {"key": b"new"}}), stateful_set())
    assert found.forced is forced
    assert bool(keys.waits_for(cr, found, [cluster.pod("w-0")])) is not forced


def resource(kind: type[Resource], **spec: Any) -> Resource:
    raw = {"apiVersion": "slinky.slurm.net/v1beta1", "kind": kind.__name__, "metadata": {"name": "x"}, "spec": spec}
    return msgspec.convert(raw, kind)


REF = {"controllerRef": {"name": "slurm"}}


@pytest.mark.parametrize(
    ("cr", "shares"),
    [
        (resource(LoginSet, **REF, sssdConfRef={"name": "s", "key": "k"}), True),
        (resource(LoginSet, controllerRef={"name": "other"}, sssdConfRef={"name": "s", "key": "k"}), False),
        (resource(Accounting), True),
        (resource(RestApi, **REF), False),
    ],
    ids=["login", "login of another cluster", "accounting", "slurmrestd needs no key"],
)
def test_who_shares_a_key(cr: Resource, shares: bool) -> None:
    controller = resource(Controller, accountingRef={"name": "x"})
    assert isinstance(controller, Controller)
    controller = msgspec.structs.replace(
        controller, metadata=msgspec.structs.replace(controller.metadata, name="slurm")
    )
    assert keys.sharing(cr, Refs(controllers={"slurm": controller})) == ([controller] if shares else [])


@pytest.mark.parametrize("gone", keys.NOTHING, ids=["no Secret", "no such key in it"])
def test_a_hash_of_nothing_keeps_the_one_before(gone: str) -> None:
    def made(hash_: str) -> Object:
        template = {"metadata": {"annotations": {labels.JWT_KEY_HASH: hash_, "other": "new"}}, "spec": {}}
        meta = {"name": "x", "namespace": "ns"}
        return {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta, "spec": {"template": template}}

    before = made(OLD)
    before["spec"]["template"]["metadata"]["annotations"]["other"] = "old"
    live = {identity(before): decode_hook(RawObject, before)}
    (kept,) = keys.with_known_hashes([made(gone)], live)
    assert kept["spec"]["template"]["metadata"]["annotations"] == {labels.JWT_KEY_HASH: OLD, "other": "new"}
    assert keys.with_known_hashes([made(NEW)], live) == [made(NEW)]
    assert keys.with_known_hashes([made(gone)], {}) == [made(gone)]


# What a NodeSet does about it


def test_workers_of_the_old_key_are_drained_and_stay(cluster: Cluster) -> None:
    pods = [cluster.pod(f"w-{number}", annotations=made_with(OLD)) for number in range(2)]
    slurm = cluster.slurm(cluster.node("w-0"), cluster.node("w-1", "ALLOCATED"), jobs=[cluster.job(7, "w-1")])
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=2), pods, slurm, key=CHANGING))
    (drain,) = of_type(plan, Drain)
    assert drain.nodes == ("w-0", "w-1")
    assert "key rotation" in drain.reason
    assert of_type(plan, Delete) == []


@pytest.mark.parametrize(
    ("states", "jobs", "released"),
    [
        pytest.param(("IDLE", "DRAIN"), (), True, id="drained and idle"),
        pytest.param(("IDLE", "DRAIN"), (7,), False, id="a suspended job"),
        pytest.param(("MIXED", "DRAIN"), (), False, id="busy"),
        pytest.param(("IDLE",), (), False, id="not drained"),
    ],
)
def test_only_slurms_word_releases_a_worker(
    cluster: Cluster, states: tuple[str, ...], jobs: tuple[int, ...], released: bool
) -> None:
    pod = cluster.pod("w-0", annotations=made_with(OLD, **{labels.CONDEMNED: "key rotation"}))
    slurm = cluster.slurm(
        cluster.node("w-0", *states), jobs=[cluster.job(number, "w-0", state="SUSPENDED") for number in jobs]
    )
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), [pod], slurm, key=CHANGING))
    patched = [each.annotations for each in of_type(plan, PatchMetadata)]
    assert any(each.get(labels.RELEASED_FOR_KEY) == NEW for each in patched) is released
    assert of_type(plan, Delete) == []


def test_a_worker_that_is_busy_again_is_no_longer_released(cluster: Cluster) -> None:
    marks = {labels.CONDEMNED: "key rotation", labels.RELEASED_FOR_KEY: NEW}
    pod = cluster.pod("w-0", annotations=made_with(OLD, **marks))
    slurm = cluster.slurm(cluster.node("w-0", "ALLOCATED"), jobs=[cluster.job(7, "w-0")])
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), [pod], slurm, key=CHANGING))
    assert {labels.RELEASED_FOR_KEY: None}.items() <= dict(of_type(plan, PatchMetadata)[0].annotations).items()


@pytest.mark.parametrize(
    ("has_asked", "jobs", "marked", "expected"),
    [
        pytest.param(True, (), None, [NEW], id="Slurm says so when asked"),
        pytest.param(False, (), None, [], id="nobody has asked"),
        pytest.param(False, (), NEW, [], id="nobody has asked again"),
        pytest.param(False, (7,), NEW, [None], id="a job is there by now"),
    ],
)
def test_a_worker_without_a_record_is_released_when_slurm_says_so_and_stays_so_until_a_job_is_there(
    cluster: Cluster, has_asked: bool, jobs: tuple[int, ...], marked: str | None, expected: list[str | None]
) -> None:
    marks = {labels.CONDEMNED: "key rotation"} | ({labels.RELEASED_FOR_KEY: marked} if marked else {})
    pod = cluster.pod("w-0", ready=False, annotations=made_with(OLD, **marks))
    slurm = cluster.slurm(jobs=[cluster.job(number, "w-0") for number in jobs])
    slurm = replace(slurm, absent=frozenset({"w-0"} if has_asked else ()))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), [pod], slurm, key=CHANGING))
    patched = [each.annotations for each in of_type(plan, PatchMetadata)]
    written = [each[labels.RELEASED_FOR_KEY] for each in patched if labels.RELEASED_FOR_KEY in each]
    assert written == expected


@pytest.mark.parametrize(
    ("key", "goes"),
    [
        pytest.param(CHANGING, False, id="slurmctld has the old key"),
        pytest.param(keys.KeyState(NEW, NEW, rolled_out=False), False, id="slurmctld is being restarted"),
        pytest.param(CHANGED, True, id="slurmctld has the new key"),
    ],
)
def test_workers_go_when_slurmctld_has_the_new_key(cluster: Cluster, key: keys.KeyState, goes: bool) -> None:
    pod = cluster.pod("w-0", annotations=made_with(OLD, **{labels.CONDEMNED: "key rotation"}))
    slurm = cluster.slurm(cluster.node("w-0", "IDLE", "DRAIN", reason="slurm-operator: key rotation"))
    plan = plan_nodeset(cluster.world(cluster.nodeset(replicas=1), [pod], slurm, key=key))
    assert bool(of_type(plan, Delete)) is goes
    assert of_type(plan, Undrain) == []


def test_a_worker_of_another_program_gets_the_hash_of_slurmctlds_key(cluster: Cluster) -> None:
    world = cluster.world(
        cluster.nodeset(replicas=1), [cluster.pod("w-0")], cluster.slurm(cluster.node("w-0")), key=CHANGED
    )
    (patch,) = of_type(plan_nodeset(world), PatchMetadata)
    assert patch.annotations[labels.SLURM_KEY_HASH] == NEW
