"""All that can be wrong with the line, the server or the token: a typed error, a bounded wait, no secret shown."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Callable

import pytest
from aiohttp import web
from tests.slurm.replay import KEY, Replay, load, respond
from tests.slurm.servers import serve

from slurm_operator.slurm.breaker import PING_SECONDS
from slurm_operator.slurm.client import Observation, Seconds, SlurmClient
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmError,
    SlurmTimeout,
    SlurmUnauthorized,
    SlurmUnreachable,
)
from slurm_operator.slurm.model import Known, SlurmList, Unknown
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.wire import Reply


def said(text: str, status: int = 200, kind: str = "application/json") -> Callable[[web.Request], web.Response]:
    return lambda _: web.Response(text=text, status=status, content_type=kind)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (said('{"nodes": [{"name": "n0"'), SlurmBadAnswer),
        (said("<html>log in</html>", kind="text/html"), SlurmBadAnswer),
        (said("<html>log in</html>"), SlurmBadAnswer),
        (said("{}"), SlurmBadAnswer),
        (said('{"nodes": []}'), SlurmBadAnswer),
        (said("[]"), SlurmBadAnswer),
        (said("null"), SlurmBadAnswer),
        (said(""), SlurmBadAnswer),
        (said("[" * 100_000), SlurmBadAnswer),
        (said('{"meta":{"slurm":{"release":"26.05.5","cluster":"test"}},"errors":[]}'), SlurmBadAnswer),
        (said("Bad Gateway", 502, "text/plain"), SlurmUnreachable),
        (said("slow down", 429, "text/plain"), SlurmUnreachable),
        (said("no", 401, "text/plain"), SlurmUnauthorized),
        (said("no", 511, "text/plain"), SlurmUnauthorized),
        (said("moved", 302, "text/plain"), SlurmError),
        (said("oops", 500, "text/plain"), SlurmError),
    ],
    ids=[
        *(
            "cut off",
            "HTML",
            "HTML that says JSON",
            "empty object",
            "an empty list of nobody",
            "list",
            "null",
            "nothing",
        ),
        *("deep nesting", "no list", "502", "429", "401", "511", "redirect", "500"),
    ],
)
async def test_a_strange_answer_is_a_typed_error_and_never_an_absence(
    client: SlurmClient, replay: Replay, answer: Callable[[web.Request], web.Response], kind: type[SlurmError]
) -> None:
    replay.on_call("GET /nodes", answer)
    replay.on_call("GET /node/n0", answer)
    with pytest.raises(kind):
        await client.nodes()
    assert isinstance(await client.node("n0"), Unknown)


async def test_one_unreadable_node_makes_the_list_incomplete_not_empty(client: SlurmClient, replay: Replay) -> None:
    body = load(replay.release, "nodes").body.replace(b'"name": "n1"', b'"name": 7')
    replay.on_call("GET /nodes", lambda _: respond(Reply(200, "application/json", body)))
    answer = await client.all_nodes()
    assert [node.name for node in answer.items] == ["n0", "n2"]
    assert not answer.complete


async def test_a_state_never_heard_of_is_kept(client: SlurmClient, replay: Replay) -> None:
    body = load(replay.release, "node").body.replace(b'"IDLE"', b'"QUANTUM"')
    replay.on_call("GET /node/n0", lambda _: respond(Reply(200, "application/json", body)))
    view = await client.node("n0")
    assert isinstance(view, Known)
    assert "QUANTUM" in view.node.states


async def test_a_refused_token_is_made_anew_once(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "refused_token", "nodes")
    assert isinstance(await client.nodes(), SlurmList)
    first, second = replay.tokens[-2:]
    assert first != second


async def test_a_token_that_stays_refused_is_an_error(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "refused_token")
    with pytest.raises(SlurmUnauthorized):
        await client.nodes()
    assert replay.seen.count("GET /nodes") == 2


async def test_a_missing_token_is_an_error(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "no_token")
    with pytest.raises(SlurmUnauthorized):
        await client.nodes()


async def test_a_ping_with_a_refused_token_is_not_taken_for_a_dead_controller(
    client: SlurmClient, replay: Replay
) -> None:
    replay.on("GET /ping", "ping_refused_token")
    replay.on("GET /diag", "refused_token")
    with pytest.raises(SlurmUnauthorized):
        await client.nodes()


async def test_an_upgraded_server_is_spoken_to_in_its_new_version(
    client: SlurmClient, replay: Replay, clock: list[float]
) -> None:
    replay.release = "24.11"
    replay.on("GET /ping", "ping")
    assert await client.version() == "v0.0.42"
    replay.release = "26.05"
    replay.on("GET /ping", "ping")
    clock[0] += PING_SECONDS + 1
    assert await client.version() == "v0.0.45"


async def test_a_server_that_went_back_is_found_within_the_call(client: SlurmClient, replay: Replay) -> None:
    replay.release = "26.05"
    replay.on("GET /ping", "ping")
    assert await client.version() == "v0.0.45"
    replay.release = "24.11"
    replay.on("GET /ping", "ping")
    replay.on("GET /nodes", "nodes")
    assert isinstance(await client.nodes(), SlurmList)
    assert await client.version() == "v0.0.42"


async def test_a_silent_server_is_not_waited_for(replay: Replay) -> None:
    stop = asyncio.Event()

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/nodes"):
            await stop.wait()
        return await replay.handle(request)

    runner = await serve(handle)
    async with quick(runner) as asking:
        with pytest.raises(SlurmTimeout):
            await asking.nodes()
    stop.set()
    await runner.cleanup()


async def test_a_controller_that_dies_during_a_call_ends_the_wait(replay: Replay) -> None:
    stop = asyncio.Event()
    down = load(replay.release, "ping_controller_down")

    async def handle(request: web.Request) -> web.StreamResponse:
        if request.path.endswith("/nodes"):
            replay.on_call("GET /ping", lambda _: respond(down))
            await stop.wait()
        return await replay.handle(request)

    runner = await serve(handle)
    async with quick(runner, large=60) as asking:
        with pytest.raises(SlurmUnreachable, match="died during the call"):
            await asking.nodes()
    stop.set()
    await runner.cleanup()


def quick(runner: web.AppRunner, large: float = 0.3) -> SlurmClient:
    host, port = runner.addresses[0][:2]
    seconds = Seconds(ping=2, call=0.3, large=large, diagnosis=0.3, patience=0.1)
    return SlurmClient(f"http://{host}:{port}", TokenSource(lambda: KEY), seconds=seconds)


async def test_no_secret_is_in_any_error(client: SlurmClient, replay: Replay, observed: list[Observation]) -> None:
    def echo(request: web.Request) -> web.Response:
        return web.Response(text=f"you sent {dict(request.headers)}", status=500, content_type="text/plain")

    replay.on_call("GET /nodes", echo)
    replay.on_call("GET /jobs", lambda r: web.Response(text=str(dict(r.headers)), content_type="text/html"))
    shown = [repr(client), repr(observed)]
    for ask in (client.nodes, client.jobs):
        with pytest.raises(SlurmError) as caught:
            await ask()
        shown.append(f"{caught.value!r}{caught.value}{''.join(traceback.format_exception(caught.value))}")
    for token in {token for token in replay.tokens if token}:
        assert not any(token in text for text in shown)
    assert "you sent" in shown[2]


async def test_calls_at_the_same_time_share_one_negotiation(client: SlurmClient, replay: Replay) -> None:
    replay.on("GET /nodes", "nodes")
    answers = await asyncio.gather(*(client.all_nodes() for _ in range(10)))
    assert all(answer.complete for answer in answers)
    unknown = [call for call in replay.seen if call.startswith("GET /ping v")]
    assert len(unknown) == {"24.11": 3, "26.05": 0}[replay.release]
