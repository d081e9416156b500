"""`slurm-operator migrate-check`: reads a running installation of the Go operator and shows what a switch would mean.

In: a client, and files with values of its chart. Out: the text or data that the command prints. It only lists objects;
the only Secrets it reads are the releases of Helm, and it prints no value of them. `diagnose/migration.py` works out
what it all means. Called by `cli/main.py`.
"""

from __future__ import annotations

import gzip
import json
import zlib
from base64 import b64decode
from binascii import Error as Base64Error
from collections.abc import Iterator, Mapping
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
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


async def read(client: Client, namespace: str, values: tuple[Path, ...], known_flags: frozenset[str]) -> Installation:
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
    return Installation(objects, releases, known_flags, unread)


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
    try:
        content = yaml.safe_load(path.read_text()) or {}
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise click.ClickException(f"{path}: {error}") from error
    if not isinstance(content, dict):
        raise click.ClickException(f"{path}: must be a mapping, like the values of any chart")
    return Release(str(path), "file", "slurm-operator", "", content)


async def _releases(client: Client, unread: dict[str, str]) -> list[Release]:
    try:
        listing = await client.list(SECRETS.raw(), "", label_selector=RELEASES)
    except KubeError as error:
        unread["Helm releases"] = f"{printable(str(error))}; give the values with --values FILE"
        return []
    return [found for item in listing.items if (found := release(item.content())) is not None]


def release(secret: Mapping[str, Any]) -> Release | None:
    """The release of one of the charts that a Secret holds; None for any other Secret."""
    text = (secret.get("data") or {}).get("release")
    try:
        packed = b64decode(b64decode(str(text)))
        with gzip.GzipFile(fileobj=BytesIO(packed)) as file:
            content = json.loads(file.read(MAX_RELEASE_BYTES))
        about, meta = content["chart"]["metadata"], secret["metadata"]
        found = Release(
            str(content["name"]), meta["namespace"], about["name"], str(about["version"]), content.get("config") or {}
        )
    except (Base64Error, ValueError, OSError, EOFError, zlib.error, LookupError, TypeError):
        return None
    return found if found.chart in CHARTS else None


def text(found: Migration) -> str:
    """The answer for people."""
    return printable_lines("\n".join(_lines(found)) + "\n")


def _lines(found: Migration) -> Iterator[str]:
    kinds = (("Controller", "cluster"), ("NodeSet", "NodeSet"))
    yield f"Read: {' and '.join(counted(found.read.get(kind, 0), noun) for kind, noun in kinds)}"
    yield f"Programs of the Go operator: {', '.join(found.programs) or 'none found; they may be stopped already'}"
    for title, level in (("Needs a decision", "decision"), ("Will change", "change")):
        notes = [note for note in found.notes if note.level == level]
        yield from ("", f"{title}: {len(notes) or 'nothing'}")
        for note in notes:
            first, *more = note.message.splitlines()
            yield f"- {note.place}: {first}"
            yield from (f"  {line}" for line in more)
    yield from (
        "",
        "Values of the chart slurm-operator with the same meaning, which also allow what your resources use:",
    )
    yield from (f"  {line}" for line in _values(found).splitlines())
    yield from ("", "Steps, in this order:")
    yield from (f"{number}. {step}" for number, step in enumerate(found.steps, 1))


def _values(found: Migration) -> str:
    return yaml.safe_dump(dict(found.values), sort_keys=True) if found.values else "{}  # nothing differs"
