"""The recorded answers that the client's own tests replay are still what a real Slurm says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.real.slurm.cluster import Cluster
from tests.slurm.replay import kept_answer

from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import Endpoint, Http, Sending

pytestmark = pytest.mark.real_slurm

READS = (
    *("ping", "nodes", "node", "node_absent", "partitions", "partition_absent", "reservation_absent"),
    *("job_absent", "diag", "unknown_version"),
)


def shape(value: Any) -> Any:
    """Keys and kinds, without the values."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items() if key != "client"}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


@pytest.mark.parametrize("name", READS)
async def test_a_recorded_answer_is_still_given(slurm: Cluster, name: str) -> None:
    kept = kept_answer(slurm.version, name)
    transport = Http(Endpoint.parse(f"unix://{slurm.socket}"))
    sending = Sending(method=kept["method"], path=kept["path"], label=name)
    reply = await transport.send(sending, TokenSource(lambda: slurm.jwt_key).current())
    await transport.close()
    assert (reply.status, reply.content_type) == (kept["status"], kept["content_type"])
    if "json" in kept:
        assert shape(json.loads(reply.body)) == shape(kept["json"])
