"""Rules for Controllers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.admission.rules.resources import check, namespace, said

from slurm_operator.api.problem import Path

Changes = dict[Path, Any]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({("spec", "clusterName"): "x" * 41}, "spec.clusterName: "),
        ({("spec", "clusterName"): "a b"}, "spec.clusterName: "),
        ({("spec", "clusterName"): "a\n"}, "spec.clusterName: "),
        ({("metadata", "name"): "x" * 41}, "spec.clusterName: "),
        ({("spec", "ha"): {"enabled": True}}, "spec.persistence.existingClaim: slurm high availability (HA) mode"),
        (
            {("spec", "ha"): {"enabled": True}, ("spec", "persistence"): {"enabled": False, "existingClaim": "a"}},
            "spec.persistence.existingClaim: slurm high availability (HA) mode",
        ),
        ({("spec", "persistence"): {"existingClaim": "A_b"}}, "spec.persistence.existingClaim: "),
        (
            {("spec", "persistence"): {"dataSourceRef": {"kind": "a", "name": "b", "namespace": "other"}}},
            "spec.persistence.dataSourceRef.namespace: must be the namespace of this resource",
        ),
        (
            {("spec", "configFileRefs"): [{"name": "files"}, {"name": "none"}]},
            "warning: spec.configFileRefs[1].name: ConfigMap 'none' is not in this namespace; the configuration waits",
        ),
        (
            {("spec", "configFileRefs"): [{"name": "reserved"}]},
            "spec.configFileRefs[0].name: ConfigMap 'reserved' holds slurm.conf, which the operator writes",
        ),
        (
            {("spec", "configFileRefs"): [{"name": "unread"}]},
            "warning: spec.configFileRefs[0].name: ConfigMap 'unread' holds readme.txt, which Slurm does not read and",
        ),
        (
            {("spec", "prologScriptRefs"): [{"name": "none"}]},
            "warning: spec.prologScriptRefs[0].name: ConfigMap 'none' is not in this namespace; the config",
        ),
        ({("spec", "epilogScriptRefs"): [{"name": "bad"}]}, "spec.epilogScriptRefs[0].name: ConfigMap 'bad': "),
        ({("spec", "prologSlurmctldScriptRefs"): [{}]}, "spec.prologSlurmctldScriptRefs[0].name: ConfigMap '' is not"),
        ({("spec", "epilogSlurmctldScriptRefs"): [{"name": "bad"}]}, "spec.epilogSlurmctldScriptRefs[0].name: "),
        (
            {("spec", "metrics"): {"enabled": True}, ("spec", "slurmctld"): {"image": "a/slurmctld:25.05-x"}},
            "spec.metrics.enabled: Slurm 25.05 has no metrics; 25.11 is the first that does",
        ),
        ({("spec", "extraConf"): "a=\x00"}, "spec.extraConf: has the control character"),
    ],
    ids=lambda item: item[:70] if isinstance(item, str) else "",
)
def test_a_mistake_is_refused(changes: Changes, expected: str) -> None:
    more = {"reserved": {"slurm.conf": ""}, "unread": {"readme.txt": ""}, "bad": {"a b": ""}}
    found = said(check("Controller", changes, refs=namespace(**more)))
    assert len(found) == 1, found
    assert found[0].startswith(expected), found


@pytest.mark.parametrize("file", ["slurm.conf", "slurmdbd.conf"])
def test_the_operators_own_files_cannot_be_given(file: str) -> None:
    found = said(check("Controller", {("spec", "configFileRefs"): [{"name": "a"}]}, refs=namespace(a={file: ""})))
    assert found == [f"spec.configFileRefs[0].name: ConfigMap 'a' holds {file}, which the operator writes"]


KNOWN = (
    "acct_gather.conf burst_buffer.conf cgroup.conf cli_filter.lua gres.conf helpers.conf job_container.conf"
    " job_submit.lua mpi.conf namespace.yaml oci.conf plugstack.conf topology.conf topology.yaml"
)


@pytest.mark.parametrize("file", KNOWN.split())
def test_a_file_that_slurm_reads_passes(file: str) -> None:
    assert check("Controller", {("spec", "configFileRefs"): [{"name": "a"}]}, refs=namespace(a={file: ""})) == []


@pytest.mark.parametrize(
    "changes",
    [
        {("spec", "clusterName"): "x" * 40},
        {("spec", "ha"): {"enabled": True, "backups": 2}, ("spec", "persistence"): {"existingClaim": "state"}},
        {("spec", "persistence"): {"dataSourceRef": {"kind": "a", "name": "b", "namespace": "slurm"}}},
        {("spec", "persistence"): {"dataSourceRef": {"kind": "a", "name": "b"}}},
        {("spec", "metrics"): {"enabled": True}, ("spec", "slurmctld"): {"image": "a/slurmctld:25.11"}},
        {("spec", "metrics"): {"enabled": True}, ("spec", "slurmctld"): {"image": "a/slurmctld:latest"}},
        {("spec", "prologScriptRefs"): [{"name": "scripts"}], ("spec", "configFileRefs"): [{"name": "files"}]},
        {
            ("spec", "external"): True,
            ("spec", "externalConfig"): {"host": "ctl", "port": 6817},
            ("spec", "slurmKeyRef"): None,
            ("spec", "jwtKeyRef"): None,
        },
    ],
    ids=["long name", "backups", "same namespace", "no namespace", "metrics", "unknown version", "files", "external"],
)
def test_what_is_right_passes(changes: Changes) -> None:
    assert check("Controller", changes) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            {("spec", "clusterName"): "a"},
            {("spec", "clusterName"): "b"},
            'spec.clusterName: must not change; it was "a"',
        ),
        ({}, {("spec", "clusterName"): "b"}, 'spec.clusterName: must not change; it was "slurm_one"'),
        ({}, {("spec", "slurmKeyRef"): {"name": "b", "key": "c"}}, "spec.slurmKeyRef.name: must not change"),
        ({}, {("spec", "persistence"): {"enabled": False}}, "spec.persistence.enabled: must not change; it was True"),
        ({}, {("spec", "persistence"): {"existingClaim": "a"}}, "spec.persistence.existingClaim: must not change"),
    ],
    ids=lambda item: item if isinstance(item, str) else "",
)
def test_what_a_cluster_stands_on_never_changes(old: Changes, new: Changes, expected: str) -> None:
    found = said(check("Controller", new, old=old))
    assert len(found) == 1, found
    assert found[0].startswith(expected)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({}, {("spec", "clusterName"): "slurm_one"}),
        ({("spec", "clusterName"): "x" * 40}, {("spec", "clusterName"): "x" * 40}),
        ({}, {("spec", "slurmKeyRef"): {"name": "keys", "key": "other"}}),
        (
            {("spec", "persistence"): {"enabled": False, "existingClaim": "a"}},
            {("spec", "persistence"): {"enabled": False, "existingClaim": "b"}},
        ),
        ({}, {("spec", "extraConf"): "SchedulerType=sched/backfill", ("spec", "inplaceReconfigure"): False}),
    ],
    ids=["default spelled out", "kept", "key within the Secret", "claim that is not used", "configuration"],
)
def test_what_may_change_may_change(old: Changes, new: Changes) -> None:
    assert check("Controller", new, old=old) == []


def test_an_external_controller_may_get_its_name_later_and_once() -> None:
    outside: Changes = {("spec", "external"): True, ("spec", "externalConfig"): {"host": "ctl", "port": 1}}
    named: Changes = {**outside, ("spec", "clusterName"): "on_site"}
    assert check("Controller", named, old=outside) == []
    assert said(check("Controller", {**outside, ("spec", "clusterName"): "a b"}, old=outside))
    again = said(check("Controller", {**outside, ("spec", "clusterName"): "other"}, old=named))
    assert again == ['spec.clusterName: must not change; it was "on_site"']
    assert said(check("Controller", outside, old=named)) == ['spec.clusterName: must not change; it was "on_site"']


def test_an_external_controller_may_get_its_keys_later() -> None:
    outside: Changes = {("spec", "external"): True, ("spec", "externalConfig"): {"host": "ctl", "port": 1}}
    old: Changes = {**outside, ("spec", "slurmKeyRef"): None, ("spec", "jwtKeyRef"): None}
    assert check("Controller", outside, old=old) == []
    gone = said(check("Controller", {**outside, ("spec", "slurmKeyRef"): None}, old=outside))
    assert gone == ['spec.slurmKeyRef.name: must not change; it was "keys"']


CLAIM = "spec.persistence.existingClaim"
HA: Changes = {
    ("spec", "ha"): {"enabled": True, "backups": 1},
    ("spec", "persistence"): {"enabled": True, "existingClaim": "state"},
}


@pytest.mark.parametrize(
    ("claims", "expected"),
    [
        ({}, []),
        ({"state": ("ReadWriteMany",)}, []),
        (
            {"state": ("ReadOnlyMany",)},
            [f"{CLAIM}: claim 'state' allows ReadOnlyMany; backup controllers need ReadWriteMany"],
        ),
        (
            {"state": ()},
            [f"{CLAIM}: claim 'state' allows nothing; backup controllers need ReadWriteMany"],
        ),
    ],
    ids=["a claim that may still come", "a shared claim", "a claim for one node", "a claim without a mode"],
)
def test_backup_controllers_share_a_claim(claims: dict[str, tuple[str, ...]], expected: list[str]) -> None:
    assert said(check("Controller", HA, refs=replace(namespace(), claims=claims))) == expected


def test_one_controller_needs_no_shared_claim() -> None:
    alone: Changes = {("spec", "persistence"): {"existingClaim": "state"}}
    assert said(check("Controller", alone, refs=replace(namespace(), claims={"state": ("ReadWriteOnce",)}))) == []


NAMED_FILES = {
    "by an Include": ("Include site.conf\n", {"site.conf": ""}),
    "by a pattern": ("Include parts/*.conf\nInclude *.inc\n", {"site.inc": ""}),
    "by another file": ("", {"gres.conf": "Include more.conf\n", "more.conf": ""}),
    "by itself and another": ("Include a.conf\n", {"a.conf": "# a.conf\n"}),
}


@pytest.mark.parametrize(("extra", "files"), NAMED_FILES.values(), ids=NAMED_FILES.keys())
def test_a_file_that_another_one_names_is_not_called_unread(extra: str, files: dict[str, str]) -> None:
    changes: Changes = {("spec", "extraConf"): extra, ("spec", "configFileRefs"): [{"name": "own"}]}
    assert [
        line for line in said(check("Controller", changes, refs=namespace(own=files))) if "does not read" in line
    ] == []


def test_a_file_that_only_names_itself_is_called_unread() -> None:
    changes: Changes = {("spec", "configFileRefs"): [{"name": "own"}]}
    found = said(check("Controller", changes, refs=namespace(own={"gres.cnf": "# gres.cnf"})))
    assert [line for line in found if "holds gres.cnf, which Slurm does not read and no other file mentions" in line]
