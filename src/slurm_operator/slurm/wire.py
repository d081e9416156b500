"""Slurm's JSON, read with care. In: status, content type and bytes of one reply. Out: model values, or a typed error.

Lists are read item by item: one item that cannot be read makes the answer incomplete, it does not take the others with
it. What an item must have is in `shapes.py`. Every response is held to budgets, and to the cluster that it should come
from. Called by `client.py`; pure.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from itertools import islice
from typing import Any, TypeVar

import msgspec

from slurm_operator.slurm import errors, hostlist, lenient, model, shapes
from slurm_operator.slurm.errors import SlurmBadAnswer, SlurmBudgetExceeded, SlurmWrongCluster
from slurm_operator.slurm.hostlist import EMPTY, HostList, HostListError
from slurm_operator.slurm.items import MAX_ITEM_BYTES, SMALL_ARRAY_BYTES, ItemTooLarge, ListStream, items
from slurm_operator.slurm.policy import is_over, states_are_over

T = TypeVar("T")
E = TypeVar("E", bound=shapes.Envelope)
Bytes = bytes | msgspec.Raw

# At 2.5 kB for a node and 5.5 kB for a job, more than this do not fit into the budget of bytes.
MAX_ITEMS = 30_000
# Each task of an array that waits is an item of 80 bytes in a list of states.
MAX_STATE_ITEMS = 300_000
# Host names in all lists of one response: 10,000 nodes with 128 jobs each are 1.3 million.
MAX_HOST_NAMES = 5_000_000
# What is kept of a text that decides nothing: many long ones must not fill the memory.
MAX_TEXT_CHARACTERS = 256
# Up to this length a host list is counted once and remembered: every list of partitions has it until its nodes change.
MAX_REMEMBERED_LIST_CHARACTERS = 128 * 1024
_RECORD_ID = re.compile(r"[_+]")
# Where an answer that was cut off ends differs each time, and a status that says so would be written each time.
_PLACE = re.compile(r" ?\(byte \d+\)")


class _TooManyItems(ValueError):
    """A list has more items than it may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(limit)
        self.limit = limit


class Streamed:
    """The items of a list that is read while it comes; what cannot be read is counted."""

    def __init__(self, name: str, convert: Callable[[Bytes], Any], max_items: int = MAX_ITEMS) -> None:
        self.found: list[Any] = []
        self.count = 0
        self.started = False
        self._max_items = max_items
        self._convert = convert
        self._stream = ListStream(name, self._take)

    def feed(self, piece: bytes, call: str) -> None:
        """The next piece of the body; raises a SlurmError."""
        self.started = True
        with _as_slurm_errors(call):
            self._stream.feed(piece)

    def close(self, call: str) -> bytes:
        """The body without the items."""
        with _as_slurm_errors(call):
            return self._stream.close()

    def _take(self, item: bytes) -> None:
        self.count += 1
        if self.count > self._max_items:
            raise _TooManyItems(self._max_items)
        item = lenient.as_utf8(item)
        try:
            self.found.append(self._converted(item))
        except (*lenient.UNREADABLE, HostListError):
            return

    def _converted(self, item: bytes) -> Any:
        try:
            return self._convert(item)
        except lenient.UNREADABLE:
            return self._convert(lenient.mended(item))


@contextmanager
def _as_slurm_errors(call: str) -> Iterator[None]:
    """What is wrong with a list, by its meaning."""
    try:
        yield
    except _TooManyItems as problem:
        raise SlurmBudgetExceeded("items", "more", problem.limit, call=call) from None
    except ItemTooLarge:
        raise SlurmBudgetExceeded("bytes of one item", "more", MAX_ITEM_BYTES, call=call) from None
    except RecursionError:
        raise SlurmBudgetExceeded("levels of nesting", "more", sys.getrecursionlimit(), call=call) from None
    except (msgspec.MsgspecError, ValueError) as problem:
        text = errors.shorten(_PLACE.sub("", str(problem)))
        raise SlurmBadAnswer(f"unreadable list: {text}", call=call) from None


class Reply(msgspec.Struct, frozen=True):
    """What came over the line, and of which cluster it must be ("": of any)."""

    status: int
    content_type: str
    body: bytes
    cluster: str = ""
    # The items of its list, where these were read as they came and are not in the body.
    streamed: Streamed | None = None


def read(reply: Reply, shape: type[E], *, call: str) -> E:
    """The answer in that shape; raises what the reply means otherwise."""
    if reply.status in {401, 511}:
        raise errors.from_status(reply.status, _error_text(reply), call=call)
    if not _is_json(reply):
        raise _no_json(reply, call)
    answer = _decoded(reply, shape, call)
    _check_identity(reply, answer.meta.slurm, call)
    _raise_errors(reply, answer, call)
    return answer


def _decoded(reply: Reply, shape: type[E], call: str) -> E:
    body = lenient.as_utf8(reply.body)
    try:
        try:
            answer = msgspec.json.decode(body, type=shape)
        except msgspec.DecodeError:
            answer = msgspec.json.decode(lenient.mended(body), type=shape)
        _ = answer.problems
    except RecursionError:
        raise SlurmBudgetExceeded("levels of nesting", "more", sys.getrecursionlimit(), call=call) from None
    except (msgspec.MsgspecError, ValueError) as problem:
        raise _unreadable(reply, str(problem), call) from None
    return answer


def _check_identity(reply: Reply, server: shapes.Server, call: str) -> None:
    """Before anything in the response is believed, also that something does not exist."""
    if not server.release:
        if reply.status != 200:
            raise errors.from_status(reply.status, "", call=call)
        raise SlurmBadAnswer("the response does not name its Slurm release: is this slurmrestd?", call=call)
    # Slurm writes its own name in small letters.
    if reply.cluster and server.cluster.lower() != reply.cluster.lower():
        raise SlurmWrongCluster(reply.cluster, server.cluster, call=call)


def _raise_errors(reply: Reply, answer: shapes.Envelope, call: str) -> None:
    found = answer.problems
    real = [e for e in found if e.error_number != errors.NO_ERROR]
    if reply.status in {502, 503, 504}:
        raise errors.from_status(reply.status, real[0].text() if real else "", call=call)
    if real:
        raise errors.from_number(real[0].error_number, real[0].text(), call=call, status=reply.status)
    if reply.status != 200:
        text = found[0].text() if found else ""
        raise errors.from_status(reply.status, text, call=call)


def warnings(answer: shapes.Envelope) -> tuple[str, ...]:
    """What Slurm warned about, as far as it can be read."""
    try:
        found = islice(items(answer.warnings), shapes.MAX_PROBLEMS)
        return tuple(errors.shorten(lenient.decode(each, shapes.Problem).text()) for each in found)
    except lenient.UNREADABLE:
        return ()


def _is_json(reply: Reply) -> bool:
    return reply.content_type.split(";")[0].strip().lower() == "application/json"


def _no_json(reply: Reply, call: str) -> errors.SlurmError:
    if reply.status != 200:
        return errors.from_status(reply.status, _error_text(reply), call=call)
    kind = errors.shorten(reply.content_type) or "nothing"
    return SlurmBadAnswer(f"expected application/json, got {kind}", call=call, status=reply.status)


def _unreadable(reply: Reply, problem: str, call: str) -> errors.SlurmError:
    if reply.status != 200:
        return errors.from_status(reply.status, "", call=call)
    return SlurmBadAnswer(f"unreadable JSON: {errors.shorten(_PLACE.sub('', problem))}", call=call, status=reply.status)


def _error_text(reply: Reply) -> str:
    text = reply.body[:1000].decode("utf-8", "replace")
    return "" if text.lstrip()[:1] in {"<", "{"} else text


def nodes(reply: Reply, call: str) -> model.SlurmList[model.Node]:
    """The list of nodes."""
    answer = read(reply, shapes.Nodes, call=call)
    return _without_contradictions(_list(answer, answer.nodes, _node, call, reply.streamed))


def _without_contradictions(answer: model.SlurmList[model.Node]) -> model.SlurmList[model.Node]:
    """Of two records under one name nobody knows which is true."""
    distinct = dict.fromkeys(answer.items)
    times = Counter(node.name for node in distinct)
    if len(times) == len(answer.items):
        return answer
    kept = tuple(node for node in distinct if times[node.name] == 1)
    whole = answer.complete and len(times) == len(distinct)
    return model.SlurmList(kept, complete=whole, last_update=answer.last_update)


def one_node(reply: Reply, name: str, call: str) -> model.NodeView:
    """What Slurm says about one node, by its own word."""
    answer = read(reply, shapes.Nodes, call=call)
    if answer.is_absence and not _has_items(answer.nodes):
        return model.Absent()
    found = _without_contradictions(_list(answer, answer.nodes, _node, call, reply.streamed))
    return model.view(name, model.SlurmList(found.items, complete=False))


def _has_items(array: msgspec.Raw) -> bool:
    try:
        return next(iter(items(array)), None) is not None
    except lenient.UNREADABLE:
        return False


def jobs(reply: Reply, call: str) -> model.SlurmList[model.Job]:
    """The list of jobs."""
    answer = read(reply, shapes.Jobs, call=call)
    found = _list(answer, answer.jobs, _job, call, reply.streamed)
    _check_names((len(job.nodes) for job in found.items), call)
    return found


def one_job(reply: Reply, job_id: int, call: str) -> model.JobView:
    """What Slurm says about one job; that it has none is an error of its own (2017)."""
    same = list(dict.fromkeys(job for job in jobs(reply, call).items if job.job_id == job_id))
    if sum(not is_over(job) for job in same) > 1:
        return model.Unknown(f"the response has several unfinished jobs {job_id}")
    # Of several records, one that is not over is the one to go by.
    return model.KnownJob(min(same, key=is_over)) if same else model.Unknown(f"the response describes no job {job_id}")


def job_states(reply: Reply, call: str) -> model.SlurmList[model.JobState]:
    """The states of all job records, each once; this list alone does not say how new it is."""
    answer = read(reply, shapes.JobStates, call=call)
    found, count = _states_at_once(answer.jobs) or _items(
        answer.jobs, _job_state, call, reply.streamed, MAX_STATE_ITEMS
    )
    # Every waiting task of an array is an item, all of one record.
    distinct = dict.fromkeys(found)
    times = Counter(each.job_id for each in distinct)
    kept = tuple(each for each in distinct if times[each.job_id] == 1)
    whole = len(found) == count and len(times) == len(distinct) and not answer.problems
    return model.SlurmList(kept, complete=whole)


def _states_at_once(array: msgspec.Raw) -> tuple[list[model.JobState], int] | None:
    """A short list without anything odd in it, at a fraction of the cost; None if it is not, or was read before."""
    if not 2 < len(memoryview(array)) <= SMALL_ARRAY_BYTES:
        return None
    try:
        found = [_as_state(each) for each in msgspec.json.decode(array, type=list[shapes.JobState])]
    except lenient.UNREADABLE:
        return None
    return found, len(found)


def _check_names(counts: Iterable[int], call: str) -> None:
    names = sum(counts)
    if names > MAX_HOST_NAMES:
        raise SlurmBudgetExceeded("host names", f"{names:,}", MAX_HOST_NAMES, call=call)


def partitions(reply: Reply, call: str) -> model.SlurmList[model.Partition]:
    """The list of partitions."""
    answer = read(reply, shapes.Partitions, call=call)
    found = _list(answer, answer.partitions, _partition, call, reply.streamed)
    _check_names((_count_names(each.nodes) for each in found.items), call)
    return found


def _count_names(text: str) -> int:
    """How many hosts a list of Slurm's names; one that is none of its lists is one word."""
    return _count_once(text) if len(text) <= MAX_REMEMBERED_LIST_CHARACTERS else _count_now(text)


def _count_now(text: str) -> int:
    try:
        return hostlist.count(text)
    except HostListError:
        return 1


@lru_cache(maxsize=64)
def _count_once(text: str) -> int:
    """Ten thousand nodes whose names follow no order are ten thousand ranges."""
    return _count_now(text)


def reservations(reply: Reply, call: str) -> model.SlurmList[model.Reservation]:
    """The list of reservations."""
    answer = read(reply, shapes.Reservations, call=call)
    found = _list(answer, answer.reservations, _reservation, call, reply.streamed)
    _check_names((len(each.nodes) for each in found.items), call)
    return found


def pings(reply: Reply, call: str) -> tuple[shapes.Server, tuple[model.Ping, ...]]:
    """Who answered, and how each controller did."""
    answer = read(reply, shapes.Pings, call=call)
    return answer.meta.slurm, _list(answer, answer.pings, _ping, call).items


def diag(reply: Reply, call: str) -> model.Diag:
    """slurmctld's statistics."""
    raw = read(reply, shapes.Diag, call=call).statistics
    try:
        found = lenient.decode(raw, shapes.Statistics)
    except lenient.UNREADABLE:
        raise SlurmBadAnswer("the answer has no statistics", call=call) from None
    return model.Diag(
        server_threads=found.server_thread_count,
        agent_queue=found.agent_queue_size,
        dbd_queue=found.dbd_agent_queue_size,
        jobs_running=found.jobs_running,
        jobs_pending=found.jobs_pending,
        jobs_submitted=found.jobs_submitted,
        jobs_completed=found.jobs_completed,
        since=found.req_time_start.seconds(),
    )


def streamed(path: str) -> Streamed | None:
    """A reader of the list at that path for a response that is on its way; None where there is none."""
    name = path.strip("/")
    if name == "jobs/state":
        return Streamed("jobs", _job_state, MAX_STATE_ITEMS)
    convert = _CONVERTERS.get(name)
    return Streamed(name, convert) if convert is not None else None


def _list(
    answer: shapes.Envelope,
    array: msgspec.Raw,
    convert: Callable[[Bytes], T],
    call: str,
    streamed: Streamed | None = None,
) -> model.SlurmList[T]:
    found, count = _items(array, convert, call, streamed)
    last = answer.last_update.seconds()
    whole = len(found) == count and last > 0 and not answer.problems
    return model.SlurmList(tuple(found), complete=whole, last_update=last)


def _items(
    array: msgspec.Raw,
    convert: Callable[[Bytes], T],
    call: str,
    streamed: Streamed | None = None,
    max_items: int = MAX_ITEMS,
) -> tuple[list[T], int]:
    """The items that can be read, and how many there are."""
    if bytes(memoryview(array)[:1]) != b"[":
        raise SlurmBadAnswer("the answer has no list", call=call)
    if streamed is not None:
        return streamed.found, streamed.count
    found: list[T] = []
    count = 0
    with _as_slurm_errors(call):
        for count, raw in enumerate(items(array), start=1):
            if count > max_items:
                raise _TooManyItems(max_items)
            with suppress(*lenient.UNREADABLE, HostListError):
                found.append(convert(raw))
    return found, count


def _node(raw: Bytes) -> model.Node:
    n = lenient.decode(raw, shapes.Node)
    return model.Node(
        name=n.name,
        states=_set_of(tuple(n.state)),
        reason=n.reason,
        reason_by=n.reason_set_by_user,
        reason_at=n.reason_changed_at.seconds(),
        features=tuple(n.features),
        active_features=tuple(n.active_features),
        comment=n.comment,
        extra=n.extra,
        topology=n.topology,
        partitions=tuple(n.partitions),
        cpus=n.cpus,
        alloc_cpus=n.alloc_cpus,
        real_memory=n.real_memory,
        alloc_memory=n.alloc_memory,
        gres=n.gres,
        gres_used=n.gres_used,
        address=n.address,
        hostname=n.hostname,
        port=n.port,
        reservation=n.reservation,
        weight=n.weight,
        last_busy=n.last_busy.seconds(),
        boot_time=n.boot_time.seconds(),
        slurmd_start_time=n.slurmd_start_time.seconds(),
        version=n.version,
    )


@lru_cache(maxsize=256)
def _set_of(states: tuple[str, ...]) -> frozenset[str]:
    """A thousand jobs in one state share it."""
    return frozenset(states)


def _hosts(text: str) -> HostList:
    return _short_hosts(text) if len(text) <= MAX_TEXT_CHARACTERS else HostList(text)


@lru_cache(maxsize=1024)
def _short_hosts(text: str) -> HostList:
    """A thousand jobs on one node share it."""
    return HostList(text)


def _required(raw: msgspec.Raw) -> HostList | None:
    """The nodes that a job must have; None if that list cannot be read, which does not make the response unreadable.

    They do not count towards the host names of a response: a user may require ten thousand nodes in each of many jobs,
    in a few bytes, and the names are never written out.
    """
    try:
        return _hosts(msgspec.json.decode(raw, type=shapes.HostText))
    except (*lenient.UNREADABLE, HostListError):
        return None


def _job(raw: Bytes) -> model.Job:
    j = lenient.decode(raw, shapes.Job)
    states = _set_of(tuple(j.job_state))
    return model.Job(
        job_id=j.job_id,
        name=j.name[:MAX_TEXT_CHARACTERS],
        user=j.user_name,
        account=j.account,
        partition=j.partition,
        qos=j.qos,
        states=states,
        state_reason=j.state_reason,
        nodes=EMPTY if states_are_over(states) else _hosts(msgspec.json.decode(j.nodes, type=shapes.HostText)),
        required=EMPTY if states_are_over(states) else _required(j.required_nodes),
        batch_host=j.batch_host[:MAX_TEXT_CHARACTERS] if j.batch_flag else "",
        submit_time=j.submit_time.seconds(),
        restarts=j.restart_cnt,
        start_time=j.start_time.seconds(),
        end_time=j.end_time.seconds(),
        time_limit=j.time_limit.limit(),
        reservation=j.resv_name,
        comment=j.comment[:MAX_TEXT_CHARACTERS],
        admin_comment=j.admin_comment[:MAX_TEXT_CHARACTERS],
    )


def _job_state(raw: Bytes) -> model.JobState:
    return _as_state(lenient.decode(raw, shapes.JobState))


def _as_state(j: shapes.JobState) -> model.JobState:
    # `7_3` is record 7, whatever array it is of; `7+1` is record 7 too.
    number = j.job_id if j.job_id.isdigit() else _RECORD_ID.split(j.job_id, maxsplit=1)[0]
    return model.JobState(int(number), _set_of(tuple(j.state)))


def _partition(raw: Bytes) -> model.Partition:
    p = lenient.decode(raw, shapes.Partition)
    shared = p.partition.oversubscribe
    return model.Partition(
        name=p.name,
        states=frozenset(p.partition.state),
        flags=None if p.flags is None else frozenset(p.flags),
        nodes=p.nodes.configured,
        node_sets=p.node_sets,
        total_nodes=p.nodes.total,
        max_time=p.maximums.time.limit(),
        default_time=p.defaults.time.limit(),
        grace_time=p.grace_time,
        max_nodes=_count(p.maximums.nodes),
        min_nodes=p.minimums.nodes if isinstance(p.minimums.nodes, int) else 0,
        max_cpus_per_node=p.maximums.cpus_per_node.limit(),
        max_cpus_per_socket=p.maximums.cpus_per_socket.limit(),
        over_time_limit=p.maximums.over_time_limit.limit(),
        priority_tier=p.priority.tier,
        priority_job_factor=p.priority.job_factor,
        preempt_mode=None if p.preempt_mode is None else tuple(p.preempt_mode),
        oversubscribe=shared if isinstance(shared, str) else None,
        exclusive=p.partition.exclusive,
        allowed_accounts=p.accounts.allowed,
        denied_accounts=p.accounts.deny,
        allowed_groups=p.groups.allowed,
        allowed_qos=p.qos.allowed,
        denied_qos=p.qos.deny,
        qos=p.qos.assigned,
        alternate=p.alternate,
        allowed_alloc_nodes=p.nodes.allowed_allocation,
        memory_per_cpu=p.defaults.partition_memory_per_cpu.limit(),
        memory_per_node=p.defaults.partition_memory_per_node.limit(),
        max_memory_per_cpu=p.maximums.partition_memory_per_cpu.limit(),
        max_memory_per_node=p.maximums.partition_memory_per_node.limit(),
        billing_weights=p.tres.billing_weights,
        job_defaults=p.defaults.job,
        topology=p.topology,
    )


def _count(value: shapes.Number | int) -> model.Limit:
    return value.limit() if isinstance(value, shapes.Number) else value


def _reservation(raw: Bytes) -> model.Reservation:
    r = lenient.decode(raw, shapes.Reservation)
    return model.Reservation(
        name=r.name,
        nodes=HostList(r.node_list),
        flags=frozenset(r.flags),
        users=_comma_list(r.users),
        accounts=_comma_list(r.accounts),
        partition=r.partition,
        start_time=r.start_time.seconds(),
        end_time=r.end_time.seconds(),
    )


def _comma_list(text: str) -> tuple[str, ...]:
    return tuple(item for item in text.split(",") if item)


def _ping(raw: Bytes) -> model.Ping:
    p = lenient.decode(raw, shapes.Ping)
    return model.Ping(
        hostname=p.hostname,
        responding=p.responding,
        primary=p.primary,
        latency=p.latency,
        status=p.status or p.pinged,
    )


_CONVERTERS: dict[str, Callable[[Bytes], Any]] = {
    "nodes": _node,
    "jobs": _job,
    "partitions": _partition,
    "reservations": _reservation,
}
