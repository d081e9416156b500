"""The store: versions, the log, snapshots, and what survives the process."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kube_local.apiserver.store import Changed, Compacted, Row, Store, StoreUnusable


def thing(name: str, namespace: str = "ns", **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Thing",
        "metadata": {"name": name, "namespace": namespace, "uid": name},
        **more,
    }


def names(rows: list[Row]) -> list[str]:
    return [row.name for row in rows]


def test_every_commit_gets_the_next_version_whatever_the_resource() -> None:
    store = Store(first_revision=10)
    assert [store.put("a", thing("x")).revision, store.put("b", thing("x")).revision] == [11, 12]
    assert store.revision == 12


def test_lists_are_in_the_order_of_etcd_keys() -> None:
    store = Store()
    for namespace, name in (("a", "z"), ("a-b", "a"), ("b", "a"), ("a", "b")):
        store.put("a", thing(name, namespace))
    assert [row.key for row in store.rows("a")] == ["a-b/a", "a/b", "a/z", "b/a"]
    assert names(store.rows("a", "a")) == ["b", "z"]


def test_a_write_that_expects_another_version_is_refused() -> None:
    store = Store()
    row = store.put("a", thing("x"), expected=0)
    with pytest.raises(Changed):
        store.put("a", thing("x"), expected=0)
    store.put("a", thing("x", data=1), expected=row.revision)
    with pytest.raises(Changed):
        store.delete(row)


def test_a_loaded_object_is_a_copy() -> None:
    store = Store()
    row = store.put("a", thing("x"))
    row.load()["metadata"]["name"] = "changed"
    assert row.load()["metadata"]["name"] == "x"


def test_the_past_can_be_listed_until_it_is_compacted() -> None:
    store = Store()
    store.put("a", thing("kept"))
    gone = store.put("a", thing("gone"))
    before = store.revision
    store.delete(gone)
    store.put("a", thing("kept", data=2))
    store.put("a", thing("new"))
    assert names(store.rows_at("a", None, before)) == ["gone", "kept"]
    assert "data" not in store.rows_at("a", "ns", before)[1].load()
    store.compact()
    with pytest.raises(Compacted):
        store.rows_at("a", None, before)


def test_the_log_forgets_the_oldest_changes_and_says_so() -> None:
    store = Store(keep_changes=4)
    for number in range(20):
        store.put("a", thing("x", data=number))
    with pytest.raises(Compacted):
        store.changes("a", 1)
    assert [change.type for change in store.changes("a", store.revision - 2)] == ["MODIFIED", "MODIFIED"]


def test_a_deletion_is_logged_with_the_last_state_at_a_new_version() -> None:
    store = Store()
    row = store.put("a", thing("x", data=7))
    store.delete(row)
    (change,) = store.changes("a", row.revision)
    assert change.type == "DELETED"
    assert change.row.load()["data"] == 7
    assert change.row.load()["metadata"]["resourceVersion"] == str(row.revision + 1)


async def test_a_waiter_wakes_with_the_next_change() -> None:
    store = Store()
    waiting = asyncio.create_task(store.wait("a", store.revision, 60))
    await asyncio.sleep(0)
    store.put("a", thing("x"))
    assert await waiting is True
    assert await store.wait("a", store.revision, 0) is False


async def test_a_change_that_comes_as_the_time_is_up_is_not_missed() -> None:
    store = Store()
    seen = store.revision
    waiting = asyncio.create_task(store.wait("a", seen, 0))
    # The first step begins to wait, the second ends the time; the waiter itself only runs in the third.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    store.put("a", thing("x"))
    assert await waiting is True
    assert len(store.changes("a", seen)) == 1


def test_a_new_process_goes_on_where_the_old_one_stopped(tmp_path: Path) -> None:
    path = str(tmp_path / "folder" / "store.db")
    store = Store(path)
    kept = store.put("a", thing("kept"))
    store.delete(store.put("a", thing("gone")))
    last = store.revision
    store.close()
    again = Store(path)
    assert (again.revision, names(again.rows("a"))) == (last, ["kept"])
    assert [change.type for change in again.changes("a", kept.revision)] == ["ADDED", "DELETED"]
    assert again.put("a", thing("next")).revision == last + 1
    again.close()


def test_a_compacted_log_stays_compacted_after_a_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "store.db")
    store = Store(path, keep_changes=2)
    for number in range(9):
        store.put("a", thing("x", data=number))
    store.close()
    again = Store(path, keep_changes=2)
    with pytest.raises(Compacted):
        again.changes("a", 2)
    with pytest.raises(Compacted):
        again.changes("never-seen", 2)
    again.close()


def test_two_servers_cannot_share_a_file(tmp_path: Path) -> None:
    store = Store(str(tmp_path / "store.db"))
    store.put("a", thing("x"))
    with pytest.raises(StoreUnusable, match="stop the other server"):
        Store(str(tmp_path / "store.db"))
    store.close()


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    path.write_text("this is a letter, not a database" * 50)
    with pytest.raises(StoreUnusable, match=r"store\.db"):
        Store(str(path))


async def test_a_wait_that_is_cancelled_as_the_news_comes_is_cancelled() -> None:
    store = Store()
    waiting = asyncio.create_task(store.wait("a", store.revision, 60))
    await asyncio.sleep(0)
    store.put("a", thing("x"))
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
