"""How Slurm misbehaves, once, at one call: no route, a refused token, half a list, an old answer, an admin's hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from slurm_operator.slurm.errors import SlurmTimeout, SlurmUnreachable
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

if TYPE_CHECKING:
    from tests.campaigns.rig import World

Go = Callable[[], Reply]


@dataclass(frozen=True)
class Fault:
    """One way to misbehave, and the calls that it makes sense for."""

    act: Callable[[World, Sending, Go], Reply]
    fits: Callable[[Sending], bool] = lambda _: True


def _no_route(_: World, sending: Sending, __: Go) -> Reply:
    raise SlurmUnreachable("cannot connect to slurmrestd: No route to host", call=sending.label)


def _unauthorized(world: World, _: Sending, __: Go) -> Reply:
    body = {"errors": [{"error_number": 1007, "error": "Protocol authentication error"}], "meta": world.slurm.meta()}
    return Reply(511, "application/json", json.dumps(body).encode())


def _not_found(_: World, sending: Sending, __: Go) -> Reply:
    """As a slurmrestd answers that was started without the plugin, or a proxy without a way to it."""
    return Reply(404, "text/plain", f"Unable to find requested URL endpoint {sending.path}".encode())


def _failed(world: World, _: Sending, __: Go) -> Reply:
    body = {"errors": [{"error_number": -1, "error": "Unspecified error"}], "meta": world.slurm.meta()}
    return Reply(500, "application/json", json.dumps(body).encode())


def _timeout(_: World, sending: Sending, go: Go) -> Reply:
    """The call is done, but nobody hears of it."""
    go()
    raise SlurmTimeout("no answer within 12 s", call=sending.label)


def _errors_in_200(world: World, _: Sending, go: Go) -> Reply:
    reply = go()
    if reply.status != 200:
        return reply
    body = json.loads(reply.body) | {"errors": [{"error_number": 1, "error": "Operation not permitted"}]}
    return Reply(200, "application/json", json.dumps(body).encode())


def _truncated(_: World, __: Sending, go: Go) -> Reply:
    reply = go()
    return Reply(reply.status, reply.content_type, reply.body[: len(reply.body) // 2])


def _list_of(share: float) -> Callable[[World, Sending, Go], Reply]:
    def act(world: World, sending: Sending, _: Go) -> Reply:
        whole = json.loads(world.slurm.answer(_unconditional(sending), world.token()).body)
        for key in ("nodes", "jobs", "partitions"):
            if isinstance(whole.get(key), list):
                whole[key] = whole[key][: int(len(whole[key]) * share)]
        return Reply(200, "application/json", json.dumps(whole).encode())

    return act


def _unconditional(sending: Sending) -> Sending:
    return Sending(method=sending.method, path=sending.path, label=sending.label)


def _stale(world: World, sending: Sending, go: Go) -> Reply:
    """An answer of a minute ago, or the oldest that there is."""
    known = world.judge.replies.get(sending.label) or []
    then = world.clock.monotonic() - 60
    old = [reply for at, reply in known if at <= then] or [reply for _, reply in known[:1]]
    return old[-1] if old else go()


def _admin_drains(world: World, _: Sending, go: Go) -> Reply:
    """A person drains every node with their own reason, just after the list was made."""
    reply = go()
    for name, node in world.slurm.nodes.items():
        if "DRAIN" not in node.flags:
            world.slurm.admin_drain(name)
            world.judge.unseen.add(name)
    world.judge.just_drained = True
    world.clock.call_later(20.0, lambda: _admin_resumes(world))
    return reply


def _admin_resumes(world: World) -> None:
    for node in world.slurm.nodes.values():
        if node.reason == "broken fan":
            node.flags.discard("DRAIN")
            node.reason = ""
    world.slurm.touch("nodes")
    world.slurm.schedule()


def _is_list(sending: Sending) -> bool:
    return sending.label in ("GET nodes", "GET jobs", "GET jobs/state", "GET partitions")


FAULTS: dict[str, Fault] = {
    "no-route": Fault(_no_route),
    "unauthorized": Fault(_unauthorized),
    "not-found": Fault(_not_found),
    "failed": Fault(_failed),
    "timeout": Fault(_timeout),
    "errors-in-200": Fault(_errors_in_200),
    "truncated": Fault(_truncated),
    "empty-list": Fault(_list_of(0.0), _is_list),
    "half-list": Fault(_list_of(0.5), _is_list),
    "stale": Fault(_stale, _is_list),
    "admin-drains": Fault(_admin_drains, lambda sending: sending.label == "GET nodes"),
}
