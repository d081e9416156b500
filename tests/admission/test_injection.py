"""No string of a custom resource can add a line, an option or an argument to what the operator writes.

Each field that reaches slurm.conf, slurmdbd.conf, sshd_config, a command line or the environment gets each payload:
it is refused with a path, or what is built has the same keys, lines and arguments as with a harmless value.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
from typing import Any

import pytest
from tests.admission.rules.resources import KEY, raw

from slurm_operator.admission import rules
from slurm_operator.api import text
from slurm_operator.api.problem import FieldProblem, Path, errors
from slurm_operator.api.validate import decode
from slurm_operator.build import accounting, loginset, nodeset
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.nodeset import WorkerIdentity
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import extra_conf, slurm_conf
from slurm_operator.slurm import conf, policy

PAYLOADS = {
    "line": "a\nSlurmUser=root",
    "line end": "a\n",
    "carriage return": "a\rSlurmUser=root",
    "CRLF": "a\r\nSlurmUser=root",
    "vertical tab": "a\x0bSlurmUser=root",
    "NUL": "a\x00b",
    "escape": "a\x1b[2J",
    "line separator": "a\u2028SlurmUser=root",
    "next line": "a\x85SlurmUser=root",
    "no-break space": "a\u00a0State=DOWN",
    "tab": "a\tState=DOWN",
    "comment": "a#b",
    "comment after a space": "a # b",
    "continuation": "a\\",
    "continuation before a space": "a\\ ",
    "double quote": 'a"',
    "quoted": '"a b"',
    "single quote": "a'b",
    "command": "$(touch /tmp/x)",
    "backtick": "`touch /tmp/x`",
    "semicolon": "a;touch /tmp/x",
    "include": "Include /etc/passwd",
    "include on its own line": "\nInclude /etc/passwd",
    "equals": "a=b",
    "spaces": "a State=DOWN",
    "leading space": " a",
    "dash": "--conf-server=evil",
    "path": "../../etc/passwd",
    "4 KB": "a" * 4096,
    "100 KB": "a" * 102_400,
    "surrogate": "a\ud800",
    "byte order mark": "\ufeffa",
}

OUTSIDE = {"host": "ctl", "port": 6817}
STORAGE: Path = ("spec", "storageConfig")
# Where a payload goes, and a harmless value for the same place.
FIELDS: list[tuple[str, Path, str]] = [
    ("Controller", ("spec", "clusterName"), "a"),
    ("Controller", ("metadata", "name"), "slurm"),
    ("Controller", ("spec", "externalConfig", "host"), "ctl"),
    ("Accounting", ("metadata", "name"), "db"),
    ("Accounting", (*STORAGE, "host"), "db"),
    ("Accounting", (*STORAGE, "database"), "a"),
    ("Accounting", (*STORAGE, "username"), "a"),
    ("Accounting", ("spec", "externalConfig", "host"), "db"),
    ("NodeSet", ("metadata", "name"), "compute"),
    ("NodeSet", ("spec", "template", "spec", "hostname"), "a"),
    ("NodeSet", ("spec", "extraConf"), "Weight=1"),
    ("NodeSet", ("spec", "partition", "config"), "Weight=1"),
    ("NodeSet", ("spec", "controllerRef", "name"), "slurm"),
    ("LoginSet", ("metadata", "name"), "login"),
    ("LoginSet", ("spec", "controllerRef", "name"), "slurm"),
    ("Partition", ("metadata", "name"), "part"),
    ("Partition", ("spec", "partitionName"), "a"),
    ("Partition", ("spec", "nodes"), "a"),
    ("Partition", ("spec", "maxTime"), "1"),
    ("Partition", ("spec", "defaultTime"), "1"),
    ("Partition", ("spec", "maxNodes"), "1"),
    ("Partition", ("spec", "overSubscribe"), "NO"),
    ("Partition", ("spec", "preemptMode"), "OFF"),
    ("Partition", ("spec", "state"), "UP"),
    ("Partition", ("spec", "qos"), "a"),
    ("Partition", ("spec", "config"), "Weight=1"),
    ("Partition", ("spec", "tresBillingWeights", "CPU"), "1"),
]
LISTS: list[tuple[str, Path]] = [
    ("Partition", ("spec", "nodeSets")),
    ("Partition", ("spec", "allowAccounts")),
    ("Partition", ("spec", "denyAccounts")),
    ("Partition", ("spec", "allowGroups")),
    ("Partition", ("spec", "allowQos")),
    ("Partition", ("spec", "denyQos")),
]
FREE: list[tuple[str, Path]] = [
    ("Controller", ("spec", "extraConf")),
    ("Accounting", ("spec", "extraConf")),
    ("NodeSet", ("spec", "ssh", "extraSshdConfig")),
    ("LoginSet", ("spec", "extraSshdConfig")),
    ("LoginSet", ("spec", "rootSshAuthorizedKeys")),
]

BASE: dict[str, dict[Path, Any]] = {
    "Controller": {("metadata", "name"): "slurm", ("spec", "accountingRef"): {"name": "db"}},
    "Accounting": {("metadata", "name"): "db"},
    "NodeSet": {
        ("metadata", "name"): "compute",
        ("spec", "ssh"): {"enabled": True, "sssdConfRef": KEY},
        ("spec", "partition"): {"enabled": True},
    },
    "LoginSet": {("metadata", "name"): "login"},
    "Partition": {("metadata", "name"): "part"},
}
Surface = dict[str, Any]


def changed(kind: str, path: Path, value: object) -> dict[Path, Any]:
    """The changes that put a value into a field, with what must be set beside it."""
    changes = {**BASE[kind], path: value}
    if path[1] == "externalConfig":
        changes = {**changes, ("spec", "external"): True, (*path[:-1], "port"): 6817}
    if path[-1] in ("allowAccounts", "denyAccounts", "allowGroups", "allowQos", "denyQos"):
        changes[path] = [value]
    return changes


def world(kind: str, changes: dict[Path, Any]) -> tuple[list[FieldProblem], Refs | None, Any]:
    """What is said about one resource among its neighbours, and the namespace when it is let in."""
    resources: dict[str, Any] = {}
    for other, base in BASE.items():
        decoded = decode(raw(other, copy.deepcopy(changes if other == kind else base)))
        if decoded.resource is None:
            return list(decoded.problems), None, None
        resources[other] = decoded.resource
    owner = resources["Controller"]
    refs = Refs(
        controllers={"slurm": owner, owner.name: owner},
        accountings={"db": resources["Accounting"]},
        nodesets=(resources["NodeSet"],),
        partitions=(resources["Partition"],),
        secrets={"keys": {"key": b"secret"}},
    )
    return rules.check(resources[kind], None, refs), refs, resources


def surface(refs: Refs, resources: dict[str, Any]) -> Surface:
    """Everything that a daemon would act on, without the values."""
    controller, workers, login = resources["Controller"], resources["NodeSet"], resources["LoginSet"]
    built = [*nodeset.objects(workers, refs), *loginset.objects(login, refs)]
    result: Surface = {
        "slurm.conf": keys(slurm_conf(controller, refs).text, controller.spec.extra_conf),
        "argv": [_arguments(each) for each in built],
    }
    dbd = resources["Accounting"]
    if not dbd.spec.external:
        result["slurmdbd.conf"] = keys(accounting.slurmdbd_conf(dbd, refs), dbd.spec.extra_conf)
    for each in built:
        for file, content in each.get("data", {}).items():
            if each["kind"] == "ConfigMap":
                result[file] = content.partition("### EXTRA CONFIG ###" if "sshd" in file else "### SLINKY ###")[0]
    return result


def keys(written: str, extra: str | None) -> list[tuple[str, list[str]]]:
    """The keys of the operator's own lines, which must all be readable."""
    lines = written.split("\n")
    theirs = extra_conf(extra).split("\n") if extra else []
    start = lines.index("### EXTRA CONFIG ###") + 1 if any(theirs) else len(lines)
    document = conf.parse(written)
    own = [entry for entry in document.entries if not start < entry.line <= start + len(theirs)]
    assert [each for each in document.findings if not start < each.line <= start + len(theirs)] == []
    return [(entry.key, [pair.key for pair in entry.attributes]) for entry in own if entry.line < start]


def _arguments(built: dict[str, Any]) -> list[tuple[int, int, list[str]]]:
    spec = built.get("spec", {})
    pod = spec.get("template", {}).get("spec", spec)
    return [
        (len(each.get("args", ())), len(each.get("command", ())), [env["name"] for env in each.get("env", ())])
        for each in [*pod.get("containers", ()), *pod.get("initContainers", ())]
    ]


def assert_harmless(kind: str, path: Path, value: object, harmless: object) -> None:
    """The value is refused by its path, or it changes no key, line or argument."""
    found, refs, resources = world(kind, changed(kind, path, value))
    if errors(found):
        assert all(problem.path for problem in found), found
        assert all("\n" not in str(problem) for problem in found), found
        assert any(problem.path[: len(path)] == path[: len(problem.path)] for problem in found), found
        return
    assert refs is not None
    good, twin_refs, twin = world(kind, changed(kind, path, harmless))
    assert twin_refs is not None, good
    assert surface(refs, resources) == surface(twin_refs, twin)


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
@pytest.mark.parametrize(("kind", "path", "harmless"), FIELDS, ids=[f"{row[0]}.{row[1][-1]}" for row in FIELDS])
def test_a_payload_is_refused_or_stays_one_value(kind: str, path: Path, harmless: str, payload: str) -> None:
    value = PAYLOADS[payload]
    # The field may want a pair: then the payload is its value, and as such it may be one more pair.
    pairs = path[-1] in ("extraConf", "config")
    assert_harmless(kind, path, f"Weight={value}" if pairs else value, _twin(value) if pairs else harmless)


def _twin(value: str) -> str:
    """The same words with harmless values: a user's own pairs are a user's own pairs."""
    return " ".join(["Weight=1", *("State=1" for word in value.split()[1:] if "=" in word)])


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
@pytest.mark.parametrize(("kind", "path"), LISTS, ids=[str(row[1][-1]) for row in LISTS])
def test_a_payload_in_a_list_is_refused_or_stays_one_value(kind: str, path: Path, payload: str) -> None:
    if path[-1] == "nodeSets":
        found, _, _ = world(kind, changed(kind, path, [PAYLOADS[payload]]))
        assert errors(found)
    else:
        assert_harmless(kind, path, PAYLOADS[payload], "a")


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
@pytest.mark.parametrize(("kind", "path"), FREE, ids=[f"{row[0]}.{row[1][-1]}" for row in FREE])
def test_lines_of_a_user_never_touch_the_operators_own(kind: str, path: Path, payload: str) -> None:
    assert_harmless(kind, path, PAYLOADS[payload], "# nothing")


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
def test_the_key_of_a_billing_weight_is_refused_or_stays_one_value(payload: str) -> None:
    weights = {PAYLOADS[payload]: "1"}
    assert_harmless("Partition", ("spec", "tresBillingWeights"), weights, {"CPU": "1"})


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
def test_a_database_password_is_refused_unseen_or_stays_one_value(payload: str) -> None:
    _, refs, resources = world("Accounting", BASE["Accounting"])
    assert refs is not None
    password = f"hunter2{PAYLOADS[payload]}".encode("utf-8", "surrogatepass")
    armed = dataclasses.replace(refs, secrets={"keys": {"key": password}})
    found = rules.check(resources["Accounting"], None, armed)
    if found:
        assert [problem.path for problem in found] == [("spec", "storageConfig", "passwordKeyRef")]
        assert "hunter2" not in str(found[0])
        return
    written = accounting.slurmdbd_conf(resources["Accounting"], armed)
    assert keys(written, None) == keys(accounting.slurmdbd_conf(resources["Accounting"], refs), None)


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
@pytest.mark.parametrize("field", ["prologScriptRefs", "epilogSlurmctldScriptRefs"])
def test_a_file_name_is_refused_or_stays_one_value(field: str, payload: str) -> None:
    decoded = decode(raw("Controller", {("spec", field): [{"name": "scripts"}]}))
    assert decoded.resource is not None
    controller: Any = decoded.resource
    refs = Refs(config_maps={"scripts": {PAYLOADS[payload]: ""}})
    found = rules.check(controller, None, refs)
    if errors(found):
        assert [problem.path for problem in found] == [("spec", field, 0, "name")]
        return
    harmless = Refs(config_maps={"scripts": {"a": ""}})
    assert keys(slurm_conf(controller, refs).text, None) == keys(slurm_conf(controller, harmless).text, None)


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
def test_the_host_name_that_a_kubernetes_node_asks_for_is_a_label_or_refused(payload: str) -> None:
    _, refs, resources = world("NodeSet", BASE["NodeSet"])
    assert refs is not None
    template = nodeset.pod_template(resources["NodeSet"], refs.controllers["slurm"], refs)
    # None of the payloads is a label.
    with pytest.raises(InvalidSpec, match="host name"):
        nodeset.pod(resources["NodeSet"], template, WorkerIdentity(node="k8s-1", hostname_override=PAYLOADS[payload]))


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
def test_a_drain_reason_stays_one_short_line(payload: str) -> None:
    safe = policy.clean_reason(f"node-cordon: {PAYLOADS[payload]}")
    assert safe.startswith("node-cordon:")
    assert len(safe) <= policy.MAX_REASON_CHARACTERS
    assert safe.isprintable()
    assert '"' not in safe
    safe.encode()


@pytest.mark.parametrize("payload", PAYLOADS, ids=str)
def test_the_user_of_a_token_is_refused_or_a_user_name(payload: str) -> None:
    secret = {"name": "mine", "key": base64.b16encode(b"k").decode()}
    decoded = decode(raw("Token", {("spec", "username"): PAYLOADS[payload], ("spec", "secretRef"): secret}))
    found = list(decoded.problems)
    if decoded.resource is not None:
        found = rules.check(decoded.resource, None, Refs())
    assert [problem.path for problem in found] in ([], [("spec", "username")])
    assert (text.user_name(PAYLOADS[payload]) is None) is (found == [])
