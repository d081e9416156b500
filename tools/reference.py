"""Write docs/reference: pages that say what the code says.

In: the kinds, the names and labels, the command line, the findings of the checker and the metrics. Out: one page for
each kind, names.md, cli.md, linter.md, metrics.md and pod-features.md. Run by `make golden`; a test fails when a page
is stale, or a finding or a label has no text.
"""

from __future__ import annotations

import ast
import itertools
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import yaml

from slurm_operator import cli
from slurm_operator.admission.rules.reach_table import SECTIONS, Row
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.bounds import MAX_TEXT_CHARACTERS
from slurm_operator.api.controller import Controller
from slurm_operator.api.crd import definition, object_schema
from slurm_operator.api.kinds import KINDS, Kind
from slurm_operator.api.loginset import LoginSet, LoginSetSpec
from slurm_operator.api.meta import API_VERSION, ControllerRef, ObjectMeta, SecretKeySelector
from slurm_operator.api.nodeset import NodeSet, NodeSetSpec
from slurm_operator.api.restapi import RestApi, RestApiSpec
from slurm_operator.api.token import Token, TokenSpec
from slurm_operator.build import labels, names
from slurm_operator.cli.kubectl.main import main as plugin
from slurm_operator.cli.main import main
from slurm_operator.metrics import catalogue

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "docs/reference"
TEXTS = FOLDER / "texts.yaml"
GENERATED = "<!-- Written by tools/reference.py; change the code, then run `make golden`. -->"
DOCUMENTED_FLAGS = {"x-kubernetes-preserve-unknown-fields": "Any field of the Kubernetes type is taken."}

Schema = Mapping[str, Any]


def pages() -> dict[str, str]:
    """Every page by its file name."""
    kinds = {f"{kind.singular}.md": kind_page(kind) for kind in KINDS}
    return {
        **kinds,
        "names.md": names_page(),
        "cli.md": cli_page(),
        "kubectl-slurm.md": kubectl_page(),
        "linter.md": linter_page(),
        "examples.md": examples_page(),
        "metrics.md": metrics_page(),
        "pod-features.md": features_page(),
    }


def texts() -> dict[str, Any]:
    """What people wrote for these pages."""
    loaded: dict[str, Any] = yaml.safe_load(TEXTS.read_text())
    return loaded


def _page(lines: Iterator[str]) -> str:
    first, *rest = lines
    return "\n".join([first, "", GENERATED, "", *rest]).rstrip() + "\n"


# Kinds


def kind_page(kind: Kind) -> str:
    """The page of one kind: its names, its rules, every field."""
    return _page(_kind_lines(kind))


def _kind_lines(kind: Kind) -> Iterator[str]:
    schema = object_schema(kind)
    yield f"# {kind.name}"
    yield from (schema["description"], "")
    yield from _wire_names(kind)
    for part in ("spec", "status"):
        yield from ("", f"## {part}", "", str(schema["properties"][part].get("description", "")), "")
        yield from _rules(schema["properties"][part])
        yield from _fields(schema["properties"][part], part)


def _wire_names(kind: Kind) -> Iterator[str]:
    columns = definition(kind)["spec"]["versions"][0]["additionalPrinterColumns"]
    plain = [column["name"] for column in columns if not column.get("priority")]
    wide = [column["name"] for column in columns if column.get("priority")]
    yield f"- API: `{API_VERSION}`, namespaced"
    yield f"- `kubectl get`: {_codes(dict.fromkeys((kind.plural, kind.singular, *kind.short_names)))}"
    yield f"- columns: {_codes(plain)}; with `-o wide` also {_codes(wide)}"
    if kind.scalable:
        yield "- `kubectl scale` works on it"


def _codes(words: Any) -> str:
    return ", ".join(f"`{word}`" for word in words)


def _fields(schema: Schema, path: str) -> Iterator[str]:
    required = schema.get("required", [])
    for name, field in schema.get("properties", {}).items():
        place = f"{path}.{name}"
        yield f"- **`{place}`** · {_about(field, required=name in required)}"
        yield ""
        yield f"    {_text(field)}"
        yield ""
        yield from (f"    {line}" if line else "" for line in _rules(field))
        yield from _fields(field, place)
        yield from _fields(field.get("items", {}), f"{place}[]")


def _about(field: Schema, *, required: bool) -> str:
    parts = [_type(field)]
    if required:
        parts.append("required")
    if "default" in field:
        parts.append(f"default `{_scalar(field['default'])}`")
    return " · ".join(parts)


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) or '""'


def _type(field: Schema) -> str:
    if field.get("x-kubernetes-int-or-string"):
        return "integer or string"
    if field.get("type") == "array":
        return f"list of {_type(field['items'])}"
    if "additionalProperties" in field:
        return f"map of {_type(field['additionalProperties'])}"
    return {"date-time": "time"}.get(str(field.get("format")), str(field.get("type", "object")))


def _text(field: Schema) -> str:
    return " ".join([str(field.get("description", "")), *_bounds(field)]).strip()


def _bounds(field: Schema) -> Iterator[str]:
    if "enum" in field:
        yield f"One of {_codes(field['enum'])}."
    if "minimum" in field and "maximum" in field:
        yield f"From {field['minimum']} to {field['maximum']}."
    elif "minimum" in field:
        yield f"At least {field['minimum']}."
    if field.get("maxLength", MAX_TEXT_CHARACTERS) != MAX_TEXT_CHARACTERS:
        yield f"At most {field['maxLength']} characters."
    if "pattern" in field:
        yield f"Must match `{field['pattern']}`."
    if field.get("x-kubernetes-list-type") == "set":
        yield "Each item once."
    yield from (text for flag, text in DOCUMENTED_FLAGS.items() if field.get(flag))


def _rules(field: Schema) -> Iterator[str]:
    for rule in field.get("x-kubernetes-validations", []):
        yield f"Rule: {rule['message']}."
        yield ""


# Names


def names_page() -> str:
    """Names, ports, labels and annotations."""
    return _page(_names_lines())


def _names_lines() -> Iterator[str]:
    yield "# Names, ports, labels and annotations"
    yield "Names are computed from the resource, never drawn, so the same resource always has the same objects."
    yield from ("", "## Names of objects", "")
    yield from ("Examples are for resources called `slurm`, workers for a NodeSet called `gpu`.", "")
    yield from ("| what | name |", "|---|---|")
    yield from (f"| {what} | `{name}` |" for what, name in _example_names())
    yield from ("", "## Ports", "", "| daemon | port |", "|---|---|")
    yield from (f"| {daemon} | {port} |" for daemon, port in _ports())
    for heading, table in (("Labels", "labels"), ("Annotations", "annotations"), ("Other keys", "keys")):
        yield from ("", f"## {heading}", "", "| key | on | meaning |", "|---|---|---|")
        for constant, (place, meaning) in texts()[table].items():
            yield f"| `{getattr(labels, constant)}` | {place} | {meaning} |"
    yield from ("", "## Daemons", "", "| daemon | `name` label | `component` label |", "|---|---|---|")
    for each in (labels.CONTROLLER, labels.ACCOUNTING, labels.RESTAPI, labels.LOGIN, labels.WORKER):
        yield f"| {each.daemon} | `{each.daemon}` | `{each.role}` |"


def _example_names() -> Iterator[tuple[str, str]]:
    meta = ObjectMeta(name="slurm", namespace="hpc")
    ref = ControllerRef(name="slurm")
    controller, accounting = Controller(metadata=meta), Accounting(metadata=meta)
    rest = RestApi(metadata=meta, spec=RestApiSpec(controller_ref=ref))
    sssd = SecretKeySelector(name="sssd", key="sssd.conf")
    login = LoginSet(metadata=meta, spec=LoginSetSpec(controller_ref=ref, sssd_conf_ref=sssd))
    gpu = NodeSet(metadata=ObjectMeta(name="gpu", namespace="hpc"), spec=NodeSetSpec(controller_ref=ref))
    token = Token(metadata=meta, spec=TokenSpec(username="alice"))
    yield from (
        _named(names.controller, names.controller(controller)),
        _named(names.controller_internal, names.controller_internal(controller)),
        _named(names.controller_pod, names.controller_pod(controller, 0)),
        _named(names.config, names.config(controller)),
        _named(names.accounting, names.accounting(accounting)),
        _named(names.restapi, names.restapi(rest)),
        ("Deployment and Service of a LoginSet", login.name),
        _named(names.ssh_config, names.ssh_config(login)),
        _named(names.ssh_host_keys, names.ssh_host_keys(login)),
        _named(names.workers_service, names.workers_service(controller.name)),
        _named(names.workers_pdb, names.workers_pdb(controller.name)),
        _named(names.worker, names.worker(gpu, 0)),
        _named(names.worker_hostname, names.worker_hostname(gpu, 0)),
        ("A worker's own claim, of a template called `scratch`", names.claim("scratch", gpu, "0")),
        _named(names.token_secret, names.token_secret(token)),
        _named(names.reservation, names.reservation(gpu)),
    )


def _named(function: Any, name: str) -> tuple[str, str]:
    return str(function.__doc__).removesuffix("."), name


def _ports() -> Iterator[tuple[str, int]]:
    for constant, value in sorted(vars(names).items(), key=lambda pair: str(pair[1])):
        if constant.endswith("_PORT"):
            yield constant.removesuffix("_PORT").lower(), value


# The command line


def cli_page() -> str:
    """Every command with its help."""
    return _page(_cli_lines())


def _cli_lines() -> Iterator[str]:
    yield "# Command line"
    yield from ("`render`, `check` and `crds` need no cluster; nothing but the files that you name is read.", "")
    yield from ("Exit codes: 0 no findings, 1 there are findings or nothing to check, 2 wrong usage.", "")
    top = click.Context(main, info_name="slurm-operator", terminal_width=100, **main.context_settings)
    yield from _help(top)
    for name, command in sorted(main.commands.items()):
        yield from ("", f"## {name}", "")
        yield from _help(click.Context(command, parent=top, info_name=name))


def kubectl_page() -> str:
    """Every command of the kubectl plugin with its help."""
    return _page(_kubectl_lines())


def _kubectl_lines() -> Iterator[str]:
    yield "# kubectl slurm"
    yield from ("The same program as a plugin: kubectl finds `kubectl-slurm` on the PATH.", "")
    yield from ("Exit codes: 0 nothing is wrong, 1 something is wrong, 2 wrong usage.", "")
    top = click.Context(plugin, info_name="kubectl slurm", terminal_width=100, **plugin.context_settings)
    yield from _help(top)
    for name, command in sorted(plugin.commands.items()):
        yield from ("", f"## {name}", "")
        here = click.Context(command, parent=top, info_name=name)
        yield from _help(here)
        for inner, nested in sorted(command.commands.items()) if isinstance(command, click.Group) else ():
            yield from ("", f"### {name} {inner}", "")
            yield from _help(click.Context(nested, parent=here, info_name=inner))


def _help(context: click.Context) -> Iterator[str]:
    yield from ("```text", context.get_help(), "```")


# Examples


def examples_page() -> str:
    """Every file in examples/, with the comment that opens it."""
    return _page(_examples_lines())


def _examples_lines() -> Iterator[str]:
    yield "# Examples"
    yield "Every file is in `examples/`, is complete, and is checked and rendered by the tests. The keys are samples."
    for path in sorted((ROOT / "examples").glob("*.yaml")):
        file = f"examples/{path.name}"
        yield from ("", f"## {path.stem}", "", _opening(path.read_text()), "")
        features = " --allow-pod-features=privileged" if "privileged: true" in Path(ROOT, file).read_text() else ""
        yield from ("```console", f"$ slurm-operator check --strict{features} -f {file}", "```", "")
        yield from (f'```yaml title="{file}"', path.read_text().rstrip("\n"), "```")


def _opening(text: str) -> str:
    """The first sentence of the comment that opens a file."""
    lines = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
    comment = "\n".join(line.removeprefix("#").strip() for line in lines)
    return re.split(r"(?<=\.)\s|\n(?=[A-Z])", comment)[0].replace("\n", " ")


# Metrics


def metrics_page() -> str:
    """Every metric that the operator and its admission server serve."""
    return _page(_metrics_lines())


def _metrics_lines() -> Iterator[str]:
    yield "# Metrics"
    yield "What the operator and its admission server serve at `/metrics`. Alerts and dashboards are made of them:"
    yield "see [Metrics, dashboards and alerts](../guides/alerts.md). slurmctld's own metrics are described by Slurm."
    yield from ("", "| metric | type | labels | meaning |", "|---|---|---|---|")
    for entry in catalogue():
        labelled = ", ".join(f"`{label}`" for label in entry.labels)
        yield f"| `{entry.name}` | {entry.type} | {labelled} | {entry.help} |"


# Pod features


def features_page() -> str:
    """How far templates may reach, field by field."""
    return _page(_features_lines())


def _features_lines() -> Iterator[str]:
    yield "# Pod features"
    yield from (texts()["pod_features"].strip(), "")
    for title, rows in SECTIONS.items():
        yield from (f"## {title}", "")
        yield from ("| field | profile | allowed | feature that allows more | why |", "|---|---|---|---|---|")
        yield from map(_feature_row, rows)
        yield ""


def _feature_row(row: Row) -> str:
    field, _, which = row.field.partition(" ")
    place = f"`{field}` {which}".strip()
    feature = f"`{row.feature}`" if row.feature else "none is needed"
    return f"| {place} | {row.profile} | {row.allowed} | {feature} | {row.why} |"


# Findings


def linter_page() -> str:
    """Every finding: severity, meaning, what to do."""
    return _page(_linter_lines())


def _linter_lines() -> Iterator[str]:
    yield "# Findings of the checker"
    yield texts()["linter"].strip()
    sources = (
        ("Findings on manifests", "manifests", manifest_codes()),
        ("Findings on configuration files", "files", lint_codes()),
    )
    for heading, table, found in sources:
        yield from ("", f"## {heading}")
        for code, severities in sorted(found.items()):
            yield from ("", f"### {code}", "", f"{' or '.join(sorted(severities)).capitalize()}.", "")
            yield str(texts()[table].get(code, "")).strip()


def lint_codes() -> dict[str, set[str]]:
    """The codes that the linter can report, with their severities, read from its source."""
    found: dict[str, set[str]] = {}
    for path in sorted((ROOT / "src/slurm_operator/slurm").glob("conf*.py")):
        for code, severities in _codes_in(ast.parse(path.read_text())):
            found.setdefault(code, set()).update(severities)
    return found


def manifest_codes() -> dict[str, set[str]]:
    """The codes that `check` itself reports: of the reader, the rules, the references and the partitions."""
    found: dict[str, set[str]] = {}
    for path in sorted(Path(cli.__path__[0]).glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for code in _code_words(node):
                found.setdefault(code, set())
    tables = ("build/partition.py", "build/errors.py")
    for name in tables:
        tree = ast.parse((ROOT / "src/slurm_operator" / name).read_text())
        found.update((code, set()) for code in _reasons(tree))
    found.pop("Accepted")
    return {code: set(texts()["severities"].get(code, ["error"])) for code in found}


def _code_words(node: ast.AST) -> Iterator[str]:
    if not isinstance(node, ast.Call) or _called(node) not in ("of_field", "Finding"):
        return
    values = [*node.args[2:3], *(word.value for word in node.keywords if word.arg == "code")]
    yield from filter(None, map(_code, values))


def _reasons(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and (code := _code(node.value)):
            yield code


_CAMEL = re.compile(r"[A-Z][a-z]+([A-Z][a-z]*)*")
# Where the code stands among the arguments of each function that makes a finding.
_POSITIONS = {
    "_finding": (1,),
    "finding": (1,),
    "finding_at": (1,),
    "_report": (1, 2),
    "_at": (1,),
    "_add": (2,),
    "Complaint": (4,),
}


def _codes_in(tree: ast.Module) -> Iterator[tuple[str, set[str]]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _called(node) in _POSITIONS:
            for code in _call_codes(node):
                yield code, _severities(node)
        elif isinstance(node, ast.Return) and isinstance(node.value, ast.Tuple) and len(node.value.elts) == 2:
            named = _code(node.value.elts[0])
            if named and _is_sentence(node.value.elts[1]):
                yield named, {"error"}


def _call_codes(node: ast.Call) -> Iterator[str]:
    values = [node.args[at] for at in _POSITIONS[_called(node)] if at < len(node.args)]
    values += [word.value for word in node.keywords if word.arg == "code"]
    codes = [*filter(None, map(_code, values))]
    yield from codes or (["BadValue"] if _called(node) == "Complaint" else [])


def _severities(node: ast.Call) -> set[str]:
    values = [word.value for word in node.keywords if word.arg == "severity"]
    if _called(node) == "Complaint":
        values += node.args[3:4]
    words = {word.value for value in values for word in ast.walk(value) if isinstance(word, ast.Constant)}
    found = {str(word) for word in words} & {"error", "warning"}
    if found:
        return found
    return {"error", "warning"} if values else {"error"}


def _called(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _code(value: ast.expr) -> str | None:
    word = value.value if isinstance(value, ast.Constant) else None
    return word if isinstance(word, str) and _CAMEL.fullmatch(word) else None


def _is_sentence(value: ast.expr) -> bool:
    return isinstance(value, ast.JoinedStr) or (isinstance(value, ast.Constant) and " " in str(value.value))


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    sys.stdout.write(f"wrote {len(pages())} pages to docs/{FOLDER.name}\n")
