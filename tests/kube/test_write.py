"""The writer's own rules, where no whole server is needed; the rest is in `test_api_server_writes`."""

from __future__ import annotations

import pytest
from tests.kube import fault_server as say
from tests.kube.fault_server import FaultServer

from slurm_operator.kube import errors
from slurm_operator.kube.client import Client
from slurm_operator.kube.objects import CONFIG_MAPS
from slurm_operator.kube.write import Write, Writer


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
