"""What is built is what Kubernetes takes: schemas, the restricted profile, and the same bytes whatever the order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache
from typing import Any

import kubernetes_validate
import pytest
from tests.golden.cases import Case, built, cases, few_workers

from slurm_operator.build import labels
from slurm_operator.build.metadata import Object
from slurm_operator.cli.render import as_json

KUBERNETES = "1.37"
CASES = cases()
IDS = [case.name for case in CASES]
FREE = {labels.WORKER.daemon, labels.LOGIN.daemon}
# https://kubernetes.io/docs/concepts/security/pod-security-standards/#restricted
ALLOWED_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
WORKER_RIGHTS = {"privileged": True, "capabilities": {"add": ["BPF", "NET_ADMIN", "SYS_ADMIN", "SYS_NICE"]}}


@pytest.fixture(autouse=True, scope="module")
def schemas_are_read_once() -> Iterator[None]:
    """The validator reads megabytes of JSON for each object; once is enough."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(kubernetes_validate.utils, "schema_contents", cache(kubernetes_validate.utils.schema_contents))
        yield


@cache
def objects_of(case: Case) -> list[Object]:
    return few_workers(each for _, each in built(case.documents())[1].objects)


def pods_of(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """The daemon and the pod spec of each pod and pod template."""
    for each in objects:
        template = each if each["kind"] == "Pod" else each.get("spec", {}).get("template")
        if template and each["kind"] != "ControllerRevision":
            yield template["metadata"]["labels"][labels.NAME], template["spec"]


def unrestricted(spec: Object) -> Iterator[str]:
    """Everything in a pod that the restricted profile forbids."""
    yield from (name for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name))
    for volume in spec.get("volumes", ()):
        yield from (f"volume {kind}" for kind in volume.keys() - {"name"} - ALLOWED_VOLUMES)
    pod = spec.get("securityContext", {})
    for container in [*spec.get("initContainers", ()), *spec["containers"]]:
        yield from (f"{container['name']}: {problem}" for problem in _unrestricted(container, pod))


def _unrestricted(container: Object, pod: Object) -> Iterator[str]:
    own: Object = container.get("securityContext", {})
    both = {**pod, **own}
    capabilities = own.get("capabilities", {})
    if own.get("privileged"):
        yield "is privileged"
    if own.get("allowPrivilegeEscalation") is not False:
        yield "may escalate"
    if "ALL" not in capabilities.get("drop", ()) or set(capabilities.get("add", ())) - {"NET_BIND_SERVICE"}:
        yield "keeps capabilities"
    if both.get("runAsNonRoot") is not True or both.get("runAsUser") == 0:
        yield "may be root"
    if both.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"):
        yield "has no seccomp profile"
    if any(port.get("hostPort") for port in container.get("ports", ())):
        yield "takes a port of the host"


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_object_holds_against_the_schemas_of_kubernetes(case: Case) -> None:
    for each in objects_of(case):
        if each["kind"] != "ServiceMonitor":
            kubernetes_validate.validate(each, KUBERNETES, strict=True)


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_pod_but_workers_and_login_is_restricted(case: Case) -> None:
    found = [
        f"{daemon}: {problem}"
        for daemon, spec in pods_of(objects_of(case))
        if daemon not in FREE
        for problem in unrestricted(spec)
    ]
    assert not found


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_no_pod_talks_to_kubernetes_by_default(case: Case) -> None:
    for _, spec in pods_of(objects_of(case)):
        assert spec["automountServiceAccountToken"] is False


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_every_mount_has_its_volume_and_every_name_is_there_once(case: Case) -> None:
    objects = objects_of(case)
    claims = {
        claim["metadata"]["name"] for each in objects for claim in each.get("spec", {}).get("volumeClaimTemplates", ())
    }
    for _, spec in pods_of(objects):
        volumes = [volume["name"] for volume in spec["volumes"]]
        assert len(volumes) == len(set(volumes))
        for container in [*spec.get("initContainers", ()), *spec["containers"]]:
            mounted = {mount["name"] for mount in container.get("volumeMounts", ())}
            assert mounted <= {*volumes, *claims}
    names = [(each["kind"], each["metadata"]["namespace"], each["metadata"]["name"]) for each in objects]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("case", CASES, ids=IDS)
def test_the_order_of_the_manifests_does_not_matter(case: Case) -> None:
    documents = case.documents()
    expected = _text(documents)
    for seed in range(3):
        shuffled = random.Random(seed).sample(documents, len(documents))  # noqa: S311 -- reproducible
        assert _text(shuffled) == expected


def _text(documents: list[dict[str, Any]]) -> str:
    rendered = built(documents)[1]
    return "".join([as_json(rendered.of_kinds(())), *rendered.slurm_confs.values()])


def worker_context(case_name: str) -> Any:
    case = next(each for each in CASES if each.name == f"nodeset/{case_name}")
    (spec,) = [spec for daemon, spec in pods_of(objects_of(case)) if daemon == labels.WORKER.daemon]
    return spec["containers"][0].get("securityContext")


@pytest.mark.parametrize(
    ("case", "context"),
    [
        pytest.param("nothing-but-a-controller", WORKER_RIGHTS, id="slurmd manages cgroups: all it needs"),
        pytest.param("without-cgroups-a-worker-has-no-rights", None, id="CgroupPlugin=disabled: nothing"),
        pytest.param(
            "without-cgroups-but-privileged-on-request", {"privileged": True}, id="disabled, but the user says so"
        ),
        pytest.param(
            "an-explicit-false-takes-the-rights-away",
            {"privileged": False, "capabilities": {"add": ["SYS_NICE"]}},
            id="an explicit false wins",
        ),
    ],
)
def test_a_worker_has_the_rights_that_its_cgroup_setting_needs(case: str, context: Any) -> None:
    assert worker_context(case) == context


SAFE_CONTAINER: Object = {
    "name": "c",
    "securityContext": {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "runAsNonRoot": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    },
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param({}, [], id="restricted"),
        pytest.param({"privileged": True}, ["c: is privileged"], id="privileged"),
        pytest.param({"allowPrivilegeEscalation": None}, ["c: may escalate"], id="escalation not ruled out"),
        pytest.param({"capabilities": {}}, ["c: keeps capabilities"], id="nothing dropped"),
        pytest.param({"capabilities": {"drop": ["ALL"], "add": ["BPF"]}}, ["c: keeps capabilities"], id="one added"),
        pytest.param({"runAsUser": 0}, ["c: may be root"], id="root"),
        pytest.param({"runAsNonRoot": None}, ["c: may be root"], id="perhaps root"),
        pytest.param({"seccompProfile": {}}, ["c: has no seccomp profile"], id="no seccomp profile"),
    ],
)
def test_the_checker_of_the_restricted_profile_sees(change: Object, expected: list[str]) -> None:
    container = {**SAFE_CONTAINER, "securityContext": {**SAFE_CONTAINER["securityContext"], **change}}
    assert list(unrestricted({"containers": [container]})) == expected


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"hostPID": True}, ["hostPID"], id="a host namespace"),
        pytest.param({"volumes": [{"name": "v", "hostPath": {}}]}, ["volume hostPath"], id="a folder of the host"),
        pytest.param(
            {"containers": [{**SAFE_CONTAINER, "ports": [{"containerPort": 1, "hostPort": 1}]}]},
            ["c: takes a port of the host"],
            id="a port of the host",
        ),
    ],
)
def test_the_checker_of_the_restricted_profile_sees_in_a_pod(spec: Object, expected: list[str]) -> None:
    assert list(unrestricted({"containers": [SAFE_CONTAINER], **spec})) == expected
