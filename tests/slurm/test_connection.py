"""A second answer on one connection is not heard."""

from __future__ import annotations

import pytest
from tests.slurm.servers import raw_server

from slurm_operator.slurm.transport import Endpoint, Http, Sending
from slurm_operator.slurm.wire import Reply

REFUSED = b"HTTP/1.1 422 UNPROCESSABLE CONTENT\r\nConnection: Close\r\n"

TWICE = (
    REFUSED
    + b'Content-Length: 22\r\nContent-Type: application/json\r\n\r\n{"errors":[],"meta":1}'
    + REFUSED
    + b"Content-Length: 3\r\n\r\nbad"
)


@pytest.mark.parametrize("piece", [1, 7, 64, 10_000], ids="pieces of {}".format)
async def test_the_second_answer_that_26_05_sends_after_an_error_is_dropped(piece: int) -> None:
    async with raw_server(TWICE, piece) as address:
        transport = Http(Endpoint.parse(address))
        for _ in range(3):
            reply = await transport.send(Sending(method="GET", path="/", label="GET x", seconds=2), "t")
            assert reply == Reply(422, "application/json", b'{"errors":[],"meta":1}')
        await transport.close()
