"""What a rollback writes back, what it leaves, and what keeps it from writing anything."""

from __future__ import annotations

from typing import Any

import click
import pytest

from slurm_operator.api.controller import Controller
from slurm_operator.api.validate import decode
from slurm_operator.build.config_revision import inputs
from slurm_operator.build.refs import Refs
from slurm_operator.cli.kubectl.configuration import Configuration
from slurm_operator.cli.kubectl.history import History, between, previous, revision, rows, words
from slurm_operator.cli.kubectl.rollback import Now, merge_patch, outcome, plan_rollback
from slurm_operator.plan.config_history import Revision

API = "slinky.slurm.net/v1beta1"
KEYS = {"slurmKeyRef": {"name": "k", "key": "slurm.key"}, "jwtKeyRef": {"name": "j", "key": "jwt.key"}}
REF = {"controllerRef": {"name": "slurm"}}


def resource(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "hpc", "uid": name, "resourceVersion": "7", **metadata}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}


def config_map(name: str, data: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "hpc", "resourceVersion": "9"}, "data": data, **fields}


def namespace(*objects: dict[str, Any], files: dict[str, dict[str, Any]] | None = None, extra: str = "A=1") -> Now:
    """A cluster that has a file beside slurm.conf."""
    spec = {**KEYS, "extraConf": extra, "configFileRefs": [{"name": "files"}]}
    found: dict[str, dict[str, Any]] = {"Controller": {"slurm": resource("Controller", "slurm", spec)}}
    found["ConfigMap"] = files if files is not None else {"files": config_map("files", {"gres.conf": "Name=gpu\n"})}
    for each in objects:
        found.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
    return Now("slurm", found)


def kept(now: Now, number: int = 1, hash_: str = "aaa") -> Revision:
    """What would be kept of a namespace."""
    controller = decode(now.objects["Controller"]["slurm"]).resource
    assert isinstance(controller, Controller)
    read = [decode(each).resource for kind in ("NodeSet", "Partition") for each in now.objects.get(kind, {}).values()]
    maps = {name: dict(each["data"]) for name, each in now.objects["ConfigMap"].items()}
    refs = Refs(
        nodesets=tuple(each for each in read if type(each).__name__ == "NodeSet"),  # type: ignore[misc]
        partitions=tuple(each for each in read if type(each).__name__ == "Partition"),  # type: ignore[misc]
        config_maps=maps,
    )
    files = {
        "slurm.conf": "ClusterName=slurm\n",
        **{file: text for data in maps.values() for file, text in data.items()},
    }
    return Revision(number, hash_, "2026-01-09T10:00:05Z", "", "", files, inputs(controller, refs))


def partition(**spec: Any) -> dict[str, Any]:
    return resource("Partition", "short", {**REF, "nodeSets": ["compute"], **spec})


def nodeset(config: str | None = None) -> dict[str, Any]:
    asked = {"enabled": True, **({"config": config} if config else {})}
    return resource("NodeSet", "compute", {**REF, "replicas": 1, "partition": asked})


def test_nothing_is_written_where_all_is_as_it_was() -> None:
    now = namespace(nodeset(), partition(maxTime="1:00:00"))
    plan = plan_rollback(kept(now), now)
    assert (plan.steps, plan.left, plan.refused) == ((), (), ())


def test_every_resource_gets_its_own_fields_back_and_the_controller_comes_last() -> None:
    then = namespace(nodeset("MaxTime=60"), partition(maxTime="1:00:00", state="DRAIN"))
    changed = {"files": config_map("files", {"gres.conf": "Name=tpu\n", "new.conf": "x\n"})}
    now = namespace(nodeset(), partition(maxTime="2:00:00", graceTime=7), files=changed, extra="A=2")
    plan = plan_rollback(kept(then), now)
    assert [(step.kind, step.patch) for step in plan.steps] == [
        ("ConfigMap", {"data": {"new.conf": None, "gres.conf": "Name=gpu\n"}}),
        ("NodeSet", {"spec": {"partition": {"config": "MaxTime=60"}}}),
        ("Partition", {"spec": {"graceTime": None, "maxTime": "1:00:00", "state": "DRAIN"}}),
        ("Controller", {"spec": {"extraConf": "A=1"}}),
    ]
    assert {step.resource_version for step in plan.steps} == {"7", "9"}


def test_objects_that_came_or_went_are_named_and_left() -> None:
    then = namespace(nodeset())
    now = namespace(partition())
    plan = plan_rollback(kept(then), now)
    assert plan.steps == ()
    assert plan.left[0] == "NodeSet compute has been deleted since, and is not made again"
    assert plan.left[1].startswith("Partition short has been made since, and stays; to take it away: kubectl delete ")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        ({}, "ConfigMap files, which revision 1 names, has been deleted"),
        ({"files": config_map("files", {"gres.conf": "x"}, immutable=True)}, "ConfigMap files is immutable"),
    ],
    ids=["gone", "immutable"],
)
def test_what_could_not_be_built_keeps_all_of_it_from_being_written(files: dict[str, Any], sentence: str) -> None:
    plan = plan_rollback(kept(namespace()), namespace(files=files, extra="A=2"))
    assert plan.refused[0].startswith(sentence)


@pytest.mark.parametrize(
    ("metadata", "keeper"),
    [
        ({"annotations": {"meta.helm.sh/release-name": "prod"}}, "Helm release prod"),
        ({"managedFields": [{"manager": "argocd-controller"}]}, "argocd-controller"),
        ({"managedFields": [{"manager": "kubectl-edit"}]}, ""),
    ],
    ids=["Helm", "Argo CD", "a person"],
)
def test_who_writes_its_own_text_again_is_named(metadata: dict[str, Any], keeper: str) -> None:
    then, now = namespace(), namespace(extra="A=2")
    controller = now.objects["Controller"]["slurm"]
    changed = {**controller, "metadata": {**controller["metadata"], **metadata}}
    plan = plan_rollback(kept(then), Now("slurm", {**now.objects, "Controller": {"slurm": changed}}))
    assert [step.keeper for step in plan.steps] == [keeper]


@pytest.mark.parametrize(
    ("then", "now", "patch"),
    [
        ({"a": 1}, {"a": 1}, {}),
        ({"a": 1}, {"a": 2, "b": 3}, {"a": 1, "b": None}),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, {"a": {"y": None}}),
        ({"a": [1]}, {"a": [1, 2]}, {"a": [1]}),
        ({"a": {"x": 1}}, {}, {"a": {"x": 1}}),
    ],
    ids=["the same", "changed and added", "nested", "lists are whole", "taken away"],
)
def test_a_merge_patch_makes_one_of_the_other(then: dict[str, Any], now: dict[str, Any], patch: dict[str, Any]) -> None:
    assert merge_patch(then, now) == patch


def said(config: dict[str, Any], valid: str = "True", generation: int = 3, seen: int = 3) -> dict[str, Any]:
    conditions = [{"type": "ConfigValid", "status": valid, "message": "slurm.conf:3: no"}]
    status = {"config": config, "conditions": conditions, "observedGeneration": seen}
    return {"metadata": {"generation": generation}, "status": status}


@pytest.mark.parametrize(
    ("controller", "passed", "expected"),
    [
        (said({"hash": "aaa"}), 0.3, True),
        (said({"hash": "bbb"}), 0.3, None),
        (said({"hash": "bbb", "candidate": "aaa"}), 9.0, None),
        (said({"hash": "bbb"}, seen=2), 9.0, None),
        (said({"hash": "bbb", "candidate": "ccc"}, valid="False"), 9.0, False),
        (said({"hash": "ccc"}), 9.0, True),
    ],
    ids=["the very one", "not yet", "on its way", "not looked at", "refused", "another one, settled"],
)
def test_a_rollback_is_over_when_slurm_says_so(
    controller: dict[str, Any], passed: float, expected: bool | None
) -> None:
    done = outcome(controller, kept(namespace()), passed)
    assert (done.settled if done is not None else None) is expected


def history(config: dict[str, Any], *revisions: Revision, refused: bool = False) -> History:
    conditions = [{"type": "ConfigValid", "status": "False", "message": "slurm.conf:3: no (configuration x; y)"}]
    current = Configuration("slurm", config["hash"], {"slurm.conf": "B=2\n"}, {}, conditions[0]["message"], refused)
    return History({"status": {"config": config, "conditions": conditions}}, current, revisions)


TWO = (kept(namespace(), 2, "bbb"), kept(namespace(), 1, "aaa"))


def test_the_history_tells_what_is_in_force_what_was_and_what_is_refused() -> None:
    shown = rows(history({"hash": "bbb", "candidate": "ccc"}, *TWO, refused=True))
    assert [(row["revision"], row["state"]) for row in shown] == [("-", "refused"), ("2", "live"), ("1", "good")]
    assert shown[0]["change"] == "slurm.conf:3: no"


def test_what_is_not_kept_yet_is_shown_as_live() -> None:
    shown = rows(history({"hash": "ddd"}, *TWO))
    assert [(row["revision"], row["state"]) for row in shown] == [("-", "live"), ("2", "good"), ("1", "good")]


@pytest.mark.parametrize(
    ("config", "number"),
    [({"hash": "bbb"}, 1), ({"hash": "bbb", "candidate": "ccc"}, 2), ({"hash": "ddd"}, 2)],
    ids=["the one before", "a refused change is taken back", "one that is not kept yet is taken back"],
)
def test_without_a_number_it_is_the_newest_that_is_not_asked_for(config: dict[str, Any], number: int) -> None:
    assert previous(history(config, *TWO)).number == number


def test_an_unknown_revision_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(click.ClickException, match="slurm has no revision 9; it has: 1, 2"):
        revision(history({"hash": "bbb"}, *TWO), 9)
    with pytest.raises(click.ClickException, match="no other configuration to go back to; none has been kept yet"):
        previous(history({"hash": "bbb"}))


def test_a_revision_is_compared_with_what_is_in_force_or_with_another() -> None:
    found = history({"hash": "bbb"}, *TWO)
    assert "+B=2" in between(found, (1,))
    assert between(found, (1, 2)) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [((), ("", ())), (("3",), ("", (3,))), (("slurm", "3", "5"), ("slurm", (3, 5)))],
    ids=["nothing", "a number", "a name and numbers"],
)
def test_numbers_are_revisions_and_the_rest_is_a_name(arguments: tuple[str, ...], expected: tuple[Any, ...]) -> None:
    assert words(arguments) == expected
    with pytest.raises(click.UsageError, match="one Controller"):
        words(("a", "b"))
