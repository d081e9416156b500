"""How often the logs of sidecars are read for their verdict on a candidate, what was read last, and when to nudge.

In: a candidate that pods were given, and the time. Out: a `VerdictPoll`: whether its time has come, how long a first
nudge may wait, and how often a silent pod should have been nudged by now. Frozen; made and judged by `plan/cluster.py`,
kept in its `ClusterMemory` by `reconcile/controller.py`; `reconcile/config.py` reads the logs by it, and
`reconcile/verdict_streams.py` follows them while it lasts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from slurm_operator.plan.config import ControllerPod, Verdict

LOG_POLL_SECONDS = 0.15
SLOW_POLL_SECONDS = 1.0
SELDOM_POLL_SECONDS = 10.0
# How long a log is read at each pace before nobody is thought to answer: (until that age, seconds between readings).
PACES = ((5.0, LOG_POLL_SECONDS), (60.0, SLOW_POLL_SECONDS))
# After so many seconds without a verdict a pod is nudged once more: its kubelet may have looked a moment too early.
NUDGE_AGAIN_SECONDS = (1.0, 5.0, 20.0, 60.0)
# So long a file waits for more when Slurm was told live: a kubelet that was nudged is deaf to the next nudge until its
# own list of containers is newer, up to a second, and a change that needs a reconfigure may follow.
LIVE_NUDGE_SECONDS = 0.3
# So long in all, where each change follows the one before too soon.
MAX_LIVE_NUDGE_SECONDS = 1.0
# So long after its nudge a sidecar that has nothing new to say of a candidate never saw another one since.
TAKE_UP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class VerdictPoll:
    """What the sidecars of some pods last said of one candidate."""

    # The candidate's hash, and the uids of the pods whose sidecar reports.
    hash: str
    pods: tuple[str, ...]
    since: float
    read_at: float = float("-inf")
    # By the uid of a pod.
    verdicts: Mapping[str, Verdict | None] = field(default_factory=dict)
    # Why a log may not be read.
    denied: str = ""
    # Whether another candidate was handed over just before: what was reported of this one then is not believed.
    overtook: bool = False
    # Whether their logs are followed as streams: a verdict wakes the reconcile, and the poll is only for lost ones.
    is_followed: bool = False
    # Since when pods are not nudged, as more may follow: since this candidate, or one before it. None: they were.
    waits_since: float | None = None
    # The pods whose sidecar had spoken of these very files before they were written once more, over another candidate:
    # what it says of them may be from then.
    doubted: frozenset[str] = frozenset()
    # When pods were nudged last.
    nudged_at: float | None = None

    @property
    def heard(self) -> Mapping[str, Verdict | None]:
        """What the sidecars have said of this candidate."""
        return {uid: None if self._is_from_before(uid) else verdict for uid, verdict in self.verdicts.items()}

    def _is_from_before(self, uid: str) -> bool:
        verdict = self.verdicts.get(uid)
        return uid in self.doubted and verdict is not None and verdict.hash == self.hash

    def still_doubted(self, now: float) -> frozenset[str]:
        """The pods whose word is still in doubt: they had no time yet, and have not spoken of another one meanwhile."""
        if self.nudged_at is not None and now - self.nudged_at >= TAKE_UP_SECONDS:
            return frozenset()
        return frozenset(uid for uid in self.doubted if not self.verdicts.get(uid) or self._is_from_before(uid))

    @property
    def is_decided(self) -> bool:
        """Whether all have reported what became of it."""
        heard = self.heard
        return bool(heard) and all(each and each.hash == self.hash for each in heard.values())

    def interval(self, now: float) -> float:
        """Seconds between readings: the longer nobody reports, the more."""
        pace = next((seconds for until, seconds in PACES if now - self.since < until), SELDOM_POLL_SECONDS)
        return max(pace, SLOW_POLL_SECONDS) if self.is_followed else pace

    def is_due(self, now: float, heard_at: float = float("-inf")) -> bool:
        """Whether the logs are to be read now: a verdict was heard since, or it is time.

        Nine tenths of it, so that a reconcile a little early need not come twice.
        """
        return heard_at >= self.read_at or now - self.read_at >= 0.9 * self.interval(now)

    def is_recent(self, now: float) -> bool:
        """Whether a sidecar may still be trying it."""
        return now - self.since < PACES[-1][0]

    def nudges(self, now: float) -> int:
        """How often a silent pod should have been nudged by now."""
        return 1 + sum(now - self.since >= each for each in NUDGE_AGAIN_SECONDS)

    def nudge_due_in(self, now: float) -> float:
        """For how many more seconds a pod need not be nudged, where Slurm was told live."""
        first = self.since if self.waits_since is None else self.waits_since
        return min(self.since + LIVE_NUDGE_SECONDS, first + MAX_LIVE_NUDGE_SECONDS) - now


def reporting(pods: Iterable[ControllerPod]) -> tuple[str, ...]:
    """The uids of the pods whose sidecar reports."""
    return tuple(pod.uid for pod in pods if pod.reports_verdicts)


def poll_of(hash_: str, pods: tuple[str, ...], before: VerdictPoll | None, now: float) -> VerdictPoll:
    """The poll for a candidate: the one before while it is the same candidate and the same pods, else a new one."""
    if before is None:
        return VerdictPoll(hash_, pods, now)
    if (before.hash, before.pods) == (hash_, pods):
        return before
    if before.hash == hash_:
        # What new pods have said is not known yet; what was owed to the others still is.
        return replace(before, pods=pods, since=now, read_at=float("-inf"), verdicts={}, denied="", is_followed=False)
    return VerdictPoll(
        hash_, pods, now, overtook=True, waits_since=before.waits_since, doubted=_spoken_of(hash_, before)
    )


def poll_over(there: VerdictPoll, hash_: str, pods: tuple[str, ...], now: float) -> VerdictPoll:
    """The poll for a candidate in the place of one that nobody waits for: ours, or of somebody who changed ours."""
    doubted = _spoken_of(hash_, there)
    return VerdictPoll(hash_, pods, now, overtook=bool(doubted), doubted=doubted)


def _spoken_of(hash_: str, poll: VerdictPoll) -> frozenset[str]:
    """The pods whose last word is on this configuration, not on the candidate of the poll: they may yet see that."""
    return frozenset(uid for uid, each in poll.verdicts.items() if each is not None and each.hash == hash_)
