"""The way to each cluster's Slurm: which slurmrestd, with which key, and its snapshot in this reconcile.

In: a Controller and the RestApis and Secrets of its namespace. Out: a client, kept while its address stays the same,
and a `NodeSnapshot`. What cannot be asked is Unknown with its reason, never an empty list. Reconciles that decide
nothing share one response; what changed in it wakes the resources that it concerns (`changed`, wired by
`operator.py`), and writes, each after one more look at its nodes. Called by the reconciles of Controllers and NodeSets,
by `polling.py`, and through `SlurmWriter` by `execute.py`.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeVar

import msgspec

from kube_runtime.clock import Clock
from kube_runtime.loop.queue import Key
from slurm_operator.api.controller import Controller
from slurm_operator.api.restapi import RestApi
from slurm_operator.build.refs import Refs
from slurm_operator.plan.drains import is_drained_by_us, may_drain, may_undrain
from slurm_operator.plan.ghosts import may_ask
from slurm_operator.plan.registration import left_down_by_its_pod
from slurm_operator.plan.workers import NOT_ASKED, READ_ONCE, NodeSnapshot
from slurm_operator.slurm import policy
from slurm_operator.slurm.client import Observation, SlurmClient
from slurm_operator.slurm.decision import NOTHING_DECIDED, Decision
from slurm_operator.slurm.errors import SlurmBusy, SlurmError, SlurmNotFound, SlurmUnreachable, SlurmWrongCluster
from slurm_operator.slurm.job_records import JobRecords
from slurm_operator.slurm.kept import kept
from slurm_operator.slurm.model import Absent, Job, Node, Partition, Reservation, SlurmList, Unknown
from slurm_operator.slurm.node_records import NodeRecords
from slurm_operator.slurm.one_by_one import ask_each
from slurm_operator.slurm.requests import Feature, NodeChange, PartitionChange, ReservationChange
from slurm_operator.slurm.shared import SEEN_MAX_AGE_SECONDS, Shared
from slurm_operator.slurm.token import TokenSource

# How old an answer about partitions may be for a reconcile that waits for nothing; most changes are our own.
PARTITIONS_MAX_AGE_SECONDS = 30.0
# How long one look, nodes and jobs together, may take before Slurm counts as silent: this, or PATIENCE_FACTOR times the
# slowest look, whichever is more, so that the status does not flip with every look; a slow one counts for less with
# each later list.
MIN_PATIENCE_SECONDS = 3.0
PATIENCE_FACTOR = 2.0
SLOWEST_DECAY_FACTOR = 0.9
COUNTDOWN = re.compile(r"not asked again for [0-9.]+ s, since ")

_LOOK = "look"
_POLL = "poll"

A = TypeVar("A")


Address = Callable[[RestApi], str]
Connect = Callable[["SlurmTarget", TokenSource, Clock], SlurmClient]
# Which nodes changed (None: any), and who noticed.
Changed = Callable[[frozenset[str] | None, Hashable], None]


@dataclass(frozen=True, slots=True)
class SlurmTarget:
    """Where a cluster's slurmrestd is, and which Slurm must be behind it."""

    address: str
    # The ClusterName that every answer has to carry; empty where nobody has written it down, nor has one answered yet.
    cluster_name: str = ""


def over_http(
    target: SlurmTarget, token: TokenSource, clock: Clock, observe: Callable[[Observation], None] = lambda _: None
) -> SlurmClient:
    """A client that speaks HTTP, and tells of each call."""
    return SlurmClient(target.address, token, cluster=target.cluster_name, observe=observe, monotonic=clock.monotonic)


@dataclass(slots=True)
class Cluster:
    """One Slurm and what it last said."""

    client: SlurmClient
    target: SlurmTarget
    key: bytes
    monotonic: Callable[[], float]
    changed: Changed = lambda _, __: None
    repartitioned: Callable[[], None] = lambda: None
    # A look and the write that follows from it are not to be parted by another write.
    writing: asyncio.Lock = field(default_factory=asyncio.Lock)
    # Whether partitions are changed live, as of the last list of them.
    supports_live_partitions: bool = False
    # The node that was asked for by name most recently.
    _asked_last: str = ""
    _every_job_at: float = float("-inf")
    _looks: Shared[NodeSnapshot] = field(init=False)
    _partitions: Shared[SlurmList[Partition] | Unknown] = field(init=False)
    # The last look that is for all, and the last one whose changes were told.
    _last: NodeSnapshot | None = None
    _told: NodeSnapshot | None = None
    _slowest_seconds: float = 0.0
    _listed_partitions: tuple[Partition, ...] | None = None
    _node_records: NodeRecords = field(init=False)
    _job_records: JobRecords = field(init=False)

    def __post_init__(self) -> None:
        self._node_records = NodeRecords(self.client, self.monotonic)
        self._job_records = JobRecords(self.client, self.monotonic)
        self._looks = Shared(self.monotonic, lambda found: found is self._last)
        self._partitions = Shared(self.monotonic)

    @property
    def nodes(self) -> SlurmList[Node] | None:
        """The last list of nodes; None where none has come, or none after a failure."""
        return self._node_records.listed

    @property
    def patience_seconds(self) -> float:
        """How long one look may take before it counts as silent."""
        return max(MIN_PATIENCE_SECONDS, PATIENCE_FACTOR * self._slowest_seconds)

    async def node_snapshot(
        self,
        decision: Decision = NOTHING_DECIDED,
        *,
        caller: Hashable = None,
        reservations: bool = False,
        waits: bool = True,
        workers: frozenset[str] | None = None,
        earlier: NodeSnapshot | None = None,
    ) -> NodeSnapshot:
        """Fetch a snapshot of Slurm; an unchanged list is an answer too.

        Nothing old is believed of what is decided, and a node of the decision that the list lacks is asked for by name
        if it is one of the `workers`: a record that has gone needs no confirmation. What `earlier` has of nodes, the
        snapshot that this very reconcile has fetched before, is not read again. Jobs that cannot be read for a decision
        are Unknown to its caller alone.
        Without one it may be what another reconcile fetched a moment ago, and records of jobs may be older; who does
        not even wait for a list that is on its way gets the one before.
        """
        known = earlier if earlier is not None and _has_nodes_of(earlier, decision) else None
        found = await self._asked(caller, decision, known, fresh=bool(decision), waits=waits)
        doubtful = decision.nodes if workers is None else decision.nodes & workers
        absent = await self._absent(doubtful, found.nodes)
        fresh = found.fresh if decision else NOTHING_DECIDED
        return replace(found, reservations=await self._reservations(reservations), absent=absent, fresh=fresh)

    def latest_snapshot(self) -> NodeSnapshot | None:
        """What the last look found, for whoever only reports on it and is woken by polls; None where that is old.

        None also where it found nothing: whoever reports it may be the first to find Slurm back.
        """
        found = self._looks.latest()
        return None if found is None or found.is_blind else found

    async def poll(self) -> None:
        """Ask what has changed, for those who do not ask themselves: `changed` wakes whom it concerns."""
        await self._asked(_POLL, NOTHING_DECIDED, fresh=True)

    def seconds_since_list(self) -> float:
        """How long ago Slurm was asked for all its nodes, whoever asked."""
        return self.monotonic() - self._node_records.asked_at

    def seconds_since_every_job(self) -> float:
        """How long ago every job was read anew."""
        return self.monotonic() - self._every_job_at

    def report_silence(self) -> None:
        """It is slow to answer: whoever reports on it may have to say so."""
        self.changed(None, _POLL)

    async def partitions(
        self, caller: Hashable = None, *, fresh: bool = False, max_age: float = SEEN_MAX_AGE_SECONDS
    ) -> SlurmList[Partition] | Unknown:
        """All partitions; `fresh` when something is decided by it, `max_age` when nothing is waited for."""
        found, _ = await self._partitions.get(caller, self._ask_partitions, fresh=fresh, max_age=max_age)
        return found

    async def _ask_partitions(self) -> SlurmList[Partition] | Unknown:
        try:
            answer = await self.client.all_partitions()
            live = await self.client.offers(Feature.PARTITIONS)
        except SlurmError as error:
            return unknown(error)
        is_same_way, self.supports_live_partitions = live == self.supports_live_partitions, live
        before, self._listed_partitions = self._listed_partitions, answer.items
        if before is not None and (before != answer.items or not is_same_way):
            self.repartitioned()
        return answer

    async def _asked(
        self,
        caller: Hashable,
        decision: Decision,
        known: NodeSnapshot | None = None,
        *,
        fresh: bool,
        waits: bool = True,
    ) -> NodeSnapshot:
        found, is_of_another = await self._looks.get(
            caller, lambda: self._look(decision, known, is_poll=caller == _POLL), fresh=fresh, waits=waits
        )
        if not is_of_another:
            await self._tell(caller)
        return found

    async def _tell(self, caller: Hashable) -> None:
        """Wake those for whom something has changed: what they come for is there by now."""
        before, now = self._told, self._last
        self._told = now
        if now is not None and (before is None or _content(before) != _content(now)):
            self.changed(changed_nodes(before, now), caller)
        if self._listed_partitions is not None:
            # Whoever looks at nodes looks at them too, so that what a hand changed is seen as soon.
            await self.partitions(_LOOK)

    async def _look(self, decision: Decision, known: NodeSnapshot | None, *, is_poll: bool) -> NodeSnapshot:
        now, listed_at = self.monotonic(), self._node_records.listed_at
        # Nodes first: a node that was drained then gets no job later, and one that it has already is in what follows.
        nodes = known.nodes if known is not None else await self._nodes(decision, is_poll=is_poll)
        read_at = known.nodes_read_at if known is not None else self.monotonic()
        undecided = _on(nodes, decision)
        if decision.every_job:
            self._every_job_at = self.monotonic()
        jobs = await self._jobs(undecided)
        times = (read_at, self.monotonic())
        if not isinstance(nodes, Unknown):
            # What is asked without a list says nothing about the next list.
            decay = SLOWEST_DECAY_FACTOR if self._node_records.listed_at != listed_at else 1.0
            self._slowest_seconds = max(self.monotonic() - now, decay * self._slowest_seconds)
        before, offers = self._last, await self._offers()
        jobs_before, nodes_before = (before.jobs, before.nodes) if before is not None else (READ_ONCE, READ_ONCE)
        has_read_all = known is None and self._node_records.has_read_all
        fresh = _widened(decision, nodes) if has_read_all and undecided else decision
        if known is not None:
            # It is still one list, also where a record must be missing in two.
            nodes_before, fresh = known.nodes_before, decision | _read_for(known)
        found = NodeSnapshot(nodes, jobs, NOT_ASKED, offers, None, jobs_before, nodes_before, fresh, *times)
        # The jobs of a decision may be too many to be read, which others do not need; and a poll that came since
        # `known` has newer nodes.
        is_for_asker = bool(decision) and found.lacks_only_jobs
        is_behind = known is not None and (before is None or before.nodes is not nodes)
        if not (is_for_asker or is_behind):
            self._last = found
        return found

    async def _nodes(self, decision: Decision, *, is_poll: bool) -> SlurmList[Node] | Unknown:
        try:
            return await self._node_records.read(decision, is_poll=is_poll)
        except SlurmError as error:
            return unknown(error)

    async def _jobs(self, decision: Decision) -> tuple[Job, ...] | Unknown:
        try:
            found = await self._job_records.read(decision)
        except SlurmError as error:
            # Whether Slurm answers at all, its nodes are to say.
            self._node_records.end_rest()
            return unknown(error)
        before = self._last.jobs if self._last is not None else READ_ONCE
        if isinstance(found, Unknown) or isinstance(before, Unknown):
            return found
        return kept(before, found, lambda job: job.job_id)

    async def _absent(self, doubtful: frozenset[str], nodes: SlurmList[Node] | Unknown) -> frozenset[str]:
        if isinstance(nodes, Unknown) or not doubtful:
            return frozenset()
        missing = sorted(doubtful - {node.name for node in nodes.items})
        # Those that came too late the last time are the first now.
        missing.sort(key=lambda name: name <= self._asked_last)
        views = await ask_each(self.client.node, missing, self.monotonic)
        self._asked_last = next((name for name in reversed(missing) if name in views), self._asked_last)
        return frozenset(name for name, view in views.items() if isinstance(view, Absent))

    async def _reservations(self, asked: bool) -> SlurmList[Reservation] | Unknown:
        if not asked:
            return NOT_ASKED
        try:
            return await self.client.all_reservations()
        except SlurmError as error:
            return unknown(error)

    async def _offers(self) -> frozenset[Feature]:
        try:
            return frozenset([each for each in Feature if await self.client.offers(each)])
        except SlurmError:
            return frozenset()

    async def drain(self, hosts: tuple[str, ...], why: str) -> object:
        """Let nodes take no new jobs, unless somebody else has drained them meanwhile."""
        async with self.writing:
            return await self._drain(hosts, why)

    async def _drain(self, hosts: tuple[str, ...], why: str) -> object:
        chosen = await self._still(hosts, may_drain)
        return await self._written(self.client.drain(chosen, why)) if chosen else None

    async def undrain(self, hosts: tuple[str, ...]) -> object:
        """Let nodes take jobs again, unless their drain has become somebody else's."""
        async with self.writing:
            return await self._undrain(hosts)

    async def _undrain(self, hosts: tuple[str, ...]) -> object:
        chosen = await self._still(hosts, may_undrain)
        return await self._written(self.client.undrain(chosen)) if chosen else None

    async def _still(self, hosts: tuple[str, ...], holds: Callable[[Node], bool]) -> tuple[str, ...]:
        return tuple(node.name for node in await self._node_records.read_now(hosts) if holds(node)) if hosts else ()

    async def read_now(self, hosts: tuple[str, ...]) -> tuple[Node, ...]:
        """The records of these nodes as they are at this moment."""
        return await self._node_records.read_now(hosts)

    async def update_nodes(self, names: tuple[str, ...], changes: Mapping[str, object]) -> object:
        """Change node records, all in the same way; a state only where it is still what our own pod left."""
        async with self.writing:
            chosen = await self._still(names, left_down_by_its_pod) if "state" in changes else names
            change = msgspec.convert(changes, NodeChange)
            return await self._written(self.client.update_nodes(chosen, change)) if chosen else None

    async def request_registration(self, hosts: tuple[str, ...]) -> None:
        """Make slurmctld ask these slurmds to register, as it does after every undrain.

        Until a slurmd answers, slurmctld holds back its launches, and forgets them at a reconfigure. Only a node that
        was drained gets no new jobs meanwhile: so a node in service is drained first, and one that we had drained is
        drained again.
        """
        async with self.writing:
            nodes = [node for node in await self._node_records.read_now(hosts) if may_ask(node)]
            drained_before = {node.name: node.reason for node in nodes if is_drained_by_us(node)}
            in_service = tuple(node.name for node in nodes if node.name not in drained_before)
            await self._drain(in_service, policy.REGISTRATION_REASON)
            await self._undrain(tuple(node.name for node in nodes))
            again = await self._still(tuple(drained_before), may_drain)
            for reason, names in _by_reason(again, drained_before).items():
                await self._written(self.client.drain(names, reason))

    async def delete_nodes(self, names: tuple[str, ...]) -> object:
        """Delete node records, unless their slurmds are back; one that is gone already counts as deleted.

        One that a job or a reservation holds by now stays, and does not keep workers from being created.
        """
        async with self.writing:
            chosen = await self._still(names, policy.may_be_forgotten)
            with suppress(SlurmBusy):
                return await self._written(self.client.delete_nodes(chosen)) if chosen else None
        return None

    async def set_reservation(self, change: ReservationChange) -> object:
        """Make or change a reservation."""
        return await self._written(self.client.set_reservation(change))

    async def delete_reservation(self, name: str) -> object:
        """Delete a reservation."""
        return await self._written(self.client.delete_reservation(name))

    async def set_partition(self, change: PartitionChange) -> object:
        """Make or change a partition live."""
        return await self._written(self.client.set_partition(change))

    async def delete_partition(self, name: str) -> object:
        """Delete a partition live; one that is gone is as good as deleted."""
        try:
            return await self._written(self.client.delete_partition(name))
        except SlurmNotFound:
            return None

    async def reconfigure(self) -> object:
        """Make slurmctld read its files again."""
        return await self._written(self.client.reconfigure())

    async def _written(self, write: Awaitable[object]) -> object:
        try:
            return await write
        finally:
            # Also when it failed: it may have been done nevertheless.
            self._looks.expire()
            self._partitions.expire()


def _on(nodes: SlurmList[Node] | Unknown, decision: Decision) -> Decision:
    """The part of a decision that still needs jobs: busy nodes are dropped, their workers stay anyway."""
    listed = {node.name: node for node in nodes.items} if decision.nodes and isinstance(nodes, SlurmList) else {}
    quiet = frozenset(name for name in decision.nodes if name in listed and not policy.is_busy(listed[name]))
    return replace(decision, nodes=quiet, every_holder=not decision.nodes <= listed.keys())


def _content(snapshot: NodeSnapshot) -> tuple[object, ...]:
    """What a snapshot has of nodes, jobs and calls. That a list is newer than the one before is no change."""
    nodes, others = snapshot.nodes, (snapshot.jobs, snapshot.offers)
    return (nodes, *others) if isinstance(nodes, Unknown) else (nodes.items, nodes.complete, *others)


def _has_nodes_of(earlier: NodeSnapshot, decision: Decision) -> bool:
    """Whether a snapshot has read the nodes of a decision: whoever decides about some needs no second list."""
    is_complete = isinstance(earlier.nodes, SlurmList) and earlier.nodes.complete
    return bool(decision) and bool(earlier.fresh) and is_complete and earlier.fresh.has_nodes_of(decision)


def _read_for(earlier: NodeSnapshot) -> Decision:
    """What may be decided by nodes that were read before; without their jobs, nothing."""
    nothing = isinstance(earlier.jobs, Unknown)
    return NOTHING_DECIDED if nothing else Decision(earlier.fresh.nodes, earlier.fresh.every_node)


def _widened(decision: Decision, nodes: SlurmList[Node] | Unknown) -> Decision:
    """What a full list that was read for a few nodes covers: a decision on any listed node.

    Jobs in unusual states were read too, a plainly running one shows on its node, and a stale record can only keep a
    worker.
    """
    if not decision or isinstance(nodes, Unknown):
        return decision
    return replace(decision, nodes=decision.nodes.union(node.name for node in nodes.items))


def changed_nodes(before: NodeSnapshot | None, now: NodeSnapshot) -> frozenset[str] | None:
    """The nodes whose records or jobs differ between two looks; None when it may be any of them."""
    if before is None or isinstance(before.nodes, Unknown) or isinstance(before.jobs, Unknown):
        return None
    if before.offers != now.offers:
        # What could not be told to Slurm before can be now.
        return None
    if isinstance(now.nodes, Unknown) or isinstance(now.jobs, Unknown):
        return None
    nodes = {node.name for node in _differing(before.nodes.items, now.nodes.items, lambda node: node.name)}
    differing = list(_differing(before.jobs, now.jobs, lambda job: job.job_id))
    if any(job.required is None for job in differing):
        # Each node was kept for it, since nobody knows which it requires.
        return None
    # A node that a job requires keeps its record as long as the job is there.
    lists = {hosts for job in differing for hosts in (job.nodes, job.required) if hosts is not None}
    known = {node.name for node in (*before.nodes.items, *now.nodes.items)}
    return frozenset(nodes.union(*(hosts.within(known) for hosts in lists)))


def _differing(before: Iterable[A], now: Iterable[A], key: Callable[[A], Hashable]) -> Iterator[A]:
    """What stands in one list and not in the other. Records are compared, not hashed, which costs far more."""
    left = {key(each): each for each in before}
    for each in now:
        other = left.pop(key(each), None)
        if other is None:
            yield each
        elif other != each:
            yield from (other, each)
    yield from left.values()


def unknown(error: SlurmError) -> Unknown:
    """What is known after an error: nothing, and why."""
    if isinstance(error, SlurmWrongCluster):
        return Unknown(shown(error), error.reason)
    return Unknown(shown(error))


def shown(error: SlurmError) -> str:
    """An error as a status shows it: the same words for the same trouble, or every look would be a write."""
    # Which call was the first to notice, and whether this one was even sent, changes from look to look.
    return COUNTDOWN.sub("", error.text if isinstance(error, SlurmUnreachable) else str(error))


@dataclass(slots=True)
class Clusters:
    """Every Slurm that this operator talks to."""

    address: Address
    clock: Clock
    connect: Connect = over_http
    # The Controller whose Slurm changed, which nodes, and who noticed.
    changed: Callable[[Key, frozenset[str] | None, Hashable], None] = lambda _, __, ___: None
    # The Controller whose partitions changed: by us, or behind our back.
    repartitioned: Callable[[Key], None] = lambda _: None
    # The Controller of a Slurm elsewhere whose name is known now.
    named: Callable[[Key], None] = lambda _: None
    # A Controller whose Slurm can be asked from now on.
    found: Callable[[Key], None] = lambda _: None
    # Raises when this process may not write any more.
    fence: Callable[[], None] = lambda: None
    # By Controller: its uid, since a namesake is another cluster, and its Slurm.
    _clusters: dict[Key, tuple[str, Cluster]] = field(default_factory=dict)
    _polled: set[Key] = field(default_factory=set)
    _closing: set[asyncio.Task[None]] = field(default_factory=set)
    # By the uid of a Controller that does not say which Slurm is its own: the name of the first that answered.
    _pinned: dict[str, str] = field(default_factory=dict)

    async def find(self, controller: Controller, restapis: list[RestApi], refs: Refs) -> Cluster | Unknown:
        """The Slurm of a Controller, or why it cannot be asked."""
        found = await self._find(controller, restapis, refs)
        self._set_polled(Key(controller.namespace, controller.name), not isinstance(found, Unknown))
        return found

    async def _find(self, controller: Controller, restapis: list[RestApi], refs: Refs) -> Cluster | Unknown:
        serving = [each for each in restapis if each.spec.controller_ref.name == controller.name]
        if not serving:
            return Unknown(f"there is no RestApi for Controller {controller.name!r}")
        ref = controller.jwt_key_ref
        key = refs.secrets.get(ref.name, {}).get(ref.key) if ref else None
        if not key:
            return Unknown(f"the JWT key of Controller {controller.name!r} is missing")
        oldest = min(serving, key=lambda each: (each.metadata.creation_timestamp or "", each.name))
        target = SlurmTarget(self.address(oldest), expected_name(controller))
        return await self._client(controller, target, key)

    async def _client(self, controller: Controller, target: SlurmTarget, jwt_key: bytes) -> Cluster:
        key, uid = Key(controller.namespace, controller.name), controller.metadata.uid
        owner, known = self._clusters.get(key, ("", None))
        if known is not None and known.target == target and owner == uid:
            known.key = jwt_key
            return known
        holder: list[Cluster] = []
        token = TokenSource(lambda: holder[0].key, now=lambda: self.clock.now().timestamp())
        if target.cluster_name:
            self._pinned.pop(uid, None)
        expected = self.name_of(controller)
        client = self.connect(replace(target, cluster_name=expected), token, self.clock)
        client.fence = self.fence
        client.named = lambda name: self._pin(key, uid, name)
        holder.append(
            Cluster(
                client,
                target,
                jwt_key,
                self.clock.monotonic,
                lambda names, caller: self.changed(key, names, caller),
                lambda: self.repartitioned(key),
            )
        )
        self._clusters[key] = (uid, holder[0])
        # After the new one has its place: whoever comes meanwhile must not make a third.
        if known is not None:
            await known.client.close()
        return holder[0]

    def _set_polled(self, key: Key, is_polled: bool) -> None:
        if not is_polled:
            self._polled.discard(key)
        elif key not in self._polled:
            self._polled.add(key)
            self.found(key)

    @property
    def polled_count(self) -> int:
        """How many Slurms can be asked."""
        return len(self._polled)

    def polled(self, key: Key) -> Cluster | None:
        """The Slurm of this Controller, if it can be asked."""
        _, cluster = self._clusters.get(key, ("", None))
        return cluster if key in self._polled else None

    def _pin(self, key: Key, uid: str, name: str) -> None:
        self._pinned[uid] = name
        self.named(key)

    def name_of(self, controller: Controller) -> str:
        """The ClusterName of every answer: as it is written down, or that of the first one, also to an operator before.

        Empty where no Slurm has answered yet.
        """
        name = expected_name(controller) or self._pinned.get(controller.metadata.uid, "")
        return name or controller.status.cluster_name or ""

    def forget(self, uid: str) -> None:
        """A Controller has gone: close the way to its Slurm, and drop all that was remembered of it."""
        self._pinned.pop(uid, None)
        for key in [key for key, (owner, _) in self._clusters.items() if owner == uid]:
            _, known = self._clusters.pop(key)
            self._polled.discard(key)
            closing = asyncio.ensure_future(known.client.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """Give back all connections."""
        for _, cluster in self._clusters.values():
            await cluster.client.close()
        self._clusters.clear()
        await asyncio.gather(*self._closing, return_exceptions=True)


def expected_name(controller: Controller) -> str:
    """The ClusterName as the resource says it. An external Slurm has the name that its own slurm.conf gives it."""
    return "" if controller.spec.external and not controller.spec.cluster_name else controller.cluster_name


def _by_reason(names: Iterable[str], reasons: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    found: dict[str, tuple[str, ...]] = {}
    for name in names:
        found[reasons[name]] = (*found.get(reasons[name], ()), name)
    return found
