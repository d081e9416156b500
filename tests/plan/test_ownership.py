"""The one rule of what is whose, case by case."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import msgspec
import pytest

from kube_runtime.client.objects import ObjectMeta, RawObject, decode_hook
from slurm_operator.build import labels
from slurm_operator.plan.ownership import Claimant, Foreign, NameTaken, WriteRight, demand, judge, judge_live
from slurm_operator.program import FIELD_MANAGER

OURS = "slinky.slurm.net/v1beta1"
NODESET = Claimant("NodeSet", "ns", "w", "uid-w")
TOKEN = Claimant("Token", "ns", "ci", "uid-ci", frozenset({"uid-key"}))


def owner(kind: str, uid: str, *, controller: bool = True, version: str = OURS) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "name": "x", "uid": uid, "controller": controller}


def meta(*owners: dict[str, Any], name: str = "w-0", said: dict[str, str] | None = None, **more: str) -> ObjectMeta:
    raw = {"name": name, "namespace": "ns", "uid": "uid-object", "labels": said or {}, **more}
    return msgspec.convert({**raw, "ownerReferences": list(owners)}, ObjectMeta)


WORKER = {labels.NAME: "slurmd", labels.INSTANCE: "w"}


@pytest.mark.parametrize(
    ("claimant", "kind", "seen", "right"),
    [
        pytest.param(NODESET, "Pod", None, WriteRight.NEW, id="nobody has the name"),
        pytest.param(NODESET, "NodeSet", meta(uid="uid-w"), WriteRight.ITSELF, id="the resource itself"),
        pytest.param(NODESET, "Pod", meta(owner("NodeSet", "uid-w")), WriteRight.OURS, id="controlled by it"),
        pytest.param(NODESET, "Pod", meta(owner("NodeSet", "uid-v")), None, id="controlled by a namesake"),
        pytest.param(
            NODESET, "Pod", meta(owner("NodeSet", "uid-w", controller=False)), None, id="owned, not controlled"
        ),
        pytest.param(
            TOKEN, "Secret", meta(owner("Secret", "uid-key")), WriteRight.STOOD_FOR, id="the Go operator's token"
        ),
        pytest.param(TOKEN, "Secret", meta(owner("Secret", "uid-other")), None, id="the token of another key"),
        pytest.param(TOKEN, "Secret", meta(), None, id="a Secret that a user made"),
        pytest.param(NODESET, "Secret", meta(namespace="elsewhere"), None, id="another namespace"),
        pytest.param(
            NODESET,
            "Service",
            meta(owner("NodeSet", "v", controller=False)),
            WriteRight.SHARED,
            id="shared by NodeSets",
        ),
        pytest.param(
            TOKEN, "Service", meta(owner("NodeSet", "v", controller=False)), None, id="not shared with other kinds"
        ),
        pytest.param(
            NODESET,
            "Service",
            meta(owner("NodeSet", "v", controller=False, version="example.org/v1")),
            None,
            id="shared by somebody else's NodeSets",
        ),
        pytest.param(NODESET, "Service", meta(), None, id="a Service that a user made"),
        pytest.param(NODESET, "PersistentVolumeClaim", meta(said=WORKER), WriteRight.CLAIM, id="a claim of a worker"),
        pytest.param(NODESET, "PersistentVolumeClaim", meta(), None, id="a claim with the name of a worker's"),
        pytest.param(
            NODESET, "PersistentVolumeClaim", meta(owner("StatefulSet", "s")), None, id="a claim that somebody controls"
        ),
        pytest.param(NODESET, "Pod", meta(said=WORKER), WriteRight.ORPHAN, id="an orphaned worker"),
        pytest.param(NODESET, "Pod", meta(name="v-0", said=WORKER), None, id="labels of ours, but not the name"),
        pytest.param(NODESET, "Pod", meta(said={labels.INSTANCE: "w"}), None, id="a name of ours, but not the labels"),
        pytest.param(
            NODESET,
            "ControllerRevision",
            meta(name="w-bcd45", said={labels.REVISION: "bcd45"}),
            WriteRight.ORPHAN,
            id="an orphaned revision",
        ),
    ],
)
def test_by_what_right_an_object_is_written_to(
    claimant: Claimant, kind: str, seen: ObjectMeta | None, right: WriteRight | None
) -> None:
    found = judge(claimant, kind, seen)
    assert isinstance(found, Foreign) if right is None else found is right


@pytest.mark.parametrize("right", [each for each in WriteRight if each is not WriteRight.OURS])
def test_only_what_the_resource_controls_is_deleted(right: WriteRight) -> None:
    demand(NODESET, "Pod", "w-0", right)
    with pytest.raises(NameTaken, match="ns/w-0 is not deleted"):
        demand(NODESET, "Pod", "w-0", right, deletes=True)


def test_a_name_that_is_taken_is_told_with_its_owner_and_what_to_do() -> None:
    found = judge(NODESET, "Pod", meta(owner("StatefulSet", "s", version="apps/v1")))
    with pytest.raises(NameTaken, match=r"Pod ns/w-0 .* belongs to StatefulSet x, not to NodeSet w; .*another name"):
        demand(NODESET, "Pod", "w-0", found)


@pytest.mark.parametrize(
    ("owners", "said"),
    [
        pytest.param(
            (), "already exists and has no owner: somebody else made it, not Token w; it is left", id="no owner"
        ),
        pytest.param(
            (owner("Deployment", "d", controller=False, version="apps/v1"),),
            "already exists and belongs to Deployment x, not to Token w; it is left",
            id="an owner that does not control it",
        ),
    ],
)
def test_an_object_that_nobody_controls_is_told_as_it_is(owners: tuple[dict[str, Any], ...], said: str) -> None:
    """It said "an owner that this operator does not know" of a Secret that had none."""
    token = Claimant("Token", "ns", "w", "uid-t")
    with pytest.raises(NameTaken) as taken:
        demand(token, "Secret", "s", judge(token, "Secret", meta(*owners, name="s")))
    assert said in str(taken.value)


JWT = {"SLURM_JWT": b64encode(b"eyJh.eyJz.c2ln").decode()}


def live(
    *managers: tuple[str, str, str], data: dict[str, str] | None = None, said: dict[str, str] | None = None
) -> RawObject:
    entries = [{"manager": who, "operation": what, "subresource": part} for who, what, part in managers]
    place = {"name": "s", "namespace": "ns", "uid": "u", "labels": said or {}}
    raw = {"metadata": {**place, "managedFields": entries}, "data": data or {}}
    found: RawObject = decode_hook(RawObject, raw)
    return found


def test_what_we_alone_have_written_and_nobody_controls_any_more_is_ours() -> None:
    ours = ((FIELD_MANAGER, "Apply", ""), ("kubelet", "Update", "status"))
    assert judge_live(TOKEN, "Secret", live(*ours, data=JWT)) is WriteRight.ORPHAN
    assert judge_live(NODESET, "ConfigMap", live(*ours, said=WORKER)) is WriteRight.ORPHAN


@pytest.mark.parametrize(
    ("claimant", "found"),
    [
        (TOKEN, live((FIELD_MANAGER, "Update", ""), data={"tls.crt": "eA==", "tls.key": "eA=="})),
        (TOKEN, live((FIELD_MANAGER, "Update", ""), data={"ssh_host_rsa_key": "eA=="})),
        (NODESET, live((FIELD_MANAGER, "Apply", ""), said={**WORKER, labels.INSTANCE: "other"})),
        (NODESET, live((FIELD_MANAGER, "Apply", ""), said={**WORKER, labels.NAME: "login"})),
    ],
    ids=["the webhook's certificate", "a host key", "of another NodeSet", "of a LoginSet"],
)
def test_what_we_have_written_for_something_else_is_not(claimant: Claimant, found: RawObject) -> None:
    """T4: a Token in the operator's namespace took the certificate of the admission server."""
    assert isinstance(judge_live(claimant, "Secret", found), Foreign)


@pytest.mark.parametrize(
    "managers",
    [(), (("kubectl", "Update", ""),), ((FIELD_MANAGER, "Apply", ""), ("kubectl", "Update", ""))],
    ids=["nobody", "a user", "a user, and we over it"],
)
def test_what_a_user_has_written_to_is_not(managers: tuple[tuple[str, str, str], ...]) -> None:
    assert isinstance(judge_live(TOKEN, "Secret", live(*managers, data=JWT)), Foreign)
