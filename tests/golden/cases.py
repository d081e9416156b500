"""Golden cases: custom resources, and what they become, as files that people read.

In: folders `tests/golden/<kind>/<case>/` and the files in `examples/`. Out: `Case`s, which render themselves through
the same reader and renderer as the command line. Used by `test_golden.py` and by `tests/build/test_validity.py`.

`cr.yaml` of a case is laid over `base.yaml` of its kind: a document with the same kind and name takes the place of the
base's. The expected files are `objects.yaml` (what the resources of that kind become) and `slurm.conf`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import Any

from slurm_operator.build import labels, pods, sidecar
from slurm_operator.build.metadata import Object
from slurm_operator.cli.manifests import Manifest, read
from slurm_operator.cli.places import Problem
from slurm_operator.cli.render import Rendered, as_yaml, render
from slurm_operator.cli.world import World, load

ROOT = Path(__file__).parent
EXAMPLES = ROOT.parent.parent / "examples"
# Folder -> the kind whose objects its cases show; none for cases that only show a slurm.conf, all for "".
KINDS = {
    "accounting": "Accounting",
    "controller": "Controller",
    "loginset": "LoginSet",
    "nodeset": "NodeSet",
    "restapi": "RestApi",
    "slurm-conf": None,
    "examples": "",
}
SCRIPTS = ("initconf.sh", "logfile.sh")


@dataclass(frozen=True, slots=True)
class Case:
    """One folder of expected files."""

    folder: Path

    @property
    def name(self) -> str:
        """The case as tests are named for it."""
        return str(self.folder.relative_to(ROOT))

    @property
    def group(self) -> str:
        """The folder of its kind."""
        return self.folder.parent.name

    def documents(self) -> list[dict[str, Any]]:
        """The manifests of the case, base included."""
        if self.group == "examples":
            return list(_documents(EXAMPLES / f"{self.folder.name}.yaml"))
        base = self.folder.parent / "base.yaml"
        merged = {_key(each): each for each in [*_documents(base), *_documents(self.folder / "cr.yaml")]}
        return list(merged.values())

    def expected(self) -> dict[str, str]:
        """The expected files that are there, by name."""
        return {file.name: file.read_text() for file in sorted(self.folder.iterdir()) if file.name != "cr.yaml"}

    def actual(self) -> dict[str, str]:
        """The files that the case becomes now."""
        _, rendered = built(self.documents())
        kind = KINDS[self.group]
        files = {}
        if kind is not None:
            objects = [each for source, each in rendered.objects if kind in ("", source)]
            shown = few_workers(objects) if self.group == "examples" else objects
            files["objects.yaml"] = "".join(as_yaml(_shortened(shown))) or "# no objects\n"
        if not kind:
            files["slurm.conf"] = "".join(rendered.slurm_confs.values())
        return files


def built(documents: Iterable[dict[str, Any]]) -> tuple[World, Rendered]:
    """Read and render manifests as the command line does."""
    text = "".join(f"---\n{json.dumps(each)}\n" for each in documents)
    world = load(["-"], BytesIO(text.encode()))
    return world, render(world)


def few_workers(objects: Iterable[Object]) -> list[Object]:
    """Objects with two workers of each NodeSet: the others differ only in their number."""
    found: list[Object] = []
    seen: Counter[str] = Counter()
    for each in objects:
        instance = each["metadata"].get("labels", {}).get(labels.INSTANCE) if each["kind"] == "Pod" else None
        if instance:
            seen[instance] += 1
        if not instance or seen[instance] <= 2:
            found.append(each)
    return found


def cases() -> list[Case]:
    """Every case; an example without a folder is one too, so that it cannot be forgotten."""
    folders = {path for group in KINDS for path in (ROOT / group).glob("*/")}
    folders |= {ROOT / "examples" / file.stem for file in EXAMPLES.glob("*.yaml")}
    return [Case(folder) for folder in sorted(folders)]


@cache
def _documents(path: Path) -> tuple[dict[str, Any], ...]:
    found = list(read([str(path)]))
    unreadable = [str(each) for each in found if isinstance(each, Problem)]
    if unreadable:
        raise ValueError("\n".join(unreadable))
    return tuple(each.value for each in found if isinstance(each, Manifest))


def _key(document: dict[str, Any]) -> tuple[str, str]:
    return document["kind"], document["metadata"]["name"]


def _shortened(objects: list[Any]) -> list[Any]:
    """Objects with the names of our scripts for their texts, which have tests of their own."""
    names = {**{pods.shell(name)[-1]: f"<{name}>" for name in SCRIPTS}, sidecar.program(): "<reconfigure.sh>"}
    return list(_replaced(objects, names))


def _replaced(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {key: _replaced(item, names) for key, item in value.items()}
    if isinstance(value, list):
        return [_replaced(item, names) for item in value]
    return names.get(value, value) if isinstance(value, str) else value


def stray_folders() -> Iterator[Path]:
    """Folders beside the known ones, whose cases nobody would run."""
    yield from (path for path in ROOT.glob("*/") if path.name not in KINDS and path.name != "__pycache__")
