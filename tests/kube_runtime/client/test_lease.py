"""One Lease on whole API servers: of two who write it, one is told that it was late."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pytest
from tests.kube_runtime.client.conftest import Api

from kube_runtime.client import errors
from kube_runtime.client.lease import LeaseObject


@dataclass(frozen=True)
class Record:
    """As `loop` has it."""

    holder: str
    lease_seconds: int
    acquired: datetime | None
    renewed: datetime | None
    transitions: int
    version: str = ""


async def test_a_lease_is_made_read_and_replaced(api: Api) -> None:
    lease = LeaseObject(api.client, api.namespace, "leader", Record)
    assert await lease.get() is None
    now = datetime(2030, 1, 1, 12, 0, 0, 5, tzinfo=UTC)
    made = await lease.create(Record("one", 15, now, now, 0))
    assert await lease.get() == made
    assert (made.holder, made.renewed) == ("one", now)
    later = await lease.update(replace(made, renewed=now + timedelta(seconds=2)))
    assert later.renewed == now + timedelta(seconds=2)
    released = await lease.update(replace(later, holder=""))
    assert released.holder == ""


async def test_of_two_who_take_a_lease_one_gets_it(api: Api) -> None:
    lease = LeaseObject(api.client, api.namespace, "leader", Record)
    now = datetime(2030, 1, 1, tzinfo=UTC)
    made = await lease.create(Record("", 15, now, now, 0))
    answers = await asyncio.gather(
        *[lease.update(replace(made, holder=name)) for name in ("one", "two")], return_exceptions=True
    )
    assert sorted(type(answer).__name__ for answer in answers) == ["Conflict", "Record"]
    with pytest.raises(errors.AlreadyExists):
        await lease.create(made)
