"""`slurm-operator check`: what rules, references and the linter say, led back to the line that a person wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from slurm_operator.cli.check import check
from slurm_operator.cli.world import load

Write = Callable[..., str]

KEYS = """\
apiVersion: v1
kind: Secret
metadata: {name: keys, namespace: slurm}
stringData: {key: secret}
"""
CONTROLLER = """\
apiVersion: slinky.slurm.net/v1beta1
kind: Controller
metadata: {name: slurm, namespace: slurm}
spec:
  slurmKeyRef: {name: keys, key: key}
  jwtKeyRef: {name: keys, key: key}
"""
NODESET = """\
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: compute, namespace: slurm}
spec:
  controllerRef: {name: slurm}
"""
PARTITION = """\
apiVersion: slinky.slurm.net/v1beta1
kind: Partition
metadata: {name: part, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  nodeSets: [compute]
"""
FILES = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: files, namespace: slurm}
data:
"""
STORAGE = "  storageConfig: {host: db, passwordKeyRef: {name: keys, key: key}}\n"


def found(write: Write, *documents: str) -> list[tuple[int, str, str]]:
    """Line, code and message of each finding; the first document is the one under test."""
    world = load([write("---\n".join(documents))], partial=True)
    return [(finding.line, finding.code, f"{finding.path}: {finding.message}") for finding in check(world)]


def one(write: Write, *documents: str) -> tuple[int, str, str]:
    """The only finding."""
    (only,) = found(write, *documents)
    return only


@pytest.mark.parametrize(
    ("field", "line", "code", "message"),
    [
        ("  extraConf: SlurmctldHost=a\n", 7, "OwnedKey", "spec.extraConf: "),
        ("  extraConf: |\n    A=b\n", 8, "UnknownKey", "spec.extraConf: "),
        (
            "  extraConf: |\n    TaskPlugin=task/none\n    TaskPlugin=task/affinity\n",
            9,
            "DuplicateKey",
            "spec.extraConf",
        ),
        ("  extraConf: |\n    TaskPlugin=task/none\n    Include none.conf\n", 9, "MissingInclude", "spec.extraConf: "),
        ("  extraConf: Rubbish\n", 7, "NotAPair", "spec.extraConf: "),
        ("  clusterName: a b\n", 7, "Refused", "spec.clusterName: "),
    ],
)
def test_a_line_of_extra_conf_is_led_back(write: Write, field: str, line: int, code: str, message: str) -> None:
    got = one(write, CONTROLLER + field, KEYS)
    assert got[:2] == (line, code)
    assert got[2].startswith(message)


def test_a_key_of_the_operator_may_be_overridden_where_that_is_meant(write: Write) -> None:
    assert found(write, CONTROLLER + "  extraConf: SlurmctldLogFile=/tmp/a\n", KEYS) == []


def test_a_partition_line_is_led_back_to_its_nodeset(write: Write) -> None:
    config = "  partition:\n    enabled: true\n    config: MaxTyme=1\n"
    assert one(write, NODESET + config, CONTROLLER, KEYS)[:2] == (8, "UnknownKey")


def test_a_partition_line_is_led_back_to_its_partition(write: Write) -> None:
    line, code, message = one(write, PARTITION + "  config: MaxTyme=1\n", CONTROLLER, NODESET, KEYS)
    assert (line, code) == (7, "UnknownKey")
    assert "MaxTime" in message


@pytest.mark.parametrize(
    ("changed", "code", "path"),
    [
        (PARTITION.replace("[compute]", "[none]"), "NodeSetNotFound", "spec.nodeSets[0]"),
        (PARTITION + "  partitionName: taken\n", "NameTaken", "spec.partitionName"),
        (PARTITION + "  default: true\n", "SecondDefault", "spec.default"),
        (PARTITION.replace("{name: slurm}\n", "{name: none}\n"), "ReferenceNotFound", "spec.controllerRef.name"),
    ],
    ids=["no NodeSet", "name taken", "second default", "no Controller"],
)
def test_a_partition_that_is_left_out_says_why(write: Write, changed: str, code: str, path: str) -> None:
    extra = "  extraConf: |\n    NodeName=a\n    PartitionName=taken Nodes=a Default=YES\n"
    got = one(write, changed, CONTROLLER + extra, NODESET, KEYS)
    assert (got[1], got[2].partition(": ")[0]) == (code, path)


def test_a_file_in_a_config_map_is_led_back_to_its_line(write: Write) -> None:
    files = FILES + "  gres.conf: |\n    AutoDetect=nvml\n    Rubbish\n"
    refs = "  configFileRefs: [{name: files}]\n  extraConf: GresTypes=gpu\n"
    line, _, message = one(write, files, CONTROLLER + refs, KEYS)
    assert line == 7
    assert message.startswith('data["gres.conf"]: ')


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (CONTROLLER.replace("name: keys", "name: none", 1), "spec.slurmKeyRef.name"),
        (CONTROLLER.replace("jwtKeyRef: {name: keys", "jwtHs256KeyRef: {name: none"), "spec.jwtHs256KeyRef.name"),
        (NODESET + "  ssh: {enabled: true, sssdConfRef: {name: none, key: a}}\n", "spec.ssh.sssdConfRef.name"),
    ],
    ids=["slurm key", "old jwt key", "sssd"],
)
def test_a_secret_that_is_not_among_the_files_is_a_warning(write: Write, document: str, path: str) -> None:
    rest = [KEYS] if "kind: Controller" in document else [KEYS, CONTROLLER]
    _, code, message = one(write, document, *rest)
    assert (code, message) == ("SecretNotGiven", f"{path}: Secret 'none' is not among the files")


def test_an_optional_secret_may_be_missing(write: Write) -> None:
    text = CONTROLLER.replace("slurmKeyRef: {name: keys, key: key}", "slurmKeyRef: {name: a, key: b, optional: true}")
    assert found(write, text, KEYS) == []


def test_a_key_that_its_secret_does_not_hold_is_an_error(write: Write) -> None:
    text = CONTROLLER.replace("key: key}", "key: other}", 1)
    assert one(write, text, KEYS) == (5, "ReferenceNotFound", "spec.slurmKeyRef.key: Secret 'keys' has no key 'other'")


def test_the_password_of_a_database_may_be_in_the_cluster(write: Write) -> None:
    storage = STORAGE.replace("name: keys", "name: none")
    accounting = CONTROLLER.replace("kind: Controller", "kind: Accounting") + storage
    codes = [code for _, code, _ in found(write, accounting, KEYS)]
    assert codes == ["SecretNotGiven"]


def test_a_reference_to_a_broken_resource_is_not_said_again(write: Write) -> None:
    broken = CONTROLLER.replace("jwtKeyRef", "jwtKeyReff")
    assert [line for line, _, _ in found(write, broken, NODESET, PARTITION, KEYS)] == [6]


def test_an_object_that_cannot_be_built_is_said_once(write: Write) -> None:
    text = CONTROLLER + "  ha: {enabled: true}\n"
    (got,) = found(write, text, KEYS)
    assert got[2].startswith("spec.persistence.existingClaim: slurm high availability")


def test_an_external_controller_is_not_linted(write: Write) -> None:
    text = CONTROLLER + "  external: true\n  externalConfig: {host: ctl, port: 6817}\n  extraConf: Rubbish\n"
    assert found(write, text, KEYS) == []


def test_the_image_tells_the_version(write: Write) -> None:
    text = CONTROLLER + "  slurmctld: {image: 'a/slurmctld:24.11-x'}\n  extraConf: MetricsType=metrics/openmetrics\n"
    assert found(write, text, KEYS) != []
    assert found(write, text.replace("24.11", "25.11"), KEYS) == []


def test_what_needs_a_flag_of_the_operator_is_warned_of(tmp_path: Path) -> None:
    """C1: check said 0 errors and 0 warnings of a NodeSet that every operator refuses by default."""
    file = tmp_path / "nodeset.yaml"
    file.write_text(
        "apiVersion: slinky.slurm.net/v1beta1\nkind: NodeSet\nmetadata: {name: a, namespace: slurm}\n"
        "spec:\n  controllerRef: {name: slurm}\n  slurmd: {image: mine/slurmd:1}\n"
        "  template: {spec: {hostNetwork: true}}\n"
    )
    found = [each for each in check(load((str(file),)), None, frozenset()) if each.code == "PodFeature"]
    assert [(each.path, each.severity) for each in found] == [
        ("spec.slurmd.image", "warning"),
        ("spec.template.spec.hostNetwork", "warning"),
    ]
    assert "--allow-pod-features=hostNamespaces" in found[1].message
    allowed = frozenset({"privileged", "hostNamespaces"})
    assert not [each for each in check(load((str(file),)), None, allowed) if each.code == "PodFeature"]


def messages(write: Write, *documents: str) -> list[str]:
    return [str(finding).partition(": ")[2] for finding in check(load([write("---\n".join(documents))]))]


def test_two_places_of_a_mistake_are_both_lines_of_the_users_files(write: Write) -> None:
    extra = "  extraConf: |\n    NodeSet=x Feature=a\n    NodeSet=x Feature=b\n"
    (got,) = messages(write, CONTROLLER + extra, KEYS)
    assert got.startswith("spec.extraConf: NodeSet x is already defined at ")
    assert got.endswith(".yaml:8")


def test_a_file_that_another_one_includes_is_read(write: Write) -> None:
    """U5: check called an included file one that Slurm does not read."""
    files = FILES + "  site.conf: |\n    TreeWidth=4\n  cgroups.conf: CgroupPlugin=disabled\n"
    refs = "  configFileRefs: [{name: files}]\n  extraConf: Include site.conf\n"
    (got,) = messages(write, CONTROLLER + refs, files, KEYS)
    assert got == (
        "warning: spec.configFileRefs[0].name: ConfigMap 'files' holds cgroups.conf, which Slurm does not read"
        ' and no other file mentions; did you mean "cgroup.conf"?'
    )


def test_a_mistake_in_an_included_file_is_led_back_to_its_line(write: Write) -> None:
    files = FILES + "  site.conf: |\n    TreeWidth=4\n    SlurmctldPort=1\n    TreeWidth=5\n"
    refs = "  configFileRefs: [{name: files}]\n  extraConf: Include site.conf\n"
    got = found(write, files, CONTROLLER + refs, KEYS)
    assert [(line, code) for line, code, _ in got] == [(7, "OwnedKey"), (8, "DuplicateKey")]


@pytest.mark.parametrize("document", [NODESET, PARTITION], ids=["NodeSet", "Partition"])
def test_a_controller_that_is_not_among_the_files_is_a_warning(write: Write, document: str) -> None:
    (got,) = check(load([write(document)]))
    assert (got.severity, got.code, got.path) == ("warning", "ControllerNotGiven", "spec.controllerRef.name")
    assert got.message == "Controller 'slurm' is not among the files, so this resource is not checked together with it"


def test_images_that_the_operator_trusts_get_no_warning(write: Write) -> None:
    path = write(NODESET + "  slurmd: {image: mine/slurmd:26.05}\n")
    codes = [each.code for each in check(load([path]), None, frozenset())]
    trusted = [each.code for each in check(load([path]), None, frozenset(), ("mine/slurmd",))]
    assert ("PodFeature" in codes, "PodFeature" in trusted) == (True, False)


def test_a_field_that_cannot_be_read_hides_nothing_else(write: Write) -> None:
    wrong = "  persistence: {enabled: perhaps}\n  accountingRef: {name: nosuch}\n"
    controller = CONTROLLER + wrong + "  extraConf: KillWait=1m\n"
    nodeset = NODESET + "  replica: 4\n  partition: {enabled: true, config: MaxTime=2hours}\n"
    partition = PARTITION.replace("[compute]", "[gpu]") + "  maxTime: 2hours\n"
    got = found(write, controller, nodeset, partition, KEYS)
    assert [(line, code) for line, code, _ in got] == [
        (7, "InvalidField"),
        (8, "AccountingNotGiven"),
        (9, "BadValue"),
        (16, "InvalidField"),
        (17, "BadValue"),
        (24, "NodeSetNotFound"),
        (25, "InvalidField"),
    ]


def test_a_misspelt_field_is_not_also_called_missing(write: Write) -> None:
    line, code, message = one(write, CONTROLLER.replace("jwtKeyRef", "jwtKeyref"), KEYS)
    assert (line, code) == (6, "InvalidField")
    assert message.endswith('did you mean "jwtKeyRef"?')


def test_what_cannot_be_built_hides_no_line_of_extra_conf(write: Write) -> None:
    changed = CONTROLLER + "  clusterName: NOT VALID\n  prologScriptRefs: [{name: nosuch}]\n  extraConf: KillWait=1m\n"
    lines = {(line, path.partition(":")[0]) for line, _, path in found(write, changed, KEYS)}
    assert lines == {(7, "spec.clusterName"), (8, "spec.prologScriptRefs[0].name"), (9, "spec.extraConf")}


def test_a_file_of_a_config_map_that_is_not_given_may_be_in_it(write: Write) -> None:
    changed = CONTROLLER + "  configFileRefs: [{name: nosuch}]\n  extraConf: JobSubmitPlugins=lua\n"
    assert [code for _, code, _ in found(write, changed, KEYS)] == ["ReferenceNotFound"]


@pytest.mark.parametrize(
    ("nodes", "nodeset", "codes"),
    [
        ("-compute-0,+nohost-3", NODESET, [(7, "NodesNotAdded")]),
        ("-compute-0,+compute-7", NODESET, []),
        ("-compute-0", NODESET, []),
        ("+n1", NODESET + "  scalingMode: DaemonSet\n", []),
    ],
    ids=["no such host", "a worker of a larger NodeSet", "taken away", "the name of a Kubernetes node"],
)
def test_a_host_that_no_nodeset_can_have_is_named(
    write: Write, nodes: str, nodeset: str, codes: list[tuple[int, str]]
) -> None:
    got = found(write, PARTITION + f'  nodes: "{nodes}"\n', CONTROLLER, nodeset, KEYS)
    assert [each[:2] for each in got] == codes
    assert all("nohost-3" in each[2] for each in got)


def test_a_partition_without_hosts_is_led_back_to_the_field_that_is_there(write: Write) -> None:
    ghost = PARTITION.replace("nodeSets: [compute]", "nodes: r1n[1-8]")
    assert one(write, ghost, CONTROLLER, NODESET, KEYS)[:2] == (6, "NoNodes")


def test_each_config_map_that_is_not_given_is_one_error(write: Write) -> None:
    changed = CONTROLLER + "  prologScriptRefs:\n  - name: a\n  - name: b\n  configFileRefs: [{name: c}]\n"
    assert [each[:2] for each in found(write, changed, KEYS)] == [(n, "ReferenceNotFound") for n in (8, 9, 10)]


@pytest.mark.parametrize("restapi", [True, False], ids=["live", "by the file"])
def test_a_partition_of_extra_conf_that_slurmrestd_cannot_name_is_found(write: Write, restapi: bool) -> None:
    changed = CONTROLLER + "  extraConf: |\n    MinJobAge=600\n    PartitionName=größe Nodes=ALL\n"
    serving = NODESET.replace("NodeSet", "RestApi").replace("compute", "rest")
    world = load([write("---\n".join([changed, KEYS, NODESET, *([serving] if restapi else [])]))], partial=True)
    (only,) = check(world)
    assert (only.line, only.severity) == (9, "error" if restapi else "warning")
    assert "'größe' is not a partition name" in only.message


def test_an_accounting_that_is_not_given_may_be_in_the_cluster(write: Write) -> None:
    changed = CONTROLLER + "  accountingRef: {name: books}\n"
    assert one(write, changed, KEYS)[1] == "AccountingNotGiven"
    other = changed.replace("kind: Controller", "kind: Accounting").split("  slurmKeyRef")[0].replace("slurm,", "boks,")
    other += "  slurmKeyRef: {name: keys, key: key}\n  jwtKeyRef: {name: keys, key: key}\n" + STORAGE
    assert one(write, changed, other, KEYS)[::2] == (
        7,
        "spec.accountingRef.name: Accounting 'books' is not in this namespace; the files have boks",
    )


def test_a_claim_that_is_not_given_may_be_in_the_cluster(write: Write) -> None:
    changed = CONTROLLER + "  persistence: {enabled: true, existingClaim: state}\n"
    assert one(write, changed, KEYS)[1] == "ClaimNotGiven"


def test_partition_options_are_checked_without_their_controller(write: Write) -> None:
    got = found(write, NODESET + "  partition: {enabled: true, config: MaxTime=2hours Default=YES}\n")
    assert [(line, code) for line, code, _ in got] == [(5, "ControllerNotGiven"), (6, "BadValue")]


def test_a_nodeset_that_sets_the_nodes_of_its_partition_is_warned(write: Write) -> None:
    line, code, message = one(write, NODESET + "  partition: {enabled: true, config: Nodes=ALL}\n", CONTROLLER, KEYS)
    assert (line, code) == (6, "DuplicateKey")
    assert "Nodes is set twice in this line" in message


@pytest.mark.parametrize("mount", ["/etc/slurm", "/etc/slurm/site/"])
def test_a_program_that_a_template_mounts_is_not_called_missing(write: Write, mount: str) -> None:
    controller = CONTROLLER + "  extraConf: TaskProlog=/etc/slurm/site/task.sh\n"
    mounted = NODESET + f"  slurmd: {{volumeMounts: [{{name: site, mountPath: {mount}}}]}}\n"
    assert one(write, controller, NODESET, KEYS)[:2] == (7, "MissingProgram")
    codes = [code for _, code, _ in found(write, controller, mounted, KEYS)]
    assert "MissingProgram" not in codes
