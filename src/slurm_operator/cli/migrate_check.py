"""`slurm-operator migrate-check`: reads a running installation of the Go operator and shows what a switch would mean.

In: a client, and files with values of its chart. Out: the text or data that the command prints. It only lists objects;
the only Secrets it reads are the releases of Helm, and it prints no value of them. Any user of the cluster can write
one: it is bounded, checked for its types, and what does not fit is a line of the answer. `diagnose/migration.py` works
out what it all means. Called by `cli/main.py`.
"""

from __future__ import annotations

import gzip
import zlib
from base64 import b64decode
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec
import yaml

from kube_runtime.client.errors import KubeError, NotFound
from kube_runtime.client.objects import (
    CLAIMS,
    CONFIG_MAPS,
    DEPLOYMENTS,
    NAMESPACES,
    PODS,
    SECRETS,
    STATEFUL_SETS,
    RawObject,
    Resource,
)
from kube_runtime.text import printable, printable_lines
from slurm_operator.api.plural import counted
from slurm_operator.cli.manifests import read_mapping
from slurm_operator.cli.places import Problem
from slurm_operator.diagnose.migration import Installation, Migration, Release
from slurm_operator.reconcile.resources import OURS

if TYPE_CHECKING:
    from kube_runtime.client.client import Client

ADMISSION = "admissionregistration.k8s.io"
VALIDATING: Resource[RawObject] = Resource(
    ADMISSION, "v1", "validatingwebhookconfigurations", "ValidatingWebhookConfiguration", RawObject, namespaced=False
)
MUTATING: Resource[RawObject] = Resource(
    ADMISSION, "v1", "mutatingwebhookconfigurations", "MutatingWebhookConfiguration", RawObject, namespaced=False
)
READ: tuple[Resource[Any], ...] = (
    *OURS.values(),
    CONFIG_MAPS,
    CLAIMS,
    STATEFUL_SETS,
    PODS,
)
# The programs and their webhooks may be in any namespace.
READ_EVERYWHERE: tuple[Resource[Any], ...] = (DEPLOYMENTS, VALIDATING, MUTATING)
CHARTS = ("slurm-operator", "slurm")
RELEASES = "owner=helm,status=deployed"
# A release fits into a Secret, but what it unpacks to must not fill the memory.
MAX_RELEASE_BYTES = 32 * 1024 * 1024
MAX_VALUES_BYTES = 1024 * 1024
MAX_NAME_CHARACTERS = 63


async def read(
    client: Client,
    namespace: str,
    values: tuple[Path, ...],
    known_flags: frozenset[str],
    operator_namespace: str = "",
) -> Installation:
    """Everything that is looked at, in one namespace, or in all if it is empty."""
    objects: dict[str, list[dict[str, Any]]] = {}
    unread: dict[str, str] = {}
    for resource, place in (
        *((each, namespace) for each in READ),
        *((each, "") for each in READ_EVERYWHERE),
    ):
        try:
            listing = await client.list(resource.raw(), place)
        except NotFound:
            # The API server does not know the kind, so there are no such objects.
            objects[resource.kind] = []
        except KubeError as error:
            unread[resource.plural] = printable(str(error))
        else:
            objects[resource.kind] = [item.content() for item in listing.items]
    if not any(objects.get(kind) for kind in OURS) and not any(each.plural in unread for each in OURS.values()):
        raise click.ClickException(await _nothing(client, namespace))
    releases = [_given(path) for path in values] if values else await _releases(client, unread)
    return Installation(objects, releases, known_flags, unread, operator_namespace)


async def _nothing(client: Client, namespace: str) -> str:
    """Why there is nothing to look at."""
    group = next(iter(OURS.values())).group
    if not namespace:
        return f"no namespace holds a resource of {group}: there is no cluster to migrate here"
    try:
        await client.get(NAMESPACES, namespace)
    except NotFound:
        return f"there is no namespace {namespace!r}"
    except KubeError:
        # Whether it exists may not be asked; that it holds nothing is known.
        pass
    return f"namespace {namespace!r} holds no resource of {group}; without -n, all namespaces are looked at"


def _given(path: Path) -> Release:
    """Values of the Go operator's chart from a file."""
    content = read_mapping(path)
    if isinstance(content, Problem):
        raise click.ClickException(str(content))
    return Release(str(path), "", CHARTS[0], "", content, is_given=True)


async def _releases(client: Client, unread: dict[str, str]) -> list[Release]:
    try:
        listing = await client.list(SECRETS.raw(), "", label_selector=RELEASES)
    except KubeError as error:
        unread["Helm releases"] = f"{printable(str(error))}; give the values with --values FILE"
        return []
    return [found for item in listing.items if (found := release(item.content())) is not None]


class _ChartMetadata(msgspec.Struct):
    name: str
    version: str = ""


class _Chart(msgspec.Struct):
    metadata: _ChartMetadata


class _Release(msgspec.Struct):
    """What is looked at of a release; the rest, the whole chart, is passed over without being built."""

    name: str
    chart: _Chart
    config: msgspec.Raw = msgspec.Raw(b"null")


def release(secret: Mapping[str, Any]) -> Release | None:
    """The release of one of the charts that a Secret holds; None for one of another chart."""
    try:
        found = msgspec.json.decode(_unpacked(secret), type=_Release)
        if found.chart.metadata.name not in CHARTS:
            return None
        if len(bytes(found.config)) > MAX_VALUES_BYTES:
            return _unreadable(secret, f"its values have more than {MAX_VALUES_BYTES >> 20} MB")
        values = msgspec.json.decode(found.config, type=dict[str, Any] | None) or {}
    except RecursionError:
        return _unreadable(secret, "it is nested too deeply")
    except (ValueError, TypeError, OSError, EOFError, zlib.error, msgspec.MsgspecError) as error:
        return _unreadable(secret, str(error) or "it is cut off")
    about = found.chart.metadata
    return Release(_shown(found.name), _of(secret, "namespace"), about.name, _shown(about.version), values)


def _unpacked(secret: Mapping[str, Any]) -> bytes:
    data = secret.get("data")
    packed = data.get("release") if isinstance(data, Mapping) else None
    if not isinstance(packed, str):
        raise TypeError("it has no data.release")
    with gzip.GzipFile(fileobj=BytesIO(b64decode(b64decode(packed)))) as file:
        content = file.read(MAX_RELEASE_BYTES + 1)
    if len(content) > MAX_RELEASE_BYTES:
        raise ValueError(f"it unpacks to more than {MAX_RELEASE_BYTES >> 20} MB")
    return content


def _unreadable(secret: Mapping[str, Any], problem: str) -> Release:
    return Release(_of(secret, "name"), _of(secret, "namespace"), "", "", {}, printable(problem))


def _of(secret: Mapping[str, Any], key: str) -> str:
    meta = secret.get("metadata")
    return _shown(str(meta.get(key) or "")) if isinstance(meta, Mapping) else ""


def _shown(name: str) -> str:
    return printable(name, MAX_NAME_CHARACTERS)


def text(found: Migration) -> str:
    """The answer for people."""
    return printable_lines("\n".join(_lines(found)) + "\n")


def _lines(found: Migration) -> Iterator[str]:
    kinds = (("Controller", "cluster"), ("NodeSet", "NodeSet"))
    yield f"Read: {' and '.join(counted(found.read.get(kind, 0), noun) for kind, noun in kinds)}"
    none = "not clear; see below" if found.others else "none found; they may be stopped already"
    yield f"Programs of the Go operator: {', '.join(found.programs) or none}"
    for title, level in (("Needs a decision", "decision"), ("Will change", "change")):
        notes = [note for note in found.notes if note.level == level]
        yield from ("", f"{title}: {len(notes) or 'nothing'}")
        for note in notes:
            yield f"- {note.place}: {note.message}"
            yield from (f"    {line}" for line in note.lines)
    yield from (
        "",
        "Values of the chart slurm-operator with the same meaning, which also allow what your resources use:",
    )
    yield from (f"  {line}" for line in _values(found).splitlines())
    yield from ("", "Steps, in this order:")
    yield from (f"{number}. {step}" for number, step in enumerate(found.steps, 1))


def _values(found: Migration) -> str:
    # One line for each value, however long.
    width = float("inf")
    return yaml.safe_dump(dict(found.values), sort_keys=True, width=width) if found.values else "{}  # nothing differs"
