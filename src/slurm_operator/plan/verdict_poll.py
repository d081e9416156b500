"""How often the logs of sidecars are read for their verdict on a candidate, what was read last, and when to nudge.

In: a candidate that pods were given, and the time. Out: a `VerdictPoll`: whether its time has come, how long a first
nudge may wait, and how often a silent pod should have been nudged by now. Frozen; made and judged by `plan/cluster.py`,
kept in its `ClusterMemory` by `reconcile/controller.py`; `reconcile/config.py` reads the logs by it, and
`reconcile/verdict_streams.py` follows them while it lasts. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

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

    @property
    def is_decided(self) -> bool:
        """Whether all have reported what became of it."""
        return bool(self.verdicts) and all(each and each.hash == self.hash for each in self.verdicts.values())

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
    if before is not None and (before.hash, before.pods) == (hash_, pods):
        return before
    overtook = before is not None and (before.overtook or before.hash != hash_)
    waits_since = before.waits_since if before is not None else None
    return VerdictPoll(hash_, pods, now, overtook=overtook, waits_since=waits_since)
