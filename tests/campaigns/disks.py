"""R9 on disks: a full one, and files that a crash or a bad disk has spoilt.

In: a case (`full-disk`, `spoilt-files`) and which points. Out: `Result`s. A point is one place that writes or reads a
file, at one moment. It passes when what is wrong is said clearly, nothing that was there is lost, and all goes on when
there is room, or when the file has been made anew.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from tests.campaigns.campaign import Outcome, Result, Wants

from kube_local.apiserver import ApiServer
from kube_local.apiserver.store import Store, StoreUnusable
from kube_local.node import host, network, records
from kube_local.node.errors import MountFailed
from kube_local.node.records import ContainerRecord, PodRecord
from kube_runtime.key_pair import load_pair
from slurm_operator.admission import certificates
from slurm_operator.local import supervisor
from slurm_operator.local.home import write_whole
from slurm_operator.local.image import apt, store
from slurm_operator.local.image.download import Item

CASES = ("full-disk", "spoilt-files")
SMALL_BYTES = 2 * 1024 * 1024
Check = Callable[[Path], Iterator[str]]


# --- a full disk --------------------------------------------------------------------------------------------------


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk with little room; MountFailed where nobody may mount."""
    host.tmpfs(folder, f"size={SMALL_BYTES}")
    try:
        yield folder
    finally:
        host.unmount(folder)


def fill(disk: Path) -> Path:
    """Leave no room at all."""
    path = disk / "filler"
    with path.open("ab", buffering=0) as file:
        for size in (65536, 4096, 1):
            while True:
                try:
                    file.write(b"x" * size)
                except OSError:
                    break
    return path


def _ask(server: ApiServer, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    headers = {"content-type": "application/json"}
    response = asyncio.run(server.handle(method, path, {}, headers, body))
    return response.status, json.loads(response.body or b"null")


def _config_map(name: str, size: int = 2000) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"x": "y" * size}}


MAPS = "/api/v1/namespaces/default/configmaps"


def _full_store(limit: Callable[[Path, Store, int], Callable[[], None]], number: int) -> Check:
    """A store that has room for so many more changes."""

    def check(folder: Path) -> Iterator[str]:
        path = folder / "db"
        server = ApiServer(str(path))
        for index in range(number):
            _ask(server, "POST", MAPS, _config_map(f"before-{index}"))
        held, revision = _names(server), server.store.revision
        make_room = limit(folder, server.store, number)
        refused = None
        for index in range(500):
            code, answer = _ask(server, "POST", MAPS, _config_map(f"more-{index}"))
            if code != 201:
                refused = (code, answer["message"])
                break
            held, revision = _names(server), server.store.revision
        if refused is None or refused[0] != 500 or "make room" not in refused[1]:
            yield f"a full store answered {refused}"
        if _names(server) != held or server.store.revision != revision:
            yield "a refused write left something in memory"
        make_room()
        code, answer = _ask(server, "POST", MAPS, _config_map("after"))
        if code != 201:
            yield f"with room again it still refuses: {answer['message']}"
        expected = _names(server)
        server.store.close()
        again = Store(str(path))
        if [row.name for row in again.rows("configmaps", "default")] != expected:
            yield "a new process finds other objects"
        again.close()

    return check


def _names(server: ApiServer) -> list[str]:
    return [row.name for row in server.store.rows("configmaps", "default")]


def _by_pages(_: Path, opened: Store, number: int) -> Callable[[], None]:
    """SQLite's own limit."""
    assert opened._journal is not None
    db: sqlite3.Connection = opened._journal._db
    pages = db.execute("PRAGMA page_count").fetchone()[0]
    db.execute(f"PRAGMA max_page_count={pages + number}")

    def make_room() -> None:
        db.execute("PRAGMA max_page_count=1000000")

    return make_room


def _by_disk(folder: Path, _: Store, __: int) -> Callable[[], None]:
    """A disk without a single free block."""
    return fill(folder).unlink


def _full_log(folder: Path) -> Iterator[str]:
    path = folder / "part.log"
    path.write_bytes(b"x" * (SMALL_BYTES // 2))
    fill(folder)
    keep, supervisor.LOG_BYTES = supervisor.LOG_BYTES, 1000
    try:
        supervisor.trim(path)
    finally:
        supervisor.LOG_BYTES = keep
    if path.stat().st_size != 0:
        yield "the log that filled the disk was not shortened"


def _full_record(folder: Path) -> Iterator[str]:
    path = folder / "pod.json"
    first = PodRecord(uid="u", namespace="ns", name="p", node="n")
    records.save(path, first)
    filler = fill(folder)
    try:
        records.save(path, msgspec.structs.replace(first, message="x" * 9000))
        yield "a record was saved on a full disk"
    except OSError:
        pass
    if records.load(path, PodRecord) != first:
        yield "the record before was lost"
    filler.unlink()
    records.save(path, msgspec.structs.replace(first, message="after"))
    if (records.load(path, PodRecord) or first).message != "after":
        yield "no record is saved when there is room"


def _full_parts(folder: Path) -> Iterator[str]:
    path = folder / "parts.json"
    write_whole(path, b"before")
    fill(folder)
    try:
        write_whole(path, b"x" * 9000)
        yield "a file was replaced on a full disk"
    except OSError:
        pass
    if path.read_bytes() != b"before":
        yield "the file before was lost"


def _full_certificates(folder: Path) -> Iterator[str]:
    """The webhook's certificate is loaded whatever the disks have room for."""
    fill(folder)
    keep, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        pair = certificates.issue(("localhost",), datetime.now(UTC))
        load_pair(ssl.create_default_context(ssl.Purpose.CLIENT_AUTH), pair.certificate, pair.key)
    except OSError as error:
        yield f"a certificate was not loaded: {error}"
    finally:
        tempfile.tempdir = keep


# --- files that are spoilt ----------------------------------------------------------------------------------------


def _spoils(content: bytes) -> Iterator[tuple[str, bytes]]:
    """Cut off, overwritten and emptied, here and there."""
    yield "empty", b""
    for share in (0.1, 0.5, 0.9):
        at = int(len(content) * share)
        yield f"cut at {at}", content[:at]
        yield f"zeros from {at}", content[:at] + bytes(len(content) - at)
        yield f"noise at {at}", content[:at] + b"\xff\x00\xfe{" + content[at + 4 :]


def _spoilt_image(folder: Path) -> Iterator[str]:
    names = ("slurm-26.05-aaaaaaaaaaaa", "slurm-26.05-bbbbbbbbbbbb")
    for name in names:
        root = store.images_folder(folder) / name
        unfinished = root.with_name(f"{name}{store.UNFINISHED}")
        unfinished.mkdir(parents=True)
        store.put(_image(root), unfinished)
    victim = store.images_folder(folder) / f"{names[0]}.json"
    whole = victim.read_bytes()
    for how, content in _spoils(whole):
        victim.write_bytes(content)
        found = {image.path.name for image in store.list_images(folder)}
        if names[1] not in found:
            yield f"{how}: the other image is lost"
    victim.write_bytes(b"")
    again = store.images_folder(folder) / "x.building"
    again.mkdir()
    store.put(_image(victim.with_suffix("")), again)
    if {image.path.name for image in store.list_images(folder)} != set(names):
        yield "the spoilt image is not built anew"


def _image(path: Path) -> store.Image:
    return store.Image(
        path=path, version="26.05", digest="d", recipe="r", suite="sid", packages={"a": "1"}, bytes=1, built="2030",
        seconds=1.0,
    )  # fmt: skip


def _spoilt_package(folder: Path) -> Iterator[str]:
    suite = apt.Suite("sid", folder, "http://127.0.0.1:1/debian")
    suite.archives.mkdir(parents=True)
    content = bytes(range(256)) * 64
    item = Item("http://127.0.0.1:1/a.deb", "a.deb", len(content), "sha256", hashlib.sha256(content).hexdigest())
    path = suite.archives / item.name
    for how, spoilt in _spoils(content):
        path.write_bytes(spoilt)
        if suite._has(item) or path.exists():
            yield f"{how}: a spoilt package counts as there"
    path.write_bytes(content)
    if not suite._has(item):
        yield "a whole package is fetched again"


def _spoilt_record(folder: Path) -> Iterator[str]:
    path = folder / "container.json"
    records.save(path, ContainerRecord(name="c", state="running", pid=7))
    for how, content in _spoils(path.read_bytes()):
        path.write_bytes(content)
        if records.load(path, ContainerRecord) is not None:
            yield f"{how}: a spoilt record is believed"


def _spoilt_network(folder: Path) -> Iterator[str]:
    path = folder / "network.json"
    for how, content in _spoils(b'{"range":"10.240.0.0/16","bridge":"slk","gateway":"10.240.0.1"}'):
        path.write_bytes(content)
        if network.load(folder) is not None:
            yield f"{how}: a spoilt network is believed"


def _spoilt_store(folder: Path) -> Iterator[str]:
    path = folder / "db"
    made = Store(str(path))
    for number in range(60):
        made.put("configmaps", {**_config_map(f"m-{number}"), "metadata": {"name": f"m-{number}"}})
    made.close()
    whole = path.read_bytes()
    for how, content in _spoils(whole):
        path.write_bytes(content)
        for rest in folder.glob("db-*"):
            rest.unlink()
        try:
            opened = Store(str(path))
        except StoreUnusable as error:
            if "move the file away" not in str(error):
                yield f"{how}: {error}"
            continue
        found = len(opened.rows("configmaps"))
        opened.close()
        if content and found not in (0, 60):
            yield f"{how}: {found} of 60 objects are there, and nobody says so"


CHECKS: dict[str, dict[str, Check]] = {
    "full-disk": {
        **{f"store-pages-{number:02}": _full_store(_by_pages, number) for number in (0, 1, 2, 3, 5, 8, 13, 21)},
        **{f"store-disk-{number:02}": _full_store(_by_disk, number) for number in (0, 1, 3, 8)},
        "log": _full_log,
        "record": _full_record,
        "parts": _full_parts,
        "certificates": _full_certificates,
    },
    "spoilt-files": {
        "image": _spoilt_image,
        "package": _spoilt_package,
        "record": _spoilt_record,
        "network": _spoilt_network,
        "store": _spoilt_store,
    },
}


def play(case: str, point: str) -> Outcome:
    """One point, in a folder of its own; on a small disk where it matters."""
    began, name, check = time.monotonic(), f"R9/{case}/{point}", CHECKS[case][point]
    what = point
    with tempfile.TemporaryDirectory() as given:
        folder = Path(given)
        try:
            if case == "full-disk" and not point.startswith("store-pages"):
                with small_disk(folder / "disk") as disk:
                    wrong = tuple(check(disk))
            else:
                wrong = tuple(check(folder))
        except MountFailed as error:
            wrong, what = (), f"{point}: not tried, {error}"
        except Exception as error:
            wrong = (f"I11: {error!r}",)
    return Outcome(name, wrong, time.monotonic() - began, what)


def run(case: str, wants: Wants = lambda _: True) -> Result:
    """Every point that is wanted."""
    began = time.monotonic()
    return Result([play(case, point) for point in CHECKS[case] if wants(point)], time.monotonic() - began)
