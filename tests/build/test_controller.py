"""Controllers: what they own, where their state lives, and when a change restarts them. Whole objects: tests/golden."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build.resources import JWT_KEY, SLURM_KEY, controller, external_controller, nodeset, refs, resource

from slurm_operator.api.controller import Controller
from slurm_operator.build import controller as build
from slurm_operator.build import labels
from slurm_operator.build.errors import BuildError
from slurm_operator.build.metadata import Object

NO_STATE: dict[str, Any] = {"persistence": {"enabled": False}}
MONITORED: dict[str, Any] = {"metrics": {"enabled": True, "serviceMonitor": {"enabled": True}}}


def stateful_set(cr: Controller, **more: Any) -> Object:
    return next(each for each in build.objects(cr, refs(cr, **more)) if each["kind"] == "StatefulSet")


def kinds(cr: Controller, **more: Any) -> list[str]:
    return [each["kind"] for each in build.objects(cr, refs(cr, **more))]


@pytest.mark.parametrize(
    ("cr", "more", "expected"),
    [
        pytest.param(controller(), {}, ["Service", "Service", "ConfigMap", "StatefulSet"], id="in Kubernetes"),
        pytest.param(external_controller(), {}, ["ConfigMap"], id="elsewhere"),
        pytest.param(
            controller(**MONITORED),
            {},
            ["Service", "Service", "ConfigMap", "StatefulSet", "ServiceMonitor"],
            id="monitored",
        ),
        pytest.param(
            controller(**MONITORED),
            {"serves_service_monitors": False},
            ["Service", "Service", "ConfigMap", "StatefulSet"],
            id="monitored, but nobody serves ServiceMonitors",
        ),
    ],
)
def test_what_a_controller_owns(cr: Controller, more: dict[str, Any], expected: list[str]) -> None:
    assert kinds(cr, **more) == expected


@pytest.mark.parametrize(
    ("files", "managed"),
    [
        pytest.param({}, True, id="no file of the user's"),
        pytest.param({"gres.conf": "x"}, True, id="another file"),
        pytest.param({"cgroup.conf": "CgroupPlugin=cgroup/v2"}, True, id="cgroup v2"),
        pytest.param({"cgroup.conf": "CgroupPlugin=disabled"}, False, id="disabled"),
        pytest.param({"cgroup.conf": "a=b\n cgroupplugin = Disabled # why\n"}, False, id="disabled, spelled freely"),
        pytest.param({"cgroup.conf": "#CgroupPlugin=disabled"}, True, id="in a comment"),
    ],
)
def test_who_manages_cgroups(files: dict[str, str], managed: bool) -> None:
    cr = controller(configFileRefs=[{"name": "files"}])
    assert build.manages_cgroups(cr, refs(config_maps={"files": files})) is managed


@pytest.mark.parametrize(
    ("in_place", "files"),
    [
        pytest.param(True, {"slurm.conf", "cgroup.conf", "gres.conf", "prolog.sh"}, id="with a sidecar: all files"),
        pytest.param(False, {"slurm.conf"}, id="without: only what the operator writes"),
    ],
)
def test_which_files_the_configuration_holds(in_place: bool, files: set[str]) -> None:
    cr = controller(
        configFileRefs=[{"name": "files"}],
        prologScriptRefs=[{"name": "scripts"}],
        inplaceReconfigure=in_place,
        **NO_STATE,
    )
    maps = {"files": {"cgroup.conf": "theirs", "gres.conf": "x"}, "scripts": {"prolog.sh": "#!/bin/sh"}}
    config = next(each for each in build.objects(cr, refs(cr, config_maps=maps)) if each["kind"] == "ConfigMap")
    assert set(config["data"]) == files
    assert config["data"].get("cgroup.conf") in (None, "theirs")


def test_files_that_no_config_map_can_hold_are_refused() -> None:
    cr = controller(configFileRefs=[{"name": "files"}], **NO_STATE)
    with pytest.raises(BuildError, match="configFileRefs"):
        build.objects(cr, refs(cr, config_maps={"files": {"gres.conf": "x" * build.MAX_FILES_BYTES}}))


def containers(cr: Controller) -> dict[str, Object]:
    spec = stateful_set(cr)["spec"]["template"]["spec"]
    return {each["name"]: each for each in (*spec["containers"], *spec["initContainers"])}


def test_only_the_sidecar_writes_to_etc_slurm_and_nothing_starts_before_it_is_filled() -> None:
    found = containers(controller(**NO_STATE))
    written = {
        name: not mount.get("readOnly")
        for name, each in found.items()
        for mount in each["volumeMounts"]
        if mount["mountPath"] == "/etc/slurm"
    }
    assert written == {"slurmctld": False, "reconfigure": True}
    assert "startupProbe" in found["reconfigure"]
    spec = stateful_set(controller(**NO_STATE))["spec"]["template"]["spec"]
    assert spec["initContainers"][0]["name"] == "reconfigure"


def test_no_file_comes_by_a_sub_path_which_would_never_change() -> None:
    mounts = [mount for each in containers(controller(**NO_STATE)).values() for mount in each["volumeMounts"]]
    assert [mount for mount in mounts if "subPath" in mount] == []


@pytest.mark.parametrize(
    ("spec", "volume", "claims"),
    [
        pytest.param({"enabled": False}, {"emptyDir": {}}, 0, id="none"),
        pytest.param(
            {"enabled": True, "existingClaim": "c"}, {"persistentVolumeClaim": {"claimName": "c"}}, 0, id="existing"
        ),
        pytest.param({"enabled": True, "accessModes": ["ReadWriteOnce"]}, None, 1, id="its own claim"),
    ],
)
def test_where_the_state_lives(spec: dict[str, Any], volume: Any, claims: int) -> None:
    built = stateful_set(controller(persistence=spec))["spec"]
    found = [each for each in built["template"]["spec"]["volumes"] if each["name"] == "statesave"]
    assert found == ([{"name": "statesave", **volume}] if volume else [])
    assert len(built.get("volumeClaimTemplates", ())) == claims


@pytest.mark.parametrize(
    ("given", "mode", "size"),
    [
        pytest.param({}, "ReadWriteOnce", "4Gi", id="nothing is said"),
        pytest.param({"accessModes": ["ReadWriteMany"]}, "ReadWriteMany", "4Gi", id="a mode is said"),
        pytest.param({"resources": {"requests": {"storage": "1Gi"}}}, "ReadWriteOnce", "1Gi", id="a size is said"),
    ],
)
def test_a_claim_is_one_that_an_api_server_takes(given: dict[str, Any], mode: str, size: str) -> None:
    (claim,) = stateful_set(controller(persistence={"enabled": True, **given}))["spec"]["volumeClaimTemplates"]
    assert claim["spec"] == {"accessModes": [mode], "resources": {"requests": {"storage": size}}}


def config_hash(extra: str, files: dict[str, str], **spec: Any) -> Any:
    cr = controller(extraConf=extra, configFileRefs=[{"name": "files"}], **NO_STATE, **spec)
    pod = stateful_set(cr, config_maps={"files": files})["spec"]["template"]["metadata"]
    return pod["annotations"].get(labels.CONFIG_HASH)


def test_a_change_restarts_the_pod_only_when_it_is_not_applied_in_place() -> None:
    assert config_hash("A=1", {}) is None
    before = config_hash("A=1", {"gres.conf": "x"}, inplaceReconfigure=False)
    assert before == config_hash("A=1", {"gres.conf": "x"}, inplaceReconfigure=False)
    assert before != config_hash("A=2", {"gres.conf": "x"}, inplaceReconfigure=False)
    assert before != config_hash("A=1", {"gres.conf": "y"}, inplaceReconfigure=False)


def test_the_sidecar_is_there_only_when_changes_are_applied_in_place() -> None:
    def sidecars(**spec: Any) -> list[str]:
        pod = stateful_set(controller(**NO_STATE, **spec))["spec"]["template"]["spec"]
        return [each["name"] for each in pod["initContainers"]]

    assert sidecars() == ["reconfigure", "logfile"]
    assert sidecars(inplaceReconfigure=False) == ["logfile"]


def test_a_workload_of_an_older_release_keeps_its_service() -> None:
    old = stateful_set(controller(**NO_STATE), governing_services={"slurm-controller": "slurm-controller"})
    assert old["spec"]["serviceName"] == "slurm-controller"
    assert stateful_set(controller(**NO_STATE))["spec"]["serviceName"] == "slurm-controller-internal"


def keyless(**spec: Any) -> Controller:
    found = resource("Controller", "slurm", {**NO_STATE, **spec}, {})
    assert isinstance(found, Controller)
    return found


@pytest.mark.parametrize(
    ("cr", "more", "path"),
    [
        pytest.param(keyless(jwtKeyRef=JWT_KEY), {}, ("spec", "slurmKeyRef"), id="no slurm key"),
        pytest.param(keyless(slurmKeyRef=SLURM_KEY), {}, ("spec", "jwtKeyRef"), id="no jwt key"),
        pytest.param(
            controller(ha={"enabled": True}, **NO_STATE),
            {},
            ("spec", "persistence", "existingClaim"),
            id="backups without a shared claim",
        ),
        pytest.param(
            controller(configFileRefs=[{"name": "gone"}]), {}, ("spec", "configFileRefs", 0, "name"), id="no files"
        ),
        pytest.param(
            controller(configFileRefs=[{"name": "files"}]),
            {"config_maps": {"files": {"slurm.conf": "", "slurmdbd.conf": ""}}},
            ("spec", "configFileRefs", 0, "name"),
            id="a file that the operator writes",
        ),
    ],
)
def test_what_cannot_be_built_names_its_field(cr: Controller, more: dict[str, Any], path: tuple[object, ...]) -> None:
    with pytest.raises(BuildError) as caught:
        build.objects(cr, refs(cr, **more))
    assert caught.value.path == path


def test_a_standby_is_ready_while_it_is_alive() -> None:
    shared: dict[str, Any] = {"persistence": {"enabled": True, "existingClaim": "c"}}
    for spec, path in (({"ha": {"enabled": True}, **shared}, "/livez"), (shared, "/readyz")):
        pod = stateful_set(controller(**spec))["spec"]["template"]["spec"]
        assert pod["containers"][0]["readinessProbe"]["httpGet"]["path"] == path


def test_extra_files_are_named_once_and_sorted() -> None:
    cr = controller(
        configFileRefs=[{"name": "z"}, {"name": "a"}],
        prologScriptRefs=[{"name": "m"}],
        epilogScriptRefs=[{"name": "m"}],
    )
    assert build.extra_names(cr) == ["a", "m", "z"]


def test_workers_are_no_matter_of_the_controllers_own_objects() -> None:
    cr = controller(**NO_STATE)
    assert [each["kind"] for each in build.objects(cr, refs(cr, nodeset()))].count("Service") == 2
