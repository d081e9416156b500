"""What can go wrong at the door to Slurm. In: an HTTP status and Slurm's error number. Out: one typed error.

    OperatorError
    ├── Retryable
    │   ├── SlurmUnreachable       no word from slurmctld: no route, refused, reset, down, or the breaker is open
    │   │   └── SlurmTimeout       no answer in time; a write may or may not have been done
    │   ├── SlurmUnauthorized      the token was refused: other key, expired, clocks apart
    │   ├── SlurmBadAnswer         not an answer of slurmrestd: cut off, HTML, wrong type
    │   │   └── SlurmBudgetExceeded  an answer above a budget: bytes, items, names, depth
    │   ├── SlurmWrongCluster      an answer of another cluster; nothing in it is believed
    │   ├── SlurmBusy              in use now: jobs on the node, partition in use, reservation active
    │   ├── SlurmNotFound          Slurm does not know that name (yet)
    │   └── SlurmFailed            Slurm said no with a number that has no other place here
    └── Terminal
        ├── SlurmRejected          the request itself is wrong: value, state, field
        ├── SlurmForbidden         this user may not do that
        └── SlurmUnsupported       the server's REST version has no such call

Every leaf is also a `SlurmError`: it knows the call, the HTTP status and Slurm's number, and never a token or key.
Raised by `transport.py` and `client.py`.
"""

from __future__ import annotations

import re
from typing import ClassVar, Self

from kube_runtime.errors import OperatorError, Retryable, Terminal
from kube_runtime.text import printable

MAX_TEXT_CHARACTERS = 300
# Of a longer text nothing further is looked at.
MAX_SEEN_CHARACTERS = 10_000
_TOKEN = re.compile(r"eyJ[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+){0,2}")


class SlurmError(OperatorError):
    """Any failure at the door to Slurm."""

    reason: ClassVar[str] = "SlurmError"

    def __init__(self, text: str, *, call: str = "", status: int = 0, number: int = 0) -> None:
        super().__init__(f"{call}: {text}" if call else text)
        self.text = text
        self.call = call
        self.status = status
        self.number = number

    def again(self) -> Self:
        """The same failure once more, without the frames of the first, which hold what had been read."""
        twin = type(self).__new__(type(self))
        twin.args = self.args
        twin.__dict__.update(self.__dict__)
        return twin


class SlurmUnreachable(SlurmError, Retryable):
    """No word from slurmctld."""

    reason: ClassVar[str] = "SlurmUnreachable"


class SlurmTimeout(SlurmUnreachable):
    """No answer in time; a write may have been done all the same."""

    reason: ClassVar[str] = "SlurmTimeout"


class SlurmUnauthorized(SlurmError, Retryable):
    """The token was refused, also after a new one was made."""

    reason: ClassVar[str] = "SlurmUnauthorized"


class SlurmBadAnswer(SlurmError, Retryable):
    """What came back is not an answer of slurmrestd."""

    reason: ClassVar[str] = "SlurmBadAnswer"


class SlurmBudgetExceeded(SlurmBadAnswer):
    """The response is larger than anything that a cluster of this size says."""

    reason: ClassVar[str] = "SlurmBudgetExceeded"

    def __init__(self, budget: str, found: str, limit: int, *, call: str = "") -> None:
        super().__init__(f"the response exceeds the budget of {limit:,} {budget}: it has {found}", call=call)
        self.budget = budget
        self.limit = limit


class SlurmWrongCluster(SlurmError, Retryable):
    """Another cluster answered at the address of this one."""

    reason: ClassVar[str] = "WrongCluster"

    def __init__(self, expected: str, found: str, *, call: str = "") -> None:
        other = f"cluster {shorten(found)!r}" if found else "a cluster without a name"
        super().__init__(
            f"the response is from {other}, not from cluster {shorten(expected)!r}: check which slurmctld"
            " the RestApi uses",
            call=call,
        )


class SlurmBusy(SlurmError, Retryable):
    """In use now; it may be possible later."""

    reason: ClassVar[str] = "SlurmBusy"


class SlurmNotFound(SlurmError, Retryable):
    """Slurm does not know that name; a node may still register."""

    reason: ClassVar[str] = "SlurmNotFound"


class SlurmFailed(SlurmError, Retryable):
    """Slurm said no, with a number that has no meaning of its own here."""

    reason: ClassVar[str] = "SlurmFailed"


class SlurmRejected(SlurmError, Terminal):
    """The request itself is wrong; only another request can help."""

    reason: ClassVar[str] = "SlurmRejected"


class SlurmForbidden(SlurmError, Terminal):
    """The user of the token may not do that."""

    reason: ClassVar[str] = "SlurmForbidden"


class SlurmUnsupported(SlurmError, Terminal):
    """The newest REST version in common with the server has no such call."""

    reason: ClassVar[str] = "SlurmUnsupported"


NO_ERROR = 0
ASK_FOR_ALL = -1

# Not 7000, slurmdbd has no connection to its database: slurmctld answers, and drains, without one.
_UNREACHABLE = {*range(1001, 1005), *range(1013, 1026), *range(1800, 1806), 2027, 2131, 5003, 5004, 5005}
_UNAUTHORIZED = {1007, *range(6000, 6012), 9008}
_BUSY = {2016, 2019, 2020, 2055, 2058, 2059, 2061, 2068, 2070, 2075, 2084, 2104, 2118, 2120, 7001}
_NOT_FOUND = {2000, 2017, 2018, 2053, 9003}
_FORBIDDEN = {2002, 2010, 2052}
_REJECTED = {
    *(2003, 2004, 2005, 2006, 2008, 2009, 2012, 2014, 2015, 2023, 2025, 2028, 2029, 2031, 2036, 2037, 2045),
    *(2051, 2054, 2057, 2063, 2066, 2069, 2072, 2080, 2081, 2082, 2111, 2115, 2116, 2119, 2122, 2123, 2124),
    *(2129, 2132, 2180, 9000, 9001, 9002, 9009),
    *range(9200, 9217),
}
KINDS: dict[int, type[SlurmError]] = {
    **dict.fromkeys(_UNREACHABLE, SlurmUnreachable),
    **dict.fromkeys(_UNAUTHORIZED, SlurmUnauthorized),
    **dict.fromkeys(_BUSY, SlurmBusy),
    **dict.fromkeys(_NOT_FOUND, SlurmNotFound),
    **dict.fromkeys(_FORBIDDEN, SlurmForbidden),
    **dict.fromkeys(_REJECTED, SlurmRejected),
}


def from_number(number: int, text: str, *, call: str, status: int) -> SlurmError:
    """The error for one of Slurm's own numbers (slurm_errno.h)."""
    kind = KINDS.get(number, SlurmFailed)
    return kind(f"{shorten(text)} (Slurm error {number})", call=call, status=status, number=number)


def from_status(status: int, text: str, *, call: str) -> SlurmError:
    """The error for an HTTP status whose body holds no error of Slurm."""
    message = f"HTTP {status}: {shorten(text)}" if text else f"HTTP {status}"
    if status in {401, 511}:
        return SlurmUnauthorized(f"the token was refused ({message})", call=call, status=status)
    if status == 403:
        return SlurmForbidden(message, call=call, status=status)
    if status in {408, 425, 429, 502, 503, 504}:
        return SlurmUnreachable(message, call=call, status=status)
    if status == 404:
        return SlurmUnsupported(f"the server has no such call ({message})", call=call, status=status)
    if 400 <= status < 500:
        return SlurmRejected(message, call=call, status=status)
    return SlurmFailed(message, call=call, status=status)


def shorten(text: str) -> str:
    """One printable line of bounded length without any token, whatever the server sent."""
    return printable(_TOKEN.sub("[token]", text[:MAX_SEEN_CHARACTERS]), MAX_TEXT_CHARACTERS)
