"""The structure of topology.yaml: a list of named topologies, each of exactly one type.

In: the text of the file. Out: findings with line and column. `conf_lint` calls this. The file is composed into
nodes with marks and never built into Python objects, so tags can do nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

import msgspec
import yaml
from yaml.error import Mark

from slurm_operator.slurm.conf import Finding, Severity
from slurm_operator.slurm.conf_values import Span, Version, closest
from slurm_operator.slurm.hostlist import HostListError, count, expand

SINCE: Version = (25, 5)
MAX_RING_NODES = 16
_BOOL = "tag:yaml.org,2002:bool"
_INT = "tag:yaml.org,2002:int"
_NULL = "tag:yaml.org,2002:null"


class Shape(msgspec.Struct, frozen=True):
    """What a node must be: text, hosts, a boolean, an integer, a mapping of shapes or a list of one shape."""

    kind: str
    keys: Mapping[str, Shape] = {}
    required: tuple[str, ...] = ()
    name: str | None = None  # the key whose value names an item and must be unique in its list
    items: Shape | None = None


_TEXT = Shape("text")
_HOSTS = Shape("hosts")
_INTEGER = Shape("integer")
_POINT = Shape("mapping", {"x": _INTEGER, "y": _INTEGER, "z": _INTEGER})


def _named_list(name: str, keys: Mapping[str, Shape]) -> Shape:
    return Shape("list", items=Shape("mapping", {name: _TEXT, **keys}, (name,), name))


_REGIONS = Shape("list", items=Shape("mapping", {"anchor": _POINT, "dims": _POINT, "nodes": _HOSTS}))
_PLACEMENTS = Shape(
    "list", items=Shape("mapping", {"dims": _POINT, "anchor_seed": _POINT, "anchor_spacing": _POINT}, ("dims",))
)
TYPES: Mapping[str, Shape] = {
    "block": Shape(
        "mapping",
        {"block_sizes": Shape("list", items=_INTEGER), "blocks": _named_list("block", {"nodes": _HOSTS})},
        ("blocks",),
    ),
    "flat": Shape("mapping or boolean", {"alpha_step_rank": Shape("boolean")}),
    "ring": Shape("mapping", {"rings": _named_list("ring", {"nodes": _HOSTS})}, ("rings",)),
    "torus3d": Shape(
        "mapping",
        {
            "toruses": _named_list(
                "name", {"dims": _POINT, "nodes": _HOSTS, "regions": _REGIONS, "placements": _PLACEMENTS}
            )
        },
        ("toruses",),
    ),
    "tree": Shape("mapping", {"switches": _named_list("switch", {"children": _HOSTS, "nodes": _HOSTS})}, ("switches",)),
}
_TYPES_SINCE: Mapping[str, Span] = {"ring": Span("ring", (26, 5)), "torus3d": Span("torus3d", (26, 5))}
_TOPOLOGY = Shape(
    "mapping", {"topology": _TEXT, "cluster_default": Shape("boolean"), **TYPES}, ("topology",), "topology"
)


def lint(text: str, *, file: str = "topology.yaml", version: Version | None = None) -> Iterator[Finding]:
    """Everything wrong with a topology.yaml."""
    reader = _Topologies(file, version)
    reader.read(text)
    yield from reader.found


class _Topologies:
    def __init__(self, file: str, version: Version | None) -> None:
        self.file = file
        self.version = version
        self.found: list[Finding] = []

    def read(self, text: str) -> None:
        if objection := Span("topology.yaml", SINCE).objection(self.version):
            self._add(1, 1, "WrongVersion", objection)
        try:
            root = _compose(text)
        except RecursionError:
            self._add(1, 1, "BadYaml", "the file is nested too deep")
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark
            line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
            self._add(line, column, "BadYaml", f"not YAML: {error.problem or error.context}")
        except (yaml.YAMLError, ValueError):
            self._add(1, 1, "BadYaml", "not YAML: it contains characters that YAML does not allow")
        else:
            self._root(root)

    def _root(self, root: yaml.Node | None) -> None:
        if root is None:
            self._add(1, 1, "EmptyTopology", "the file defines no topology")
            return
        if self._check(root, Shape("list", items=_TOPOLOGY)) and isinstance(root, yaml.SequenceNode):
            topologies = [node for node in root.value if isinstance(node, yaml.MappingNode)]
            for node in topologies:
                self._topology(_pairs(node), node)
            self._one_default(topologies)

    def _topology(self, pairs: dict[str, yaml.Node], node: yaml.Node) -> None:
        types = [name for name in pairs if name in TYPES]
        if len(types) != 1:
            message = f"a topology has exactly one type, this one has {len(types) or 'none'}"
            self._at(node, "TopologyType", message, expected=", ".join(TYPES))
        if "topology" in pairs and next(iter(pairs)) != "topology":
            self._at(pairs["topology"], "TopologyOrder", "topology must be the first key of its entry")
        for name in types:
            span = _TYPES_SINCE.get(name)
            if span and (objection := span.objection(self.version)):
                self._at(pairs[name], "WrongVersion", objection)
        if "tree" in pairs:
            self._tree(pairs["tree"])
        if "ring" in pairs:
            self._rings(pairs["ring"])

    def _one_default(self, topologies: list[yaml.MappingNode]) -> None:
        defaults = [default for node in topologies if (default := _pairs(node).get("cluster_default"))]
        chosen = [node for node in defaults if _text(node).lower() in {"true", "yes", "on"}]
        for node in chosen[1:]:
            message = "another topology is already the default; Slurm takes the first one"
            self._at(node, "SecondDefault", message, severity="warning")

    def _tree(self, tree: yaml.Node) -> None:
        switches = _items(_pairs(tree).get("switches"))
        names = {_text(_pairs(switch).get("switch")) for switch in switches}
        for switch in switches:
            children = _pairs(switch).get("children")
            missing = [name for name in _names(children) if name not in names]
            if children is not None and missing:
                self._at(children, "UnknownSwitch", f"there is no switch {missing[0]} in this tree")

    def _rings(self, ring: yaml.Node) -> None:
        for item in _items(_pairs(ring).get("rings")):
            nodes = _pairs(item).get("nodes")
            if nodes is not None and len(_names(nodes)) > MAX_RING_NODES:
                self._at(nodes, "RingTooLong", f"a ring has at most {MAX_RING_NODES} nodes")

    def _check(self, node: yaml.Node, shape: Shape) -> bool:
        """Is the node of this shape? Reports what is wrong in it, at any depth."""
        if isinstance(node, yaml.MappingNode) and "mapping" in shape.kind:
            self._check_mapping(node, shape)
        elif isinstance(node, yaml.SequenceNode) and shape.kind == "list" and shape.items:
            self._check_list(node, shape.items)
        elif not isinstance(node, yaml.ScalarNode) or not self._check_scalar(node, shape.kind):
            self._at(node, "BadStructure", f"a {shape.kind} is expected here")
            return False
        return True

    def _check_mapping(self, node: yaml.MappingNode, shape: Shape) -> None:
        seen: set[str] = set()
        for key_node, value in node.value:
            key = _text(key_node)
            if key in seen:
                self._at(key_node, "DuplicateKey", f"{key} appears twice")
            elif key not in shape.keys:
                guess = closest(key[:64], shape.keys)
                self._at(key_node, "UnknownKey", f"unknown key {key[:64]}", suggestion=guess)
            else:
                self._check(value, shape.keys[key])
            seen.add(key)
        for key in shape.required:
            if key not in seen:
                self._at(node, "MissingKey", f"{key} is missing")

    def _check_list(self, node: yaml.SequenceNode, item_shape: Shape) -> None:
        names: set[str] = set()
        for item in node.value:
            self._check(item, item_shape)
            named = _pairs(item).get(item_shape.name or "")
            if named is not None and _text(named) in names:
                self._at(named, "DuplicateName", f"{item_shape.name} {_text(named)} is already defined")
            names.add(_text(named))

    def _check_scalar(self, node: yaml.ScalarNode, kind: str) -> bool:
        if "boolean" in kind:
            return bool(node.tag == _BOOL)
        if kind == "integer":
            return bool(node.tag == _INT)
        if kind == "hosts":
            try:
                count(node.value)
            except HostListError as error:
                self._at(node, "BadHostList", str(error))
        return kind in {"hosts", "text"} and node.tag != _NULL

    def _at(
        self,
        node: yaml.Node,
        code: str,
        message: str,
        *,
        expected: str | None = None,
        suggestion: str | None = None,
        severity: Severity = "error",
    ) -> None:
        mark = node.start_mark
        self._add(
            mark.line + 1,
            mark.column + 1,
            code,
            message,
            expected=expected,
            suggestion=suggestion,
            severity=severity,
        )

    def _add(
        self,
        line: int,
        column: int,
        code: str,
        message: str,
        *,
        expected: str | None = None,
        suggestion: str | None = None,
        severity: Severity = "error",
    ) -> None:
        self.found.append(
            Finding(
                file=self.file,
                line=line,
                column=column,
                severity=severity,
                code=code,
                message=message,
                expected=expected,
                suggestion=suggestion,
            )
        )


def _compose(text: str) -> yaml.Node | None:
    """The tree of nodes, without aliases: one could make a small file endless."""
    for event in yaml.parse(text, Loader=yaml.SafeLoader) if "*" in text else ():
        if isinstance(event, yaml.AliasEvent):
            # The pure Python parser makes marks of its own class, never those of the C library.
            mark = cast("Mark | None", event.start_mark)
            raise yaml.MarkedYAMLError(problem="aliases are not supported", problem_mark=mark)
    root: yaml.Node | None = yaml.compose(text, Loader=yaml.SafeLoader)
    return root


def _pairs(node: yaml.Node | None) -> dict[str, yaml.Node]:
    if not isinstance(node, yaml.MappingNode):
        return {}
    return {_text(key): value for key, value in node.value}


def _items(node: yaml.Node | None) -> list[yaml.Node]:
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _text(node: yaml.Node | None) -> str:
    return str(node.value) if isinstance(node, yaml.ScalarNode) else ""


def _names(node: yaml.Node | None) -> list[str]:
    try:
        return expand(_text(node))
    except HostListError:
        return []
