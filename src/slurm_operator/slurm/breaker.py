"""The circuit breaker in front of slurmctld. In: what calls and pings met. Out: go, ping first, or fail at once.

slurmrestd lets a caller wait ten seconds for a dead slurmctld, but answers a ping in a millisecond. So a call goes
through only on the strength of a recent answer; after a failure all calls fail at once for a short time, then one
ping decides. While a call waits, `client.py` pings beside it and gives it up when that finds slurmctld dead, so a read
may rely on any answer of the last READ_TRUST_SECONDS; a change is made within TRUST_SECONDS of a ping. No I/O; the
clock is handed in. Used by `client.py`.
"""

from __future__ import annotations

from collections.abc import Callable

from slurm_operator.slurm.errors import SlurmUnreachable

TRUST_SECONDS = 1.0
# Longer than the time between two polls of one of two hundred clusters.
READ_TRUST_SECONDS = 45.0
# Whoever reads now and then pings too: a ping also tells that slurmrestd is another one.
PING_SECONDS = 60.0
FIRST_PAUSE_SECONDS = 1.0
MAX_PAUSE_SECONDS = 10.0


class Breaker:
    """Closed while answers are recent; open after a failure; half-open when the pause is over."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._trusted_until = float("-inf")
        self._answered_at = float("-inf")
        self._pinged_at = float("-inf")
        self._open_until = float("-inf")
        self._pause = FIRST_PAUSE_SECONDS
        self._why = ""

    def needs_ping(self, call: str, *, is_read: bool = False) -> bool:
        """Whether a ping must go first; raises while the breaker is open."""
        now = self._monotonic()
        if now < self._open_until:
            wait = self._open_until - now
            raise SlurmUnreachable(f"not asked again for {wait:.1f} s, since {self._why}", call=call)
        trusted_until = self._trusted_until
        if is_read:
            relied_on = min(self._answered_at + READ_TRUST_SECONDS, self._pinged_at + PING_SECONDS)
            trusted_until = max(trusted_until, relied_on)
        return now >= trusted_until

    def answered(self) -> None:
        """slurmctld answered a call."""
        self._answered_at = self._monotonic()

    def good(self) -> None:
        """slurmctld answered a ping."""
        self._answered_at = self._pinged_at = now = self._monotonic()
        self._trusted_until = now + TRUST_SECONDS
        self._open_until = float("-inf")
        self._pause = FIRST_PAUSE_SECONDS

    def bad(self, why: str) -> None:
        """slurmctld did not answer."""
        now = self._monotonic()
        self._trusted_until = self._answered_at = float("-inf")
        if now >= self._open_until:
            self._open_until = now + self._pause
            self._pause = min(2 * self._pause, MAX_PAUSE_SECONDS)
        self._why = why
