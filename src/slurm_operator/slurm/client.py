"""The client of slurmrestd: everything that this program reads from Slurm or changes in it goes through here.

In: an address, a token source. Out: model values, or a `SlurmError` that says what happens next. Reads:
`slurm/node_records.py`, `slurm/job_records.py`, `reconcile/clusters.py`. Writes: `reconcile/clusters.py`, for
`reconcile/execute.py`. All writes pass `SlurmClient.write`: the one seam for crash tests, dry runs and audit. Nothing
is cached but the REST version; in `shared.py` many readers share an answer.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Self, TypeVar

import msgspec

from slurm_operator.slurm import errors, requests, shapes, wire
from slurm_operator.slurm.breaker import Breaker
from slurm_operator.slurm.decoding import INLINE_BYTES, Decoder, Reading
from slurm_operator.slurm.errors import (
    SlurmBadAnswer,
    SlurmBusy,
    SlurmError,
    SlurmNotFound,
    SlurmUnauthorized,
    SlurmUnreachable,
    SlurmUnsupported,
)
from slurm_operator.slurm.model import (
    Absent,
    Diag,
    Job,
    JobState,
    JobView,
    Node,
    NodeView,
    Partition,
    Ping,
    Reservation,
    SlurmList,
    Unchanged,
    Unknown,
)
from slurm_operator.slurm.requests import (
    Feature,
    JobSubmission,
    NodeChange,
    PartitionChange,
    PartitionState,
    Request,
    ReservationChange,
)
from slurm_operator.slurm.token import TokenSource
from slurm_operator.slurm.transport import LIST_RESPONSE_BYTES, RESPONSE_BYTES, Endpoint, Http, Sending, Transport
from slurm_operator.slurm.versions import NEWEST_FIRST, Adapter
from slurm_operator.slurm.wire import Reply

T = TypeVar("T")
E = TypeVar("E", bound=shapes.Envelope)
Reader = Callable[[Reply, str], T]

PING = requests.read("ping")
DIAG = requests.read("diag")
RECONFIGURE = requests.reconfigure()
PARTITION_STATES: tuple[PartitionState, ...] = ("UP", "DOWN", "DRAIN", "INACTIVE")
JOB_NOT_FOUND_CODE = 2017
ALREADY_DONE_CODE = 2021


class Seconds(msgspec.Struct, frozen=True):
    """How long to wait for each kind of call."""

    ping: float = 3.0
    call: float = 12.0
    large: float = 30.0
    diagnosis: float = 1.0
    patience: float = 1.0


class Observation(msgspec.Struct, frozen=True):
    """One finished call, for metrics: `outcome` is "ok" or the reason of the error."""

    call: str
    outcome: str
    seconds: float


class Written(msgspec.Struct, frozen=True):
    """The answer to a write, and what Slurm warned about."""

    reply: Reply
    warnings: tuple[str, ...] = ()


class SlurmClient:
    """One slurmrestd. Made once per cluster; use as an async context manager, or call `close`.

    A response of any other cluster than `cluster` is a SlurmWrongCluster; where none is given, than the first one that
    answers, with which `named` is called. Responses of more than `inline_bytes` are decoded in a thread, which a clock
    of tests would not wait for.
    """

    def __init__(
        self,
        address: str,
        token: TokenSource,
        *,
        cluster: str = "",
        tls: ssl.SSLContext | None = None,
        transport: Transport | None = None,
        seconds: Seconds | None = None,
        observe: Callable[[Observation], None] = lambda _: None,
        monotonic: Callable[[], float] = time.monotonic,
        inline_bytes: int = INLINE_BYTES,
    ) -> None:
        self._transport = transport or Http(Endpoint.parse(address), tls=tls)
        self._token = token
        self._cluster = cluster
        self._decoder = Decoder(monotonic, inline_bytes)
        self._seconds = seconds or Seconds()
        self._observe = observe
        self._monotonic = monotonic
        self._breaker = Breaker(monotonic)
        self._adapter: Adapter | None = None
        self._server = shapes.Server()
        self._getting_ready = asyncio.Lock()
        # Raises when nothing may be written any more; asked before a write, and once more when its connection is there.
        self.fence: Callable[[], None] = lambda: None
        self.named: Callable[[str], None] = lambda _: None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Give back connections; a later call opens them again."""
        await self._transport.close()

    # --- reading -----------------------------------------------------------------------------------------------

    async def version(self) -> str:
        """The REST version in use, the newest in common."""
        return (await self._ready(PING)).version

    async def offers(self, feature: Feature) -> bool:
        """Whether the server has that call."""
        return feature in (await self._ready(PING)).offers

    async def release(self) -> str:
        """The Slurm release of the server, such as 26.05.5."""
        await self._ready(PING)
        return self._server.release

    async def ping(self) -> tuple[Ping, ...]:
        """How each slurmctld answers slurmrestd; asked for in any state of the breaker."""
        _, found = await self._ping()
        return found

    async def nodes(self, since: int | None = None) -> SlurmList[Node] | Unchanged:
        """All nodes; with `since` (a `last_update`), Unchanged when nothing happened after it."""
        return await self._list("nodes", wire.nodes, since)

    def nodes_due_in(self) -> float:
        """In how many seconds a list of nodes may be asked for: what the last lists have cost is paid for first."""
        return self._decoder.due_in(requests.read("nodes").path)

    async def all_nodes(self) -> SlurmList[Node]:
        """All nodes, without condition."""
        return await self._whole("nodes", wire.nodes)

    async def node(self, name: str) -> NodeView:
        """One node as Slurm itself reports it. Never raises for a line that is down: that is Unknown."""
        request = requests.read_one("node", name)
        try:
            return await self._call(request, lambda reply, call: wire.one_node(reply, name, call))
        except SlurmError as problem:
            return Unknown(str(problem))

    async def jobs(self, since: int | None = None) -> SlurmList[Job] | Unchanged:
        """All jobs; with `since`, Unchanged when nothing happened after it."""
        return await self._list("jobs", wire.jobs, since)

    async def all_jobs(self) -> SlurmList[Job]:
        """All jobs, without condition."""
        return await self._whole("jobs", wire.jobs)

    async def job_states(self) -> SlurmList[JobState]:
        """The states of all jobs: a few bytes for each, where a list of jobs is kilobytes."""
        return await self._call(requests.read_job_states(), wire.job_states)

    async def job(self, job_id: int) -> JobView:
        """One job as Slurm itself reports it. Absent only when Slurm says that it has none; any failure is Unknown."""
        request = requests.read_one("job", str(job_id))
        try:
            return await self._call(request, lambda reply, call: wire.one_job(reply, job_id, call))
        except SlurmError as problem:
            is_absence = isinstance(problem, SlurmNotFound) and problem.number == JOB_NOT_FOUND_CODE
            return Absent() if is_absence else Unknown(str(problem))

    async def partitions(self, since: int | None = None) -> SlurmList[Partition] | Unchanged:
        """All partitions; with `since`, Unchanged when nothing happened after it."""
        return await self._list("partitions", wire.partitions, since)

    async def all_partitions(self) -> SlurmList[Partition]:
        """All partitions, without condition."""
        return await self._whole("partitions", wire.partitions)

    async def reservations(self, since: int | None = None) -> SlurmList[Reservation] | Unchanged:
        """All reservations; with `since`, Unchanged when nothing happened after it."""
        return await self._list("reservations", wire.reservations, since)

    async def all_reservations(self) -> SlurmList[Reservation]:
        """All reservations, without condition."""
        return await self._whole("reservations", wire.reservations)

    async def diag(self) -> Diag:
        """slurmctld's own statistics."""
        return await self._call(DIAG, wire.diag)

    async def conf(self) -> dict[str, Any]:
        """The configuration that slurmctld runs with."""
        found = await self._call(requests.read("conf", needs=Feature.CONF), _read_as(shapes.Conf))
        if found.slurm_conf is None:
            raise SlurmBadAnswer("the response has no slurm_conf", call="GET conf")
        return found.slurm_conf

    # --- writing -----------------------------------------------------------------------------------------------

    async def write(self, request: Request) -> Written:
        """The one door for changes. Sent once: repeated only where the server refused it unread (token, version)."""
        return await self._call(request, _written)

    async def update_nodes(self, names: Iterable[str], change: NodeChange) -> Written:
        """Change many nodes in one call; SlurmNotFound when one is missing, but the others are changed."""
        return await self.write(requests.update_nodes(names, change))

    async def drain(self, names: Iterable[str], why: str) -> Written:
        """Take nodes out of service, with a reason that is recognised as ours."""
        return await self.update_nodes(names, NodeChange(state="DRAIN", reason=why))

    async def undrain(self, names: Iterable[str]) -> Written:
        """Put nodes back into service. Whose drain it is has been checked by the plan."""
        return await self.update_nodes(names, NodeChange(state="UNDRAIN"))

    async def delete_node(self, name: str) -> Written:
        """Remove a node record; SlurmBusy while jobs run on it. A suspended job does not stop Slurm: see policy."""
        return await self.write(requests.delete_node(name))

    async def delete_nodes(self, names: Iterable[str]) -> None:
        """Remove node records, a range of names in a call; one that is gone is as good as removed.

        A record that is in use stays, and is an error once everything else has gone.
        """
        busy: SlurmBusy | None = None
        for request in requests.delete_nodes(names):
            # Whatever else is in the range has been removed.
            try:
                await self.write(request)
            except SlurmNotFound:
                continue
            except SlurmBusy as error:
                busy = busy or error
        if busy is not None:
            raise busy

    async def set_partition(self, change: PartitionChange) -> Written:
        """Create or change a partition live (REST v0.0.45)."""
        return await self.write(requests.set_partition(change))

    async def delete_partition(self, name: str) -> Written:
        """Remove a partition live (REST v0.0.45); SlurmBusy while it is in use."""
        return await self.write(requests.delete_partition(name))

    async def set_reservation(self, change: ReservationChange) -> Written:
        """Create or change a reservation (REST v0.0.43)."""
        return await self.write(requests.set_reservation(change))

    async def delete_reservation(self, name: str) -> Written:
        """Remove a reservation (REST v0.0.43)."""
        return await self.write(requests.delete_reservation(name))

    async def submit(self, job: JobSubmission) -> int:
        """Submit a batch job; gives its id."""
        written = await self.write(requests.submit_job(job))
        return wire.read(written.reply, shapes.Submitted, call="POST job/submit").job_id

    async def cancel(self, job_id: int) -> None:
        """Cancel a job. One that is over already, or unknown, is as good as cancelled."""
        written = await self.write(requests.cancel_job(job_id))
        for status in wire.read(written.reply, shapes.Cancelled, call="DELETE job").status:
            if status.error.code not in {0, JOB_NOT_FOUND_CODE, ALREADY_DONE_CODE}:
                raise errors.from_number(status.error.code, status.error.message, call="DELETE job", status=200)

    async def reconfigure(self) -> Written:
        """Make slurmctld read its files again. Pending jobs stall afterwards: see `wake_scheduler`."""
        return await self.write(requests.reconfigure())

    async def wake_scheduler(self, partition: Partition) -> Written:
        """Say again what the partition's state is: a change of nothing that makes Slurm look at its queue now."""
        state = next((known for known in PARTITION_STATES if known in partition.states), None)
        return await self.set_partition(PartitionChange(name=partition.name, state=state))

    # --- the way of one call -----------------------------------------------------------------------------------

    async def _whole(self, what: str, reader: Reader[SlurmList[T]]) -> SlurmList[T]:
        return await self._call(requests.read(what), reader)

    async def _list(self, what: str, reader: Reader[SlurmList[T]], since: int | None) -> SlurmList[T] | Unchanged:
        if since is None:
            return await self._whole(what, reader)
        request = requests.read(what, since=since)
        try:
            return await self._call(request, lambda reply, call: _changes(reply, reader, call))
        except SlurmError as problem:
            if self._adapter is None or problem.number not in self._adapter.ask_for_all_on:
                raise
        return await self._whole(what, reader)

    async def _call(self, request: Request, reader: Reader[T]) -> T:
        """Ready, ask, and once more where the server turned out to be another one."""
        adapter = await self._ready(request)
        try:
            return await self._ask(adapter, request, reader)
        except SlurmUnsupported as problem:
            if problem.status != 404:
                raise
            if await self._negotiate() == adapter:
                # The server still speaks that version, which has the call: somebody on the way lost it.
                text = "slurmrestd has this call, but the answer was 404"
                raise SlurmBadAnswer(text, call=request.label, status=404) from problem
        return await self._ask(await self._ready(request), request, reader)

    async def _ready(self, request: Request) -> Adapter:
        """The adapter to use, once slurmctld is known to answer; at most one caller finds out at a time."""
        async with self._getting_ready:
            if self._breaker.needs_ping(request.label, is_read=_is_read(request)):
                await self._check_controller()
            return self._adapter or await self._negotiate()

    async def _ping(self) -> tuple[Adapter, tuple[Ping, ...]]:
        """A ping in the version that the server speaks now: it may have been up- or downgraded."""
        adapter = self._adapter or await self._negotiate()
        try:
            server, found = await self._ask(adapter, PING, wire.pings)
            same = server.release == self._server.release
        except SlurmUnsupported:
            same, found = False, ()
        if not same:
            adapter = await self._negotiate()
            _, found = await self._ask(adapter, PING, wire.pings)
        return adapter, found

    async def _check_controller(self) -> None:
        adapter, found = await self._ping()
        if any(ping.responding for ping in found):
            self._breaker.good()
            return
        states = "; ".join(f"{ping.hostname} {ping.status}".strip() for ping in found) or "no controller named"
        if not adapter.ping_has_reason or "authentication" in states.lower():
            await self._diagnose(adapter)
        else:
            self._fail(SlurmUnreachable(f"slurmctld does not answer ({states})", call=PING.label))

    async def _diagnose(self, adapter: Adapter) -> None:
        """A ping with a refused token looks like a dead controller: another call tells them apart."""
        try:
            await self._ask(adapter, DIAG, wire.diag, seconds=self._seconds.diagnosis)
        except SlurmUnauthorized:
            raise
        except SlurmError as problem:
            self._fail(SlurmUnreachable(f"slurmctld does not answer ({problem.text})", call=PING.label))
        else:
            self._breaker.good()

    def _fail(self, problem: SlurmUnreachable) -> None:
        self._breaker.bad(problem.text)
        raise problem

    async def _negotiate(self) -> Adapter:
        """Find the newest version in common, newest first: a ping under an unknown version costs a millisecond."""
        self._adapter = None
        for adapter in NEWEST_FIRST:
            try:
                self._server, _ = await self._ask(adapter, PING, wire.pings)
            except SlurmUnsupported as problem:
                if problem.status != 404:
                    raise
                continue
            self._adapter = adapter
            self._pin(self._server.cluster)
            return adapter
        supported = f"{NEWEST_FIRST[-1].version} to {NEWEST_FIRST[0].version}"
        raise SlurmUnsupported(
            f"the server has none of REST {supported}: Slurm {NEWEST_FIRST[-1].slurm} or newer is needed"
        )

    def _pin(self, name: str) -> None:
        if name and not self._cluster:
            self._cluster = name
            self.named(name)

    async def _ask(self, adapter: Adapter, request: Request, reader: Reader[T], *, seconds: float | None = None) -> T:
        """Send and read; with a new token once more when the first was refused."""
        sending = self._sending(adapter, request, seconds)
        try:
            return await self._exchange(sending, request, reader)
        except SlurmUnauthorized:
            self._token.discard()
        return await self._exchange(sending, request, reader)

    async def _exchange(self, sending: Sending, request: Request, reader: Reader[T]) -> T:
        if request.large:
            await self._decoder.admit(request.path, is_usually_small=request.is_usually_small)
        began, outcome, failure, reading = self._monotonic(), "ok", None, Reading()
        try:
            found = await self._decode(await self._received(sending, request, reading), reader, request.label, reading)
        except SlurmError as problem:
            outcome, failure = problem.reason, problem
            if isinstance(problem, SlurmUnreachable):
                self._breaker.bad(problem.text)
            raise
        except BaseException as problem:
            outcome = type(problem).__name__
            raise
        else:
            if request is not PING:
                self._breaker.answered()
            return found
        finally:
            self._decoder.close(reading, request.path, failure)
            self._observe(Observation(request.label, outcome, self._monotonic() - began))

    async def _received(self, sending: Sending, request: Request, reading: Reading) -> Reply:
        """The reply; a long list is read as it comes, beside the event loop, and never held as a whole."""
        streamed = wire.streamed(request.path) if request.large else None
        if streamed is None:
            return await self._patiently(sending, request)

        async def feed(piece: bytes) -> None:
            await self._decoder.feed(reading, streamed.feed, piece, request.label)

        reply = await self._patiently(msgspec.structs.replace(sending, feed=feed), request)
        if not streamed.started:
            return reply
        return msgspec.structs.replace(reply, body=streamed.close(request.label), streamed=streamed)

    async def _decode(self, reply: Reply, reader: Reader[T], label: str, reading: Reading) -> T:
        expected = msgspec.structs.replace(reply, cluster=self._cluster)
        if len(reply.body) <= self._decoder.inline_bytes:
            return reader(expected, label)
        return await self._decoder.run(reading, reader, expected, label)

    async def _patiently(self, sending: Sending, request: Request) -> Reply:
        """Wait as long as slurmctld is alive: slurmrestd would wait ten seconds for one that died meanwhile."""
        if sending.fence is not None:
            sending.fence()
        call = asyncio.ensure_future(self._transport.send(sending, self._token.current()))
        try:
            if request in (PING, DIAG):
                return await call
            while not (await asyncio.wait({call}, timeout=self._seconds.patience))[0]:
                if await self._is_dead():
                    raise SlurmUnreachable(
                        "slurmctld died during the call; the call may still have taken effect", call=request.label
                    )
            return await call
        finally:
            call.cancel()

    async def _is_dead(self) -> bool:
        """Only a ping that says so counts; without an answer the call's own time limit decides."""
        if self._adapter is None:
            return False
        sending, reading = self._sending(self._adapter, PING, None), Reading()
        try:
            reply = await self._transport.send(sending, self._token.current())
            _, found = await self._decode(reply, wire.pings, PING.label, reading)
        except SlurmError:
            return False
        finally:
            self._decoder.close(reading, PING.path, None)
        return not any(ping.responding for ping in found)

    def _sending(self, adapter: Adapter, request: Request, seconds: float | None) -> Sending:
        usual = self._seconds.large if request.large else self._seconds.call
        return Sending(
            method=request.method,
            path=adapter.path(request),
            label=request.label,
            query=request.query,
            body=None if request.body is None else msgspec.json.encode(request.body),
            seconds=seconds or (self._seconds.ping if request is PING else usual),
            max_bytes=LIST_RESPONSE_BYTES if request.large and request not in (PING, DIAG) else RESPONSE_BYTES,
            fence=None if _is_read(request) else self.fence,
        )


def _is_read(request: Request) -> bool:
    return request.method == "GET" and request.path != RECONFIGURE.path


def _changes(reply: Reply, reader: Reader[SlurmList[T]], call: str) -> SlurmList[T] | Unchanged:
    """304 means unchanged; for jobs Slurm says it with an empty list of the year 1970."""
    if reply.status == 304:
        return Unchanged()
    answer = reader(reply, call)
    return Unchanged() if not answer.items and answer.last_update == 0 else answer


def _read_as(shape: type[E]) -> Reader[E]:
    return lambda reply, call: wire.read(reply, shape, call=call)


def _written(reply: Reply, call: str) -> Written:
    answer = wire.read(reply, shapes.Envelope, call=call)
    return Written(reply, wire.warnings(answer))
