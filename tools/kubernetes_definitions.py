"""Trim the published Kubernetes API definitions to what a local cluster serves.

In: `_definitions.json` of the PyPI package kubernetes-validate (a development dependency), a JSON Schema rendering of
the OpenAPI document of one Kubernetes release; and the Go types of the same release (fetched by `go mod download`).
Out: `kube_local/apiserver/definitions.json.gz` with OpenAPI v2 shapes: plain types, `#/definitions/` references, the
x-kubernetes extensions and the descriptions; beside them the zero values of the Go types, which no document tells: a
field that is always written, and one that is left out when it is zero. The bytes depend on the input alone, so a second
run leaves the tree clean. Run by hand when the pinned Kubernetes moves (needs Go):

    python tools/kubernetes_definitions.py
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

RELEASE = "v1.37.0"
GO_RELEASE = "v0.37.0"
DEFAULT_OUTPUT = Path(__file__).parent.parent / "src/kube_local/apiserver/definitions.json.gz"
SERVED = (
    "io.k8s.api.core.v1.",
    "io.k8s.api.apps.v1.",
    "io.k8s.api.batch.v1.",
    "io.k8s.api.policy.v1.",
    "io.k8s.api.coordination.v1.",
    "io.k8s.api.discovery.v1.",
    "io.k8s.api.events.v1.",
    "io.k8s.api.rbac.v1.",
    "io.k8s.api.storage.v1.",
    "io.k8s.api.scheduling.v1.",
    "io.k8s.api.autoscaling.v1.",
    "io.k8s.api.autoscaling.v2.",
    "io.k8s.api.networking.v1.",
    "io.k8s.api.admissionregistration.v1.",
    "io.k8s.api.authentication.v1.",
    "io.k8s.api.authorization.v1.",
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.",
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.",
    "io.k8s.apimachinery.",
)
# The JSON Schema rendering spells these two as alternatives; the OpenAPI document has one type and a format.
SPELLED_OUT: dict[str, dict[str, Any]] = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"type": "string", "format": "int-or-string"},
    "io.k8s.apimachinery.pkg.api.resource.Quantity": {"type": "string"},
}
# Defaults that decide the identity of a list item (x-kubernetes-list-map-keys); the rendering drops all defaults.
KEY_DEFAULTS = {
    ("io.k8s.api.core.v1.ContainerPort", "protocol"): "TCP",
    ("io.k8s.api.core.v1.ServicePort", "protocol"): "TCP",
}


def source_file() -> Path:
    spec = find_spec("kubernetes_validate")
    if spec is None or spec.origin is None:
        sys.exit("kubernetes-validate is not installed: pip install -r requirements/dev.txt")
    return Path(spec.origin).parent / f"kubernetes-json-schema/{RELEASE}-local/_definitions.json"


def plain(schema: Any) -> Any:
    """One schema with JSON Schema's nullable unions and references turned back into OpenAPI v2."""
    if isinstance(schema, list):
        return [plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: plain(value) for key, value in schema.items()}
    if isinstance(result.get("type"), list):
        result["type"] = next(name for name in result["type"] if name != "null")
    if isinstance(result.get("$ref"), str):
        result["$ref"] = result["$ref"].replace("#/$defs/", "#/definitions/")
    return result


def definition(name: str, raw: dict[str, Any]) -> dict[str, Any]:
    """One definition as OpenAPI v2, without the enums that pin apiVersion and kind to a single value."""
    result: dict[str, Any] = plain(raw)
    if name in SPELLED_OUT:
        result = {**SPELLED_OUT[name], **{k: v for k, v in result.items() if k == "description"}}
    for key, schema in result.get("properties", {}).items():
        if key in ("apiVersion", "kind"):
            schema.pop("enum", None)
        if (name, key) in KEY_DEFAULTS:
            schema["default"] = KEY_DEFAULTS[name, key]
    return result


def trimmed(definitions: dict[str, Any]) -> dict[str, Any]:
    """The served groups and everything that they refer to."""
    wanted = [name for name in definitions if name.startswith(SERVED)]
    result: dict[str, Any] = {}
    while wanted:
        name = wanted.pop()
        if name in result:
            continue
        result[name] = definition(name, definitions[name])
        wanted.extend(references(result[name]))
    return dict(sorted(result.items()))


def references(schema: Any) -> list[str]:
    if isinstance(schema, list):
        return [name for item in schema for name in references(item)]
    if not isinstance(schema, dict):
        return []
    here = [schema["$ref"].rsplit("/", 1)[1]] if isinstance(schema.get("$ref"), str) else []
    return here + [name for value in schema.values() for name in references(value)]


# --- zero values of Go types -----------------------------------------------------------------------------------------

GO_PACKAGES = {
    **{
        f"k8s.io/api:{group}/{version}": f"io.k8s.api.{group}.{version}"
        for group, version in (
            *((name, "v1") for name in ("core", "apps", "batch", "policy", "coordination", "discovery", "events")),
            *((name, "v1") for name in ("rbac", "storage", "scheduling", "autoscaling", "networking")),
            *((name, "v1") for name in ("admissionregistration", "authentication", "authorization")),
            ("autoscaling", "v2"),
        )
    },
    "k8s.io/apimachinery:pkg/apis/meta/v1": "io.k8s.apimachinery.pkg.apis.meta.v1",
    "k8s.io/apiextensions-apiserver:pkg/apis/apiextensions/v1": (
        "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1"
    ),
    "k8s.io/kube-aggregator:pkg/apis/apiregistration/v1": "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1",
}
# Types that write themselves: what an unset one looks like.
SELF_WRITTEN: dict[str, Any] = {
    "Time": None,
    "MicroTime": None,
    "Duration": "0s",
    "IntOrString": 0,
    "Quantity": "0",
    "RawExtension": None,
    "FieldsV1": None,
    "JSON": None,
    "UID": "",
}
BASIC: dict[str, Any] = {
    "string": "",
    "bool": False,
    **dict.fromkeys(("int", "int32", "int64", "uint32", "uint64", "float64", "byte"), 0),
}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
NAMED = re.compile(r"^type (\w+) (?!struct|interface)(\S+)$", re.MULTILINE)
FIELD = re.compile(r'^\t(?:(\w+)\s+)?([\w.*\[\]]+)\s+`[^`]*json:"([^"]*)"', re.MULTILINE)


@dataclass
class GoPackage:
    """The types of one package: fields of structs as (type, JSON name, options), and what other names stand for."""

    structs: dict[str, list[tuple[str, str, set[str]]]] = field(default_factory=dict)
    names: dict[str, str] = field(default_factory=dict)

    def read(self, text: str) -> None:
        for name, body in STRUCT.findall(text):
            fields = ((go_type, *tag.split(",", 1)) for _, go_type, tag in FIELD.findall(body))
            self.structs[name] = [(one[0], one[1], set(one[2].split(",")) if one[2:] else set()) for one in fields]
        self.names.update(NAMED.findall(text))


def go_packages() -> dict[str, GoPackage]:
    """The Go packages behind the definitions, by the prefix of their definitions."""
    packages: dict[str, GoPackage] = {}
    folders: dict[str, Path] = {}
    for source, prefix in GO_PACKAGES.items():
        module, _, path = source.partition(":")
        if module not in folders:
            command = ["go", "mod", "download", "-json", f"{module}@{GO_RELEASE}"]
            answer = subprocess.run(command, check=True, capture_output=True, text=True)  # noqa: S603
            folders[module] = Path(json.loads(answer.stdout)["Dir"])
        package = packages[prefix] = GoPackage()
        for file in sorted((folders[module] / path).glob("*types*.go")):
            package.read(file.read_text(encoding="utf-8"))
    return packages


def zero_value(go_type: str, package: GoPackage, others: dict[str, GoPackage]) -> Any:
    """What Go writes for an unset value of a type; {} stands for a struct."""
    if go_type.startswith(("*", "[]", "map[")):
        return None
    name = go_type.rsplit(".", 1)[-1]
    if name in SELF_WRITTEN or go_type in BASIC:
        return SELF_WRITTEN.get(name, BASIC.get(go_type))
    for candidate in (package, *others.values()) if "." in go_type else (package,):
        if name in candidate.names:
            return zero_value(candidate.names[name], candidate, others)
        if name in candidate.structs:
            return {}
    return {} if name == "ObjectMeta" else None


def shape(name: str, package: GoPackage, others: dict[str, GoPackage]) -> dict[str, Any]:
    """The fields of a struct that are always written, with their zero value, and those left out when zero."""
    always: dict[str, Any] = {}
    left_out: list[str] = []
    for go_type, json_name, options in package.structs[name]:
        if "inline" in options:
            inlined = go_type.rsplit(".", 1)[-1]
            if inlined in package.structs:
                inner = shape(inlined, package, others)
                always |= inner["always"]
                left_out += inner["leftOut"]
            continue
        zero = zero_value(go_type, package, others)
        is_plain = isinstance(zero, str | bool | int) and go_type.rsplit(".", 1)[-1] not in SELF_WRITTEN
        if not options & {"omitempty", "omitzero"}:
            always[json_name] = zero
        elif is_plain or go_type.endswith("UID"):
            left_out.append(json_name)
        elif "omitzero" not in options and not go_type.startswith(("*", "[]", "map[")) and _is_struct(go_type, zero):
            always[json_name] = zero
    return {"always": always, "leftOut": sorted(left_out)}


def _is_struct(go_type: str, zero: Any) -> bool:
    """Go's omitempty does not leave out structs, not even those that write themselves as null."""
    return zero == {} or go_type.rsplit(".", 1)[-1] in SELF_WRITTEN


def shapes(definitions: dict[str, Any]) -> dict[str, Any]:
    packages = go_packages()
    found: dict[str, Any] = {}
    for prefix, package in packages.items():
        for name in package.structs:
            known = definitions.get(f"{prefix}.{name}", {}).get("properties")
            if known:
                one = shape(name, package, packages)
                always = {key: value for key, value in one["always"].items() if key in known}
                found[f"{prefix}.{name}"] = {"always": always, "leftOut": [k for k in one["leftOut"] if k in known]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--source", type=Path, help="a _definitions.json other than the installed one")
    parser.add_argument("--output", type=Path, default=DEFAULT_OUTPUT)
    arguments = parser.parse_args()
    source: Path = arguments.source or source_file()
    definitions = trimmed(json.loads(source.read_text(encoding="utf-8"))["$defs"])
    document = {"release": RELEASE, "definitions": definitions, "shapes": shapes(definitions)}
    text = json.dumps(document, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    arguments.output.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
    size = arguments.output.stat().st_size
    sys.stdout.write(f"{arguments.output}: {len(definitions)} definitions, {size} bytes\n")


if __name__ == "__main__":
    main()
