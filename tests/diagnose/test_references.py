"""What a resource names and the namespace does not have is said before a pod has to restart."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.diagnose.broken import Object, cluster, condition, resource

from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.diagnose.cause import Cause, Fine
from slurm_operator.diagnose.cluster import examine
from slurm_operator.diagnose.facts import Facts

KEYS = {"slurmKeyRef": {"name": "key", "key": "slurm.key"}, "jwtKeyRef": {"name": "jwt", "key": "jwt.key"}}
SECRETS = {"key": {"slurm.key": "1"}, "jwt": {"jwt.key": "2"}, "db": {"password": "3"}}
DATABASE = {"host": "db.example.com", "passwordKeyRef": {"name": "db", "key": "password"}}
FILES = {"kind": "ConfigMap", "metadata": {"name": "files"}, "data": {}}
CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"name": "other"}}
Spec = dict[str, Any]
MISSING: dict[str, tuple[str, Spec, str, str, str]] = {
    "the cluster's key": (
        "controller/slurm",
        {**KEYS, "slurmKeyRef": {"name": "nosuch", "key": "slurm.key"}},
        "SecretMissing",
        "Secret 'nosuch' does not exist in namespace slurm; Controller slurm names it in spec.slurmKeyRef",
        "-- cat /etc/slurm/slurm.key | kubectl -n slurm create secret generic nosuch --from-file=slurm.key=",
    ),
    "a key in a Secret": (
        "controller/slurm",
        {**KEYS, "jwtKeyRef": {"name": "jwt", "key": "other"}},
        "SecretKeyMissing",
        "Secret 'jwt' has no key 'other'",
        "kubectl -n slurm edit secret jwt",
    ),
    "the database's password": (
        "accounting/slurm",
        {"storageConfig": {**DATABASE, "passwordKeyRef": {"name": "gone", "key": "password"}}},
        "SecretMissing",
        "spec.storageConfig.passwordKeyRef",
        "create secret generic gone --from-file=password=FILE",
    ),
    "a file of the configuration": (
        "controller/slurm",
        {**KEYS, "configFileRefs": [{"name": "files"}, {"name": "gone"}]},
        "ConfigMapMissing",
        "ConfigMap 'gone' does not exist",
        "create configmap gone",
    ),
    "a prolog": (
        "controller/slurm",
        {**KEYS, "prologScriptRefs": [{"name": "gone"}]},
        "ConfigMapMissing",
        "spec.prologScriptRefs",
        "create configmap gone",
    ),
    "sssd.conf of a LoginSet": (
        "loginset/slurm",
        {"sssdConfRef": {"name": "gone", "key": "sssd.conf"}},
        "SecretMissing",
        "LoginSet slurm names it in spec.sssdConfRef",
        "create secret generic gone",
    ),
    "sssd.conf of workers with ssh": (
        "nodeset/compute",
        {"replicas": 2, "ssh": {"enabled": True, "sssdConfRef": {"name": "gone", "key": "sssd.conf"}}},
        "SecretMissing",
        "spec.ssh.sssdConfRef",
        "create secret generic gone",
    ),
    "the key of a Token": (
        "token/slurm",
        {"jwtKeyRef": {"name": "gone", "key": "jwt.key"}},
        "SecretMissing",
        "Token slurm",
        "create secret generic gone",
    ),
    "an Accounting": (
        "controller/slurm",
        {**KEYS, "accountingRef": {"name": "gone"}},
        "AccountingMissing",
        "Accounting 'gone'",
        "get accountings",
    ),
    "the claim of slurmctld's state": (
        "controller/slurm",
        {**KEYS, "persistence": {"enabled": True, "existingClaim": "gone"}},
        "ClaimMissing",
        "'gone'",
        "get pvc",
    ),
}
KINDS = {
    "controller": "Controller",
    "accounting": "Accounting",
    "loginset": "LoginSet",
    "nodeset": "NodeSet",
    "token": "Token",
}


@pytest.mark.parametrize(("target", "spec", "code", "words", "command"), MISSING.values(), ids=MISSING)
def test_what_is_named_and_not_there_is_the_cause(target: str, spec: Spec, code: str, words: str, command: str) -> None:
    kind, _, name = target.partition("/")
    facts = cluster(resource(KINDS[kind], name, spec), FILES, CLAIM, resource("Accounting", "other"))
    found = explained(replace(facts, secrets=SECRETS), target)
    assert isinstance(found, Cause), found
    assert found.code == code
    assert words in found.sentence
    assert command in found.command
    assert found.wrong


@pytest.mark.parametrize(
    "spec",
    [
        {**KEYS, "configFileRefs": [{"name": "files"}]},
        {**KEYS, "slurmKeyRef": {"name": "gone", "key": "x", "optional": True}},
        {**KEYS, "ssh": {"enabled": False, "sssdConfRef": {"name": "gone", "key": "x"}}},
    ],
    ids=["all there", "optional", "not in use"],
)
def test_what_is_there_or_not_needed_is_no_cause(spec: Spec) -> None:
    facts = replace(cluster(resource("Controller", "slurm", spec), FILES), secrets=SECRETS)
    assert isinstance(explained(facts, "controller/slurm"), Fine)


def test_who_may_not_read_secrets_is_told_nothing_of_them() -> None:
    spec = {**KEYS, "slurmKeyRef": {"name": "nosuch", "key": "slurm.key"}}
    assert isinstance(explained(cluster(resource("Controller", "slurm", spec)), "controller/slurm"), Fine)


def test_doctor_names_a_lost_key_once_however_many_name_it() -> None:
    lost = {"jwtKeyRef": {"name": "gone", "key": "jwt.key"}}
    tokens = [resource("Token", name, lost) for name in ("a", "b", "c")]
    facts = replace(cluster(resource("Controller", "slurm", {**KEYS, **lost}), *tokens), secrets=SECRETS)
    (found,) = examine(facts)
    assert "Secret 'gone' does not exist" in found.sentence
    assert found.sentence.endswith("(and 3 more need it)")


def keyless(*more: Object) -> Facts:
    """A new cluster whose two keys are in one Secret that nobody has made, beside a cluster that runs."""
    keys = {"slurmKeyRef": {"name": "new", "key": "slurm.key"}, "jwtKeyRef": {"name": "new", "key": "jwt.key"}}
    return replace(cluster(resource("Controller", "new", keys, LOST), *more, without=("debug",)), secrets={})


LOST = condition("Ready", "False", "ReferenceNotFound", "Secret 'new' does not exist, and its pods cannot start")


def test_the_secret_of_a_new_cluster_is_made_with_all_of_its_keys_and_none_of_another_cluster() -> None:
    (found,) = examine(keyless())
    assert found.command == (
        "kubectl -n slurm create secret generic new --from-literal=slurm.key=$(openssl rand -hex 64) "
        "--from-literal=jwt.key=$(openssl rand -hex 64)"
    )


def test_a_missing_secret_is_one_cause_for_all_who_need_it() -> None:
    others = [resource(kind, "new", {"controllerRef": {"name": "new"}}, LOST) for kind in ("RestApi", "LoginSet")]
    (found,) = examine(keyless(*others))
    assert found.code == "SecretMissing"
    assert "edit" not in found.command


def test_a_password_that_slurmdbd_cannot_read_is_mended_in_its_secret() -> None:
    said = condition("Ready", "False", "InvalidSpec", "spec.storageConfig.passwordKeyRef: the password holds a space")
    storage = {"storageConfig": {"host": "db", "passwordKeyRef": {"name": "db-password", "key": "p"}}}
    facts = replace(cluster(resource("Accounting", "slurm", storage, said)), secrets={"db-password": {"p": ""}})
    (found,) = examine(facts)
    assert found.command == "kubectl -n slurm edit secret db-password"
