"""Write the protobuf field numbers of the built-in kinds: src/kube_local/apiserver/protobuf_fields.json.gz.

In: the folders of the Go modules k8s.io/api and k8s.io/apimachinery (as in a Go module cache). Out: for each message
its fields by number: JSON name, type, and flags (r: list, m: map, i: its fields belong to the parent,
p: zero counts, n: Go writes it even when it is not set).

    python tools/kubernetes_protobuf.py .../k8s.io/api@v0.36.4 .../k8s.io/apimachinery@v0.36.4
"""

from __future__ import annotations

import gzip
import json
import re
import sys
from pathlib import Path

GROUPS = (
    *("admissionregistration", "apps", "authentication", "authorization", "autoscaling", "batch", "coordination"),
    *("core", "discovery", "events", "networking", "node", "policy", "rbac", "scheduling", "storage"),
)
OUTPUT = Path(__file__).parents[1] / "src/kube_local/apiserver/protobuf_fields.json.gz"
META = ("pkg/apis/meta/v1", "pkg/runtime", "pkg/util/intstr", "pkg/api/resource")
SCALARS = frozenset({"string", "bool", "int32", "int64", "uint32", "uint64", "double", "bytes"})

MESSAGE = re.compile(r"^message (\w+) \{(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r"^\s*(optional|repeated|map<string, ([^>]+)>)\s+(?:(\S+)\s+)?(\w+) = (\d+);", re.MULTILINE)
STRUCT = re.compile(r"^type (\w+) struct \{(.*?)^\}", re.MULTILINE | re.DOTALL)
TAGGED = re.compile(r"^\s*(?:\w+\s+)?(\S+)\s+`[^`]*json:\"([^\"]*)\"[^`]*protobuf:\"\w+,(\d+)[^`]*`", re.MULTILINE)


def go_fields(folder: Path) -> dict[tuple[str, int], tuple[str, str]]:
    """Struct and field number -> Go type and JSON tag."""
    found: dict[tuple[str, int], tuple[str, str]] = {}
    for path in sorted(folder.glob("*.go")):
        for struct, body in STRUCT.findall(path.read_text()):
            for go_type, tag, number in TAGGED.findall(body):
                found[struct, int(number)] = (go_type, tag)
    return found


def messages(folder: Path) -> dict[str, dict[str, list[str]]]:
    """The messages of one package."""
    text = (folder / "generated.proto").read_text()
    package = re.findall(r"^package (\S+);", text, re.MULTILINE)[0]
    go = go_fields(folder)
    return {
        f"{package}.{name}": {
            number: field(package, go.get((name, int(number))), rule, of_map, kind, label)
            for rule, of_map, kind, label, number in FIELD.findall(body)
        }
        for name, body in MESSAGE.findall(text)
    }


def field(package: str, go: tuple[str, str] | None, rule: str, of_map: str, kind: str, label: str) -> list[str]:
    """One field: JSON name, type, flags."""
    wire = of_map or kind
    full = wire if wire in SCALARS else wire.lstrip(".") if "." in wire else f"{package}.{wire}"
    go_type, tag = go or ("", f"{label},omitempty")
    name, *options = tag.split(",")
    flags = "r" if rule == "repeated" else "m" if of_map else ""
    flags += "p" if go_type.startswith("*") else ""
    flags += "i" if not name else ""
    is_struct = not flags and wire not in SCALARS
    if "omitzero" not in options and (is_struct or "omitempty" not in options):
        flags += "n"
    return [name or label, full, flags]


def main(api: Path, machinery: Path) -> None:
    """Collects and writes."""
    folders = [api / group / "v1" for group in GROUPS] + [api / "autoscaling/v2", *(machinery / name for name in META)]
    found: dict[str, dict[str, list[str]]] = {}
    for folder in folders:
        found.update(messages(folder))
    data = {"release": api.name.partition("@")[2], "messages": found}
    text = json.dumps(data, separators=(",", ":"), sort_keys=True).encode()
    OUTPUT.write_bytes(gzip.compress(text, 9, mtime=0))
    sys.stdout.write(f"{OUTPUT.name}: {len(found)} messages, {OUTPUT.stat().st_size} bytes\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
