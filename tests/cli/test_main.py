"""The commands as a person runs them: formats, exit codes, files, folders, standard input, bad input."""

from __future__ import annotations

import json
import os
import re
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result

from slurm_operator import __version__

Run = Callable[..., Result]
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
  replicas: 2
  partition: {enabled: true}
"""
PARTITION = """\
apiVersion: slinky.slurm.net/v1beta1
kind: Partition
metadata: {name: all, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  nodeSets: [ALL]
"""
REST = """\
apiVersion: slinky.slurm.net/v1beta1
kind: RestApi
metadata: {name: slurm, namespace: slurm}
spec:
  controllerRef: {name: slurm}
"""
LOGIN = """\
apiVersion: slinky.slurm.net/v1beta1
kind: LoginSet
metadata: {name: login, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  sssdConfRef: {name: keys, key: key}
"""
TOKEN = """\
apiVersion: slinky.slurm.net/v1beta1
kind: Token
metadata: {name: alice, namespace: slurm}
spec:
  username: alice
  jwtKeyRef: {name: keys, key: key}
"""
DAEMONS = """\
apiVersion: slinky.slurm.net/v1beta1
kind: NodeSet
metadata: {name: daemons, namespace: slurm}
spec:
  controllerRef: {name: slurm}
  scalingMode: DaemonSet
"""
DOCUMENTS = (KEYS, CONTROLLER, NODESET, PARTITION, REST, LOGIN, TOKEN)
CLUSTER = "---\n".join(DOCUMENTS)
BROKEN = CLUSTER.replace("replicas: 2", "replica: 2")
FINDING = re.compile(r"^\S+:\d+: .+")


class TestRender:
    """`slurm-operator render`."""

    def test_prints_every_object_as_yaml_documents_with_notes(self, run: Run, write: Write) -> None:
        result = run("render", "-f", write(CLUSTER))
        assert result.exit_code == 0
        assert result.stderr == ""
        kinds = [each["kind"] for each in yaml.safe_load_all(result.stdout)]
        assert kinds.count("Pod") == 2
        assert {"StatefulSet", "Service", "ConfigMap", "ControllerRevision", "PodDisruptionBudget"} <= set(kinds)
        notes = [line for line in result.stdout.splitlines() if line.startswith("# not shown: ")]
        assert [note.split(":")[1].strip() for note in notes] == [
            "Secret login-ssh-host-keys",
            "Secret alice-jwt-alice",
            "Partition all",
        ]

    def test_prints_one_list_as_json(self, run: Run, write: Write) -> None:
        path = write(CLUSTER)
        listed = json.loads(run("render", "-f", path, "-o", "json").stdout)
        assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
        assert listed["items"] == list(yaml.safe_load_all(run("render", "-f", path).stdout))

    @pytest.mark.parametrize(
        ("kinds", "expected"),
        [
            (["StatefulSet"], {"StatefulSet"}),
            (["statefulset", "POD"], {"StatefulSet", "Pod"}),
            (["NodeSet"], {"ControllerRevision", "Pod"}),
            (["Nothing"], set()),
        ],
        ids=["one", "any case", "by the resource that makes them", "none"],
    )
    def test_shows_only_the_kinds_that_were_asked_for(
        self, run: Run, write: Write, kinds: list[str], expected: set[str]
    ) -> None:
        options = [option for kind in kinds for option in ("--kind", kind)]
        result = run("render", "-f", write(CLUSTER), *options)
        assert {each["kind"] for each in yaml.safe_load_all(result.stdout) if each} == expected
        assert "not shown" not in result.stdout

    def test_shows_slurm_conf_alone(self, run: Run, write: Write) -> None:
        result = run("render", "-f", write(CLUSTER), "--slurm-conf")
        assert result.exit_code == 0
        assert result.stdout.startswith("#\n### GENERAL ###\nClusterName=slurm_slurm\n")
        assert "PartitionName=all Nodes=ALL State=UP\n" in result.stdout

    def test_names_the_controllers_when_there_are_several(self, run: Run, write: Write) -> None:
        other = CONTROLLER.replace("name: slurm,", "name: other,")
        result = run("render", "-f", write("---\n".join([other, CONTROLLER])), "--slurm-conf")
        titles = [line for line in result.stdout.splitlines() if line.startswith("# Controller ")]
        assert titles == ["# Controller slurm/other", "# Controller slurm/slurm"]

    def test_tells_what_daemons_need(self, run: Run, write: Write) -> None:
        note = "# not shown: Pods of NodeSet daemons: one for each matching Node; add Node manifests to see them"
        without = "---\n".join([CONTROLLER, DAEMONS])
        assert note in run("render", "-f", write(without)).stdout
        node = "apiVersion: v1\nkind: Node\nmetadata: {name: k8s-1}\n"
        shown = run("render", "-f", write("---\n".join([without, node])), "--kind", "Pod").stdout
        assert [each["spec"]["hostname"] for each in yaml.safe_load_all(shown)] == ["k8s-1"]

    @pytest.mark.parametrize("output", ["yaml", "json"])
    def test_the_order_of_documents_does_not_matter(self, run: Run, write: Write, output: str) -> None:
        orders = (DOCUMENTS, DOCUMENTS[::-1], (*DOCUMENTS[3:], *DOCUMENTS[:3]))
        texts = {run("render", "-f", write("---\n".join(order)), "-o", output).stdout for order in orders}
        assert len(texts) == 1

    def test_renders_what_can_be_rendered_and_says_the_rest(self, run: Run, write: Write) -> None:
        path = write("---\n".join([CONTROLLER, REST.replace("{name: slurm}\n", "{name: none}\n", 1)]))
        result = run("render", "-f", path)
        assert result.exit_code == 1
        assert "StatefulSet" in result.stdout
        assert result.stderr == f"{path}:12: spec.controllerRef.name: Controller 'none' is not in this namespace\n"

    def test_text_of_several_lines_is_a_block(self, run: Run, write: Write) -> None:
        text = run("render", "-f", write(CONTROLLER), "--kind", "ConfigMap").stdout
        assert "slurm.conf: |\n" in text


class TestCheck:
    """`slurm-operator check`."""

    def test_says_nothing_about_a_good_cluster(self, run: Run, write: Write) -> None:
        result = run("check", "-f", write(CLUSTER))
        assert (result.exit_code, result.stdout) == (0, "")
        assert result.stderr == "7 documents checked: 0 errors, 0 warnings\n"

    def test_names_file_line_and_field(self, run: Run, write: Write) -> None:
        path = write(BROKEN)
        result = run("check", "-f", path)
        assert result.exit_code == 1
        line = BROKEN.splitlines().index("  replica: 2") + 1
        assert result.stdout == f'{path}:{line}: spec.replica: unknown field; did you mean "replicas"?\n'
        assert result.stderr == "7 documents checked: 1 error, 0 warnings\n"

    @pytest.mark.parametrize("output", ["json", "yaml"])
    def test_lists_findings_for_machines(self, run: Run, write: Write, output: str) -> None:
        path = write(BROKEN)
        result = run("check", "-f", path, "-o", output)
        assert result.exit_code == 1
        found: list[dict[str, Any]] = yaml.safe_load(result.stdout)
        assert [sorted(each) for each in found] == [
            ["code", "column", "file", "line", "message", "object", "path", "severity"]
        ]
        assert found[0]["path"] == "spec.replica"
        assert found[0]["object"] == "NodeSet slurm/compute"
        assert result.stderr == ""

    @pytest.mark.parametrize(("output", "text"), [("json", "[]\n"), ("yaml", "[]\n")])
    def test_an_empty_list_is_a_list(self, run: Run, write: Write, output: str, text: str) -> None:
        result = run("check", "-f", write(CLUSTER), "-o", output)
        assert (result.exit_code, result.stdout) == (0, text)

    def test_a_warning_fails_only_when_strict(self, run: Run, write: Write) -> None:
        path = write("---\n".join([CONTROLLER, NODESET]))
        plain, strict = run("check", "-f", path), run("check", "-f", path, "--strict")
        assert (plain.exit_code, strict.exit_code) == (0, 1)
        assert plain.stdout == strict.stdout
        assert all(": warning: spec." in line for line in plain.stdout.splitlines())
        assert plain.stderr == "2 documents checked: 0 errors, 2 warnings\n"

    @pytest.mark.parametrize(("version", "code"), [("24.11", 1), ("26.05", 0), (None, 0)])
    def test_the_slurm_version_decides_which_keys_there_are(
        self, run: Run, write: Write, version: str | None, code: int
    ) -> None:
        path = write("---\n".join([KEYS, CONTROLLER + "  extraConf: MetricsType=metrics/openmetrics\n"]))
        options = ["--slurm", version] if version else []
        assert run("check", "-f", path, *options).exit_code == code

    def test_reads_several_files_a_folder_and_standard_input(self, run: Run, write: Write, tmp_path: Path) -> None:
        write(KEYS, "folder/a.yaml")
        write(CONTROLLER, "folder/b.yml")
        single = write(NODESET, "single.yaml")
        result = run("check", "-f", str(tmp_path / "folder"), "-f", single, "-f", "-", stdin=PARTITION)
        assert (result.exit_code, result.stderr) == (0, "4 documents checked: 0 errors, 0 warnings\n")

    def test_findings_on_standard_input_are_named_so(self, run: Run) -> None:
        result = run("check", "-f", "-", stdin=CONTROLLER.replace("spec:", "spce:"))
        assert result.exit_code == 1
        assert all(FINDING.match(line) for line in result.stdout.splitlines())


BAD: dict[str, str | bytes] = {
    "no YAML": "a: [",
    "a scalar": "hello",
    "a list": "- a\n- b\n",
    "binary": bytes(range(256)),
    "NUL": "\x00\x01\x02",
    "half a character": b'{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "\\ud800"}}',
    "not UTF-8": b"\xff\xfe\xfa",
    "duplicate keys": "apiVersion: v1\nkind: Secret\nkind: Secret\n",
    "bomb": "a: &a [x,x]\nb: &b [*a,*a]\nc: &c [*b,*b]\nkind: *c\n",
    "kind is a list": "apiVersion: slinky.slurm.net/v1beta1\nkind: [NodeSet]\n",
    "kind is missing": "apiVersion: slinky.slurm.net/v1beta1\n",
    "kind of another's is missing": "apiVersion: v1\nmetadata: {name: a}\n",
    "kind is misspelt": "apiVersion: slinky.slurm.net/v1beta1\nkind: Nodeset\n",
    "version is old": "apiVersion: slinky.slurm.net/v1alpha1\nkind: NodeSet\n",
    "metadata is a list": "apiVersion: slinky.slurm.net/v1beta1\nkind: NodeSet\nmetadata: [a]\n",
    "no spec": "apiVersion: slinky.slurm.net/v1beta1\nkind: NodeSet\nmetadata: {name: a}\n",
    "spec is a number": "apiVersion: slinky.slurm.net/v1beta1\nkind: NodeSet\nmetadata: {name: a}\nspec: 5\n",
    "name is a number": CONTROLLER.replace("name: slurm,", "name: 5,"),
    "namespace is a list": CONTROLLER.replace("namespace: slurm", "namespace: [a]"),
    "data is a list": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: [a]\n",
    "data is a number": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: 5}\n",
    "no base64": "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\ndata: {a: '!'}\n",
    "twice": CONTROLLER + "---\n" + CONTROLLER,
    "ConfigMap twice": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n" * 2,
    "list of wrong type": "apiVersion: v1\nkind: List\nitems: {a: b}\n",
    "deep": "apiVersion: v1\nkind: Secret\nmetadata: " + "{a: " * 300 + "}" * 300 + "\n",
}


@pytest.mark.parametrize("command", ["check", "render"])
@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_a_finding_with_a_line(run: Run, write: Write, command: str, name: str) -> None:
    result = run(command, "-f", write(BAD[name]))
    assert result.exit_code == 1
    lines = [line for line in result.output.splitlines() if FINDING.match(line)]
    assert lines, result.output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["render", "--kind", "Gadget"], "these files give no Gadget; they give: ConfigMap, ControllerRevision, "),
        (["check", "--slurm", "banana"], "'banana' is not a Slurm version such as 25.11"),
    ],
    ids=["a kind that nothing becomes", "no version"],
)
def test_what_is_asked_wrongly_is_told_what_there_is(run: Run, write: Write, arguments: list[str], said: str) -> None:
    result = run(*arguments, "-f", write(CLUSTER))
    assert result.exit_code in (1, 2)
    assert said in result.stderr


def test_a_slurm_conf_of_no_controller_is_said_to_be_none(run: Run, write: Write) -> None:
    result = run("render", "--slurm-conf", "-f", write(KEYS))
    assert (result.exit_code, result.stdout) == (1, "")
    assert "there is no Controller in these files" in result.stderr


def test_a_list_in_a_config_map_of_a_controller_is_said_once(run: Run, write: Write) -> None:
    files = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: files, namespace: slurm}\ndata: [a]\n"
    path = write("---\n".join([KEYS, files, CONTROLLER + "  configFileRefs: [{name: files}]\n"]))
    result = run("check", "-f", path)
    assert result.stdout == f"{path}:9: data: must be a mapping\n"


@pytest.mark.parametrize("text", ["", "---\n---\n", "# only a comment\n"], ids=["empty", "markers", "comment"])
def test_nothing_is_rendered_to_nothing(run: Run, write: Write, text: str) -> None:
    result = run("render", "-f", write(text))
    assert (result.exit_code, result.stdout) == (0, "")


@pytest.mark.parametrize("text", ["", "---\n---\n", "# only a comment\n"], ids=["empty", "markers", "comment"])
def test_a_check_of_nothing_fails(run: Run, write: Write, text: str) -> None:
    path = write(text)
    result = run("check", "-f", path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == f"nothing was checked: there is no manifest in {path}\n"
    assert run("check", "-o", "json", "-f", path).exit_code == 1


@pytest.mark.parametrize("text", ["\na: 1\n", '\n{"a": 1}', "\n{}\n"], ids=["YAML", "JSON", "nothing in it"])
@pytest.mark.parametrize("command", ["check", "render"])
def test_what_is_no_manifest_is_an_error_with_its_line(run: Run, write: Write, command: str, text: str) -> None:
    path = write(text)
    result = run(command, "-f", path)
    assert result.exit_code == 1
    assert f"{path}:2: this is no manifest: it has neither apiVersion nor kind\n" in result.output


def test_values_of_a_chart_may_lie_beside_manifests_in_a_folder(run: Run, write: Write) -> None:
    folder = str(Path(write("a: 1\n", "dir/values.yaml")).parent)
    assert run("check", "-f", folder).exit_code == 1
    write(CLUSTER, "dir/cluster.yaml")
    assert run("check", "-f", folder).exit_code == 0


@pytest.mark.parametrize("command", ["check", "render"])
def test_a_file_that_is_not_there_is_a_finding(run: Run, tmp_path: Path, command: str) -> None:
    result = run(command, "-f", str(tmp_path / "none.yaml"))
    assert result.exit_code == 1
    assert str(tmp_path / "none.yaml") in result.output


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_a_finding(run: Run, write: Write) -> None:
    path = write(CLUSTER)
    Path(path).chmod(0)
    result = run("check", "-f", path)
    assert result.exit_code == 1
    assert path in result.output


def test_what_is_no_file_is_a_finding(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(path))
        result = run("check", "-f", str(path))
    assert result.exit_code == 1
    assert str(path) in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ["check"],
        ["render"],
        ["render", "-f", "-", "-o", "xml"],
        ["check", "-f", "-", "-o", "table"],
        ["unknown"],
        ["check", "-f", "-", "--unknown"],
        ["crds", "-o", "text"],
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2_and_says_how(run: Run, arguments: list[str]) -> None:
    result = run(*arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Usage: slurm-operator" in result.stderr


class TestCrds:
    """`slurm-operator crds`."""

    def test_prints_the_seven_definitions(self, run: Run) -> None:
        documents = list(yaml.safe_load_all(run("crds").stdout))
        assert len(documents) == 7
        assert {each["kind"] for each in documents} == {"CustomResourceDefinition"}

    def test_prints_the_same_as_json(self, run: Run) -> None:
        listed = json.loads(run("crds", "-o", "json").stdout)["items"]
        assert listed == list(yaml.safe_load_all(run("crds").stdout))

    def test_is_what_lies_in_deploy(self, run: Run) -> None:
        folder = Path(__file__).parents[2] / "deploy/crds"
        assert run("crds").stdout == "".join(path.read_text() for path in sorted(folder.iterdir()))


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help_names_the_commands(run: Run, option: str) -> None:
    result = run(option)
    assert result.exit_code == 0
    assert {"check", "crds", "render"} <= set(result.stdout.split())


def test_the_version_is_told(run: Run) -> None:
    assert run("--version").stdout == f"slurm-operator, version {__version__}\n"
