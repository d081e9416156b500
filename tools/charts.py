"""Write what the charts have that is said elsewhere: schemas, reference pages, CRDs, rights, versions.

In: each chart's values.yaml with its comments, `deploy/crds`, `kube_runtime.client.rights` and the package's version.
Out: values.schema.json, docs/reference/values-*.md, the templates of the CRDs chart, files/rights-*.yaml, dashboards
out of `tools/dashboards.py`, versions in Chart.yaml. Run by `make golden`; a test fails when a file is stale.

A comment right above a key is its documentation. Lines in it that start with @ shape the schema: `@schema {json}` adds
keywords, `@open` lets a mapping hold further keys, `@image` takes an image in any form, `@entries <key>` makes a
mapping or a list of entries like that key's mapping, and `@partitions` a mapping of partitions.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from tools import dashboards, rbac

from slurm_operator import __version__

ROOT = Path(__file__).parents[1]
CHARTS = ROOT / "deploy/charts"
CRDS = ROOT / "deploy/crds"
PAGES = ROOT / "docs/reference"
GENERATED = "<!-- Written by tools/charts.py; change values.yaml, then run `make golden`. -->"
DRAFT = "http://json-schema.org/draft-07/schema#"
NAME = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
# The same, or an older name of the defaults, which the chart explains.
ENTRY_NAME = "^(_defaults|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$"
# What older values have beside the container that it belongs to.
LIFTED = ("image", "imagePullPolicy", "securityContext", "resources", "env", "envFrom", "volumeMounts", "args")
# Values of older charts that no longer do anything.
GONE = ("taintKubeNodes", "useResourceLimits")

Schema = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Value:
    """One key of a values.yaml with what its comment says."""

    path: tuple[str, ...]
    text: str
    tags: dict[str, str]
    default: Any
    children: tuple[Value, ...] = field(default=())

    @property
    def key(self) -> str:
        """The last part of its path."""
        return self.path[-1]


def values(chart: str) -> tuple[Value, ...]:
    """Every top-level value of a chart, with all below it."""
    source = (CHARTS / chart / "values.yaml").read_text()
    node = yaml.compose(source, yaml.SafeLoader)
    return () if node is None else tuple(_children(node, (), source.splitlines()))


def _children(node: yaml.Node, path: tuple[str, ...], lines: list[str]) -> Iterator[Value]:
    if not isinstance(node, yaml.MappingNode):
        return
    for key, value in node.value:
        name = str(key.value)
        text, tags = _comment(lines, key.start_mark.line)
        below = tuple(_children(value, (*path, name), lines))
        yield Value((*path, name), text, tags, _plain(value), below)


def _comment(lines: list[str], number: int) -> tuple[str, dict[str, str]]:
    words: list[str] = []
    tags: dict[str, str] = {}
    above = number - 1
    while above >= 0 and lines[above].strip().startswith("#"):
        line = lines[above].strip().removeprefix("#").strip()
        if line.startswith("@"):
            name, _, rest = line[1:].partition(" ")
            tags[name] = rest
        else:
            words.insert(0, line)
        above -= 1
    return " ".join(words), tags


def _plain(node: yaml.Node) -> Any:
    return yaml.constructor.SafeConstructor().construct_object(node, deep=True)


# Schema


def schema(chart: str) -> Schema:
    """The JSON schema of a chart's values."""
    found = values(chart)
    by_key = {value.key: value for value in found}
    properties: dict[str, Any] = {value.key: _schema(value, by_key) for value in found}
    properties["global"] = {"type": "object", "description": "Helm's own, for charts that have this one within them."}
    if chart == "slurm-operator":
        # Helm hands its own values down to a chart within.
        properties["crds"]["properties"]["global"] = properties["global"]
    if chart == "slurm-operator-crds":
        properties["enabled"] = {
            "type": "boolean",
            "description": "Helm's own, for the chart that has this one within.",
        }
    if chart == "slurm":
        properties |= dict.fromkeys(retired()["root"], True)
        for kind, defaults in (("nodesets", "nodesetDefaults"), ("loginsets", "loginsetDefaults")):
            properties[defaults]["properties"] |= dict.fromkeys((*retired()[kind], *GONE), True)
        for alias, key in (("nodeSets", "nodesets"), ("loginSets", "loginsets")):
            properties[alias] = {**properties[key], "description": f"Another spelling of {key}."}
    return {"$schema": DRAFT, "type": "object", "additionalProperties": False, "properties": properties}


def retired() -> dict[str, dict[str, str]]:
    """Values of earlier charts, with what says the same now; the chart fails with that."""
    found: dict[str, dict[str, str]] = yaml.safe_load((CHARTS / "slurm/files/retired.yaml").read_text())
    return found


def _schema(value: Value, by_key: dict[str, Value]) -> Schema:
    said = json.loads(value.tags.get("schema", "{}"))
    described = {"description": value.text}
    if "image" in value.tags:
        return {**described, **_image()}
    if "entries" in value.tags:
        return {**described, **_entries(value.key, by_key[value.tags["entries"]], by_key)}
    if "partitions" in value.tags:
        return {**described, **_partitions(value, by_key)}
    if isinstance(value.default, dict):
        return {**described, **_mapping(value, by_key), **said}
    return {**described, **_scalar(value.default), **said}


def _mapping(value: Value, by_key: dict[str, Value]) -> Schema:
    made: Schema = {"type": ["object", "null"]}
    if value.children:
        made["properties"] = {child.key: _schema(child, by_key) for child in value.children}
        if "open" not in value.tags:
            made["additionalProperties"] = False
    return made


def _scalar(default: Any) -> Schema:
    names: dict[type, str] = {bool: "boolean", int: "integer", str: "string", list: "array", float: "number"}
    name = names.get(type(default))
    if name is None:
        return {}
    return {"type": ["string", "null"]} if name == "string" else {"type": name}


def _image() -> Schema:
    text = {"type": ["string", "null"]}
    return {
        "type": ["string", "object"],
        "properties": {"repository": text, "tag": {"type": ["string", "number", "null"]}, "digest": text},
        "additionalProperties": False,
    }


def _entries(kind: str, like: Value, by_key: dict[str, Value]) -> Schema:
    entry = {"type": ["object", "null"], "additionalProperties": False, **_mapping(like, by_key)}
    anything: Schema = dict.fromkeys((*LIFTED, *GONE, *retired()[kind]), True)
    entry = {**entry, "properties": {**entry["properties"], **anything, "image": _image()}}
    listed = {**entry, "properties": {**entry["properties"], "name": {"type": "string", "pattern": NAME}}}
    return {
        "type": ["object", "array"],
        "propertyNames": {"pattern": ENTRY_NAME, "maxLength": 40},
        "additionalProperties": entry,
        "items": {**listed, "required": ["name"]},
    }


def _partitions(value: Value, by_key: dict[str, Value]) -> Schema:
    (example,) = value.children
    return {"type": "object", "additionalProperties": {"type": ["object", "null"], **_mapping(example, by_key)}}


# Pages


def page(chart: str) -> str:
    """The reference page of a chart's values."""
    return "\n".join(_lines(chart)).rstrip() + "\n"


def _lines(chart: str) -> Iterator[str]:
    about = yaml.safe_load((CHARTS / chart / "Chart.yaml").read_text())
    yield from (f"# Values of {chart}", "", GENERATED, "", about["description"], "")
    yield from ("Wrong or misspelt values are refused by the chart's schema before anything is written.", "")
    for value in values(chart):
        if value.children:
            yield from (f"## {value.key}", "", value.text, "", *_table(value.children), "")
    plain = [value for value in values(chart) if not value.children]
    yield from ("## Further values", "", *_table(plain))


def _table(found: tuple[Value, ...] | list[Value]) -> Iterator[str]:
    yield from ("| value | default | meaning |", "|---|---|---|")
    for value in found:
        yield from _rows(value)


def _rows(value: Value) -> Iterator[str]:
    below = value.children and value.key != "nodeSelector"
    default = "" if below else _shown(value.default)
    yield f"| `{'.'.join(value.path)}` | {default} | {_escaped(value.text)} |"
    if below:
        for child in value.children:
            yield from _rows(child)


def _shown(default: Any) -> str:
    if isinstance(default, str) and "\n" in default:
        return "a text"
    text = json.dumps(default, ensure_ascii=False)
    return f"`{_escaped(text)}`"


def _escaped(text: str) -> str:
    return re.sub(r"(?<!\\)\|", r"\\|", text)


# All files


def chart_version() -> str:
    """The package's version as Helm wants it: 0.1.0.dev0 is 0.1.0-dev.0."""
    found = re.fullmatch(r"(\d+\.\d+\.\d+)(?:\.?(dev|a|b|rc)(\d+))?", __version__)
    if found is None:
        raise ValueError(f"{__version__!r} has no counterpart in Helm's versions")
    return found[1] if found[2] is None else f"{found[1]}-{found[2]}.{found[3]}"


def versioned(chart: str) -> str:
    """Chart.yaml with the version of the package."""
    text = (CHARTS / chart / "Chart.yaml").read_text()
    text = re.sub(r"^version: .*$", f"version: {chart_version()}", text, flags=re.MULTILINE)
    # Of a dependency within the file, which is in lock-step too.
    text = re.sub(r'^  version: ".*"$', f'  version: "{chart_version()}"', text, flags=re.MULTILINE)
    if chart != "slurm":
        text = re.sub(r"^appVersion: .*$", f'appVersion: "{__version__}"', text, flags=re.MULTILINE)
    return text


def crd_template(text: str) -> str:
    """A definition as a template: metadata of the release, and nothing in it that Helm would run."""
    text = text.replace("{{", '{{ "{{" }}')
    return text.replace("metadata:\n", 'metadata:\n  {{- include "crds.metadata" . | nindent 2 }}\n', 1)


def files() -> dict[Path, str]:
    """Every file and its content."""
    made: dict[Path, str] = {}
    for chart in ("slurm", "slurm-operator", "slurm-operator-crds"):
        made[CHARTS / chart / "values.schema.json"] = json.dumps(schema(chart), indent=2, ensure_ascii=False) + "\n"
        made[PAGES / f"values-{chart}.md"] = page(chart)
    for chart in ("slurm", "slurm-operator", "slurm-operator-crds"):
        made[CHARTS / chart / "Chart.yaml"] = versioned(chart)
    for role in rbac.ROLES:
        made[CHARTS / f"slurm-operator/files/rights-{role}.yaml"] = rbac.text(role)
    made |= dashboards.files()
    for path in sorted(CRDS.glob("*.yaml")):
        made[CHARTS / "slurm-operator-crds/templates" / path.name] = crd_template(path.read_text())
    return made


if __name__ == "__main__":
    for target, content in files().items():
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content)
    sys.stdout.write(f"wrote {len(files())} files of the charts\n")
