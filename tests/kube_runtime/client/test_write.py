"""The writer's own rules, where no whole server is needed; the rest is in `test_api_server_writes`."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.kube_runtime.client import fault_server as say
from tests.kube_runtime.client.fault_server import FaultServer

from kube_runtime.client import errors
from kube_runtime.client.client import Client
from kube_runtime.client.objects import CONFIG_MAPS, RawObject, decode_hook
from kube_runtime.client.write import Write, Writer


async def test_a_delete_without_a_uid_is_never_sent(client: Client, faults: FaultServer) -> None:
    with pytest.raises(ValueError, match="without a uid"):
        await Writer(client).delete(CONFIG_MAPS, "a", "ns")
    assert faults.seen == []


async def test_a_kind_that_is_not_known_is_named(client: Client) -> None:
    with pytest.raises(KeyError, match="Thing"):
        await Writer(client).apply({"apiVersion": "x/v1", "kind": "Thing", "metadata": {"name": "a"}})


async def test_a_failed_write_is_counted_and_told_after(client: Client, faults: FaultServer) -> None:
    told: list[tuple[str, type[BaseException] | None]] = []

    async def after(write: Write, error: BaseException | None) -> None:
        told.append((write.verb, type(error) if error else None))

    writer = Writer(client, after=after)
    faults.answer(say.error(403, "Forbidden"))
    with pytest.raises(errors.Forbidden):
        await writer.patch(CONFIG_MAPS, "a", {}, "ns")
    assert told == [("patch", errors.Forbidden)]
    assert writer.counts == {("patch", "ConfigMap"): 1}


async def test_a_dry_writer_marks_every_request(client: Client, faults: FaultServer) -> None:
    writer = Writer(client, dry_run=True)
    faults.answer(*[say.json(say.config_map("a", 1))] * 4)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}
    await writer.apply(body, None)
    await writer.create(body)
    await writer.patch(CONFIG_MAPS, "a", {}, "ns")
    await writer.delete(CONFIG_MAPS, "a", "ns", uid="u")
    for seen in faults.seen[:3]:
        assert seen.query["dryRun"] == "All"
    assert faults.seen[3].json["dryRun"] == ["All"]


async def test_what_is_invalid_for_another_reason_stays_invalid(client: Client, faults: FaultServer) -> None:
    causes = [{"field": "data", "reason": "FieldValueInvalid", "message": "x"}]
    faults.answer(say.error(422, "Invalid", causes=causes))
    with pytest.raises(errors.Invalid):
        await Writer(client).patch(CONFIG_MAPS, "a", {}, "ns", uid="u")


def served(uid: str, subresource: str, phase: str = "as the server writes it") -> dict[str, Any]:
    """An object whose one field, which is ours, the server writes in another form than we do."""
    managed = {"manager": "slurm-operator", "operation": "Apply", "apiVersion": "v1", "subresource": subresource}
    managed["fieldsV1"] = {"f:status": {"f:phase": {}}}  # type: ignore[assignment]  # a tree among words
    body = say.config_map("a", 1, uid=uid)
    body["metadata"]["managedFields"] = [managed]
    return {**body, "status": {"phase": phase}}


async def learnt(writer: Writer, faults: FaultServer, subresource: str) -> dict[str, Any]:
    """What was applied, after the writer has learnt that the server writes it in another form."""
    desired: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "ns"}}
    desired["status"] = {"phase": "as we write it"}
    faults.answer(say.json(served("first", subresource)))
    await writer.apply(desired, None, subresource=subresource)
    assert not writer.would_change(desired, raw(served("first", subresource)), subresource=subresource)
    return desired


def raw(body: dict[str, Any]) -> RawObject:
    return msgspec.json.decode(msgspec.json.encode(body), type=RawObject, dec_hook=decode_hook)


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_a_delete_forgets_what_was_learnt_of_the_object_and_of_its_status(
    client: Client, faults: FaultServer, subresource: str
) -> None:
    """B8: of its status it did not."""
    writer = Writer(client)
    desired = await learnt(writer, faults, subresource)
    faults.answer(say.json(served("first", subresource)))
    await writer.delete(CONFIG_MAPS, "a", "ns", uid="first")
    assert writer.would_change(desired, raw(served("first", subresource)), subresource=subresource)


@pytest.mark.parametrize("subresource", ["", "status"])
async def test_what_was_learnt_of_an_object_is_not_believed_of_its_namesake(
    client: Client, faults: FaultServer, subresource: str
) -> None:
    """B8: whoever deletes it, a new object of that name is compared anew."""
    writer = Writer(client)
    desired = await learnt(writer, faults, subresource)
    assert writer.would_change(desired, raw(served("second", subresource)), subresource=subresource)
