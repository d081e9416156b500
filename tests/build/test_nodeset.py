"""Workers: who they are, what slurmd is told, and where they run. Whole objects: tests/golden."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build.resources import controller, nodeset, refs

from slurm_operator.build import labels
from slurm_operator.build import nodeset as build
from slurm_operator.build.errors import BuildError
from slurm_operator.build.nodeset import WorkerIdentity
from slurm_operator.build.revision import hash_of

TERMS = ("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms")


def template_of(cr: Any, **more: Any) -> Any:
    return build.pod_template(cr, controller(), refs(controller(), **more))


def terms(pod: Any) -> Any:
    value = pod["spec"]
    for step in TERMS:
        value = value.get(step, {})
    return value


@pytest.mark.parametrize(
    ("worker", "spec", "identity", "hostname", "pod"),
    [
        pytest.param(WorkerIdentity(ordinal=2), {}, "2", "x-2", "x-2", id="an ordinal"),
        pytest.param(WorkerIdentity(ordinal=2), {"ordinalPadding": 2}, "02", "x-02", "x-02", id="a padded ordinal"),
        pytest.param(
            WorkerIdentity(ordinal=2), {"template": {"spec": {"hostname": "n"}}}, "2", "n2", "x-2", id="with a prefix"
        ),
        pytest.param(WorkerIdentity(node="n1.example.org"), {}, "n1", "n1", "x-257b1e4c", id="a node with a domain"),
        pytest.param(
            WorkerIdentity(node="n3", hostname_override="odd"), {}, "odd", "odd", "x-8721d664", id="an override"
        ),
    ],
)
def test_who_a_worker_is(worker: WorkerIdentity, spec: dict[str, Any], identity: str, hostname: str, pod: str) -> None:
    cr = nodeset("x", **spec)
    assert (worker.identity(cr), worker.hostname(cr), worker.name(cr)) == (identity, hostname, pod)


@pytest.mark.parametrize(
    ("extra", "conf"),
    [
        pytest.param(None, "Features=x", id="nothing"),
        pytest.param("Weight=10", "Features=x Weight=10", id="an option"),
        pytest.param("Features=b,a Feature=c,x", "Features=a,b,c,x", id="features are united and sorted"),
        pytest.param("Gres=a gres=b", "Features=x Gres=a,b", id="a key that comes twice"),
        pytest.param("RealMemory=5 Boards=1", "Boards=1 Features=x RealMemory=5", id="sorted, with their case"),
    ],
)
def test_what_slurmd_registers_with(extra: str | None, conf: str) -> None:
    assert build.node_conf(nodeset("x", **({"extraConf": extra} if extra else {}))) == conf


@pytest.mark.parametrize(
    "extra", ["Weight", "=5", "Weight=", "We-ight=5", "Weight=$(reboot)", "Weight=`x`", "Weight='5'", "Weight=5;x"]
)
def test_options_that_a_shell_would_act_on(extra: str) -> None:
    with pytest.raises(BuildError) as caught:
        build.node_conf(nodeset(extraConf=extra))
    assert caught.value.path == ("spec", "extraConf")


def test_an_ordinal_is_pinned_to_its_node() -> None:
    cr = nodeset("x")
    pod = build.pod(cr, template_of(cr), WorkerIdentity(ordinal=0), pinned_to="n1")
    assert terms(pod) == [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]
    assert terms(build.pod(cr, template_of(cr), WorkerIdentity(ordinal=0))) == {}


def test_a_users_node_name_is_left_to_the_scheduler() -> None:
    assert "nodeName" not in template_of(nodeset(template={"spec": {"nodeName": "n1"}}))["spec"]


@pytest.mark.parametrize(("mode", "count"), [("StatefulSet", 1), ("DaemonSet", 7)])
def test_a_worker_that_belongs_to_its_node_stays_with_it(mode: str, count: int) -> None:
    assert len(template_of(nodeset(scalingMode=mode))["spec"]["tolerations"]) == count


@pytest.mark.parametrize("mode", ["StatefulSet", "DaemonSet"])
@pytest.mark.parametrize(
    "overlay",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"nodeSelector": {"rack": "a"}, "schedulerName": "other"}, id="a selector"),
        pytest.param({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, id="a toleration"),
        pytest.param({"tolerations": [{"$patch": "replace"}]}, id="no tolerations"),
        pytest.param({"$patch": "replace", "nodeSelector": {"rack": "a"}}, id="a spec instead of ours"),
        pytest.param(
            {"affinity": {"nodeAffinity": {TERMS[2]: {"nodeSelectorTerms": [{"matchExpressions": []}]}}}}, id="a term"
        ),
    ],
)
def test_where_workers_may_stand_is_what_their_template_says(mode: str, overlay: dict[str, Any]) -> None:
    cr = nodeset("x", scalingMode=mode, template={"spec": overlay})
    spec = template_of(cr)["spec"]
    assert [place(build.placing_spec(cr), key) for key in build.PLACING] == [place(spec, key) for key in build.PLACING]


def place(spec: Any, key: str) -> Any:
    """Of an affinity only that to nodes."""
    return (spec.get(key) or {}).get("nodeAffinity") if key == "affinity" else spec.get(key)


def test_the_revision_is_that_of_the_recorded_collisions() -> None:
    cr = nodeset(status={"collisionCount": 3, "nodeSetHash": "", "selector": ""})
    assert template_of(cr)["metadata"]["labels"][labels.REVISION] == hash_of(cr, 3) != hash_of(cr)


def test_sssd_and_sshd_restart_workers() -> None:
    ssh = {"enabled": True, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    before = template_of(nodeset(ssh=ssh))["metadata"]["annotations"]
    after = template_of(nodeset(ssh=ssh), secrets={"sssd": {"sssd.conf": b"new"}})["metadata"]["annotations"]
    other = template_of(nodeset(ssh={**ssh, "extraSshdConfig": "A b"}))["metadata"]["annotations"]
    assert before[labels.SSSD_CONF_HASH] != after[labels.SSSD_CONF_HASH]
    assert before[labels.SSHD_CONF_HASH] != other[labels.SSHD_CONF_HASH]


@pytest.mark.parametrize(
    ("cr", "path"),
    [
        pytest.param(nodeset(controllerRef={"name": "gone"}), ("spec", "controllerRef", "name"), id="no Controller"),
        pytest.param(
            nodeset(ssh={"enabled": True}), ("spec", "ssh", "sssdConfRef", "name"), id="ssh without sssd.conf"
        ),
        pytest.param(nodeset("a.b"), ("metadata", "name"), id="a name that is no host name"),
        pytest.param(
            nodeset(template={"spec": {"hostname": "A_"}}),
            ("spec", "template", "spec", "hostname"),
            id="a prefix that is none",
        ),
    ],
)
def test_what_cannot_be_built_names_its_field(cr: Any, path: tuple[object, ...]) -> None:
    with pytest.raises(BuildError) as caught:
        build.objects(cr, refs(controller()))
    assert caught.value.path == path


def test_what_all_workers_share_belongs_to_every_nodeset() -> None:
    world = refs(controller(), nodeset("b"), nodeset("a"))
    service, budget = build.shared_objects(controller(), world)
    for each in (service, budget):
        assert [owner["name"] for owner in each["metadata"]["ownerReferences"]] == ["a", "b"]
        assert not any("controller" in owner for owner in each["metadata"]["ownerReferences"])
    assert budget["spec"]["minAvailable"] == 2**31 - 1
    assert build.shared_objects(controller(), refs(controller())) == []


@pytest.mark.parametrize("spec", [{"volumes": None}, {"$patch": "replace"}], ids=["null", "replace"])
def test_a_template_that_takes_every_volume_away_is_built(spec: dict[str, Any]) -> None:
    """What a user may write must not be an error of ours: it was a KeyError."""
    cr = nodeset(template={"spec": spec})
    template = build.pod_template(cr, controller(), refs())
    assert build.pod(cr, template, WorkerIdentity(ordinal=0))["spec"]["volumes"] == []
