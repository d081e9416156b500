"""What a value in Slurm's configuration files may look like: one kind for each way in which Slurm reads it.

In: the text of a value and the Slurm version. Out: None, or a Complaint that says what is expected.
`conf_keys` gives every key its kind, `conf_lint` asks. A complaint is an error where Slurm refuses the file or
does real harm, a warning where it ignores the value and goes on.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from slurm_operator.slurm.conf import Severity
from slurm_operator.slurm.hostlist import HostListError, count

Version = tuple[int, int]

_NUMBER = re.compile(r"\+?(0[xX][0-9a-fA-F]{1,30}|0[0-7]{0,30}|[1-9][0-9]{0,30})([kK]?)\Z")
_DURATION = re.compile(r"[0-9]{1,9}(:[0-9]{1,9}){0,2}\Z|[0-9]{1,6}-([0-9]{1,9}(:[0-9]{1,9}){0,2})?\Z")
_SECONDS = re.compile(r"[0-9]{1,9}\Z")
_PORTS = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?\Z")
_DECIMAL = re.compile(r"\+?(?:[0-9]+\.?[0-9]*|\.[0-9]+)\Z")
_GRES_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")
_GRES_SPLIT = re.compile(r"[^A-Za-z0-9_-]+")
_GRES_NAMES = ("gpu", "mps", "shard", "nic")
# What Slurm reads as yes, in any case.
_YES = frozenset({"yes", "true", "up", "1"})
_WITHOUT_END = frozenset({"unlimited", "infinite"})
_VERSION = re.compile(r"(?:v|slurm-)?([0-9]{2})[.-]([0-9]{2})(?![0-9])")


def is_yes(value: str) -> bool:
    """Whether Slurm reads a boolean value as yes."""
    return value.lower() in _YES


class Complaint(msgspec.Struct, frozen=True):
    """Why a value is wrong."""

    message: str
    expected: str | None = None
    suggestion: str | None = None
    severity: Severity = "error"
    code: str = "BadValue"


class ValueType(Protocol):
    """Anything that can judge a value."""

    def check(self, value: str, version: Version | None, /) -> Complaint | None: ...


class Span(msgspec.Struct, frozen=True):
    """A name and the Slurm versions that know it."""

    name: str
    since: Version | None = None
    until: Version | None = None

    def objection(self, version: Version | None) -> str | None:
        """Why this version does not know the name; without a version every name is fine."""
        if version is not None and self.since is not None and version < self.since:
            return f"{self.name} needs Slurm {_dotted(self.since)} or newer, this is {_dotted(version)}"
        if version is not None and self.until is not None and version > self.until:
            return f"Slurm knows {self.name} only up to {_dotted(self.until)}, this is {_dotted(version)}"
        return None


def parse_version(text: str) -> Version | None:
    """(major, minor) of `26.05`, `25.11.2`, `v24.11` or `slurm-24-11-5-1`; None if it is none of them."""
    found = _VERSION.match(text)
    return (int(found[1]), int(found[2])) if found else None


def spans(text: str) -> list[Span]:
    """Read `name name>=25.05 name<=24.11`."""
    return [_span(given) for given in text.split()]


def _span(given: str) -> Span:
    rest, _, since = given.partition(">=")
    name, _, until = rest.partition("<=")
    return Span(name, parse_version(since), parse_version(until))


def closest(given: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant."""
    by_folded = {name.lower(): name for name in known}
    close = difflib.get_close_matches(given.lower(), by_folded, n=1, cutoff=0.7)
    return by_folded[close[0]] if close else None


def to_int(value: str) -> int | None:
    """The number that Slurm reads: decimal, 0x hexadecimal or 0 octal, `k` for 1024."""
    number = _NUMBER.match(value)
    if number is None:
        return None
    digits, kilo = number.groups()
    octal = digits[0] == "0" and digits[1:].isdigit()
    return int(digits, 8 if octal else 0) * (1024 if kilo else 1)


@dataclass(frozen=True, slots=True)
class Text:
    """Free text: Slurm, a plugin or a script judges it."""

    def check(self, _value: str, _version: Version | None, /) -> Complaint | None:
        return None


@dataclass(frozen=True, slots=True)
class Number:
    """An unsigned integer of 16, 32 or 64 bits. Outside low..high Slurm goes on with another value, or harms."""

    bits: int
    low: int = 0
    high: int | None = None
    refused: bool = False  # Slurm does not start with a value outside low..high

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if value.lower() in _WITHOUT_END:
            return None
        number = to_int(value)
        if number is None or (self.bits == 16 and value[-1] in "kK"):
            return Complaint(f"{value!r} is not a number that Slurm can read", self.expected())
        if number >= 2**self.bits:
            return Complaint(f"{value} is too large", self.expected())
        if number < self.low or (self.high is not None and number > self.high):
            return Complaint(f"{value} is out of range", self.expected(), None, "error" if self.refused else "warning")
        if number and value[0] == "0" and value[1:].isdigit():
            message = f"Slurm reads {value} as octal, that is {number}"
            return Complaint(message, None, value.lstrip("0"), "warning", "OctalNumber")
        return None

    def expected(self) -> str:
        return f"an integer from {self.low} to {self.high or 2**self.bits - 1}, or UNLIMITED"


@dataclass(frozen=True, slots=True)
class Decimal:
    """A number that may have a fraction."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if _DECIMAL.match(value):
            return None
        return Complaint(f"{value!r} is not a number", "a number like 100 or 97.5")


@dataclass(frozen=True, slots=True)
class YesNo:
    """A boolean: the eight words that Slurm knows."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if value.lower() in {"yes", "no", "up", "down", "true", "false", "1", "0"}:
            return None
        yes = value.lower() in {"y", "t", "on", "enable", "enabled"}
        no = value.lower() in {"n", "f", "off", "disable", "disabled"}
        return Complaint(f"{value!r} is neither yes nor no", "YES or NO", "YES" if yes else "NO" if no else None)


@dataclass(frozen=True, slots=True)
class Duration:
    """Minutes, [days-]hours:minutes:seconds, or no end."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if value.lower() in _WITHOUT_END or value == "-1" or _DURATION.match(value):
            return None
        return Complaint(
            f"{value!r} is not a time", "minutes, minutes:seconds, hours:minutes:seconds, days-hours or INFINITE"
        )


@dataclass(frozen=True, slots=True)
class Seconds:
    """Seconds or INFINITE, where Slurm takes any rubbish for 0."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if value.lower() in _WITHOUT_END or value == "-1" or _SECONDS.match(value):
            return None
        return Complaint(f"{value!r} is not a number of seconds", "seconds, or INFINITE")


@dataclass(frozen=True, slots=True)
class Choices:
    """One of some words, or a list of them; case does not matter, unless they are exact."""

    known: str
    many: bool = True
    severity: Severity = "error"
    separator: str = ","
    exact: bool = False
    _by_name: dict[str, Span] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {span.name.lower(): span for span in spans(self.known)})

    def check(self, value: str, version: Version | None, /) -> Complaint | None:
        for given in value.split(self.separator) if self.many else [value]:
            if complaint := self._check_one(given.strip(), version):
                return complaint
        return None

    def _check_one(self, given: str, version: Version | None) -> Complaint | None:
        if not given and self.many:
            return None
        span = self._by_name.get(given.lower())
        if span is None or (self.exact and span.name != given):
            names = [known.name for known in self._by_name.values() if not known.objection(version)]
            return Complaint(f"{given!r} is not known", ", ".join(names), closest(given, names), self.severity)
        objection = span.objection(version)
        return Complaint(objection, severity=self.severity, code="WrongVersion") if objection else None


@dataclass(frozen=True, slots=True)
class Plugin:
    """`family/name`, or a comma list. `bare`: the name alone will do. `is_open`: sites write their own."""

    family: str
    known: str
    many: bool = False
    bare: bool = False
    is_open: bool = False
    _by_name: dict[str, Span] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {span.name: span for span in spans(self.known)})

    def check(self, value: str, version: Version | None, /) -> Complaint | None:
        for given in value.split(",") if self.many else [value]:
            if complaint := self._check_plugin(given.strip(), version):
                return complaint
        return None

    def _check_plugin(self, given: str, version: Version | None) -> Complaint | None:
        family, slash, name = given.rpartition("/")
        if not slash and not self.bare and not (name == "none" and name in self._by_name):
            return Complaint(f"{given!r} lacks its plugin type", self._expected(version), f"{self.family}/{name}")
        if slash and family != self.family:
            guess = closest(f"{self.family}/{name}", self._names(version))
            return Complaint(f"{given!r} is not a {self.family} plugin", self._expected(version), guess)
        span = self._by_name.get(name)
        if span is None:
            guess = closest(f"{self.family}/{name}", self._names(version))
            severity: Severity = "warning" if self.is_open else "error"
            return Complaint(f"unknown plugin {given!r}", self._expected(version), guess, severity, "UnknownPlugin")
        objection = span.objection(version)
        return Complaint(objection, self._expected(version), code="WrongVersion") if objection else None

    def _names(self, version: Version | None) -> list[str]:
        return [f"{self.family}/{span.name}" for span in self._by_name.values() if not span.objection(version)]

    def _expected(self, version: Version | None) -> str:
        return ", ".join(self._names(version))


@dataclass(frozen=True, slots=True)
class FastSchedule:
    """A key that was removed: Slurm ignores it with 1, and stops with any other value."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if value == "1":
            return Complaint("Slurm ignores FastSchedule=1; remove the line", severity="warning", code="IgnoredKey")
        message = "FastSchedule was removed: Slurm does not start with it"
        successor = "SlurmdParameters=config_overrides" if value == "2" else None
        return Complaint(message, suggestion=successor, code="RemovedKey")


@dataclass(frozen=True, slots=True)
class GresNames:
    """Kinds of generic resources. A site may have its own, so a name near one of Slurm's is only warned of."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        for given in filter(None, (each.strip() for each in value.split(","))):
            if not _GRES_NAME.match(given):
                expected = "names separated by commas, such as gpu,mps"
                return Complaint(f"{given!r} is not a valid name of a resource", expected, _GRES_SPLIT.sub(",", given))
            guess = closest(given, _GRES_NAMES) if given not in _GRES_NAMES else None
            if guess:
                message = f"to Slurm, {given!r} is a different resource from {guess}"
                return Complaint(message, suggestion=guess, severity="warning")
        return None


@dataclass(frozen=True, slots=True)
class Pattern:
    """Text of a certain shape."""

    shape: str
    expected: str
    severity: Severity = "error"

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if re.fullmatch(self.shape, value, re.IGNORECASE):
            return None
        return Complaint(f"{value!r} is not in the expected form", self.expected, None, self.severity)


@dataclass(frozen=True, slots=True)
class Ports:
    """A TCP port or a range of them."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        ports = _PORTS.match(value)
        if ports and 1 <= int(ports[1]) <= int(ports[2] or ports[1]) <= 65535:
            return None
        return Complaint(f"{value!r} is not a port or a range of ports", "1-65535, like 6817 or 6817-6820")


@dataclass(frozen=True, slots=True)
class AbsolutePath:
    """A path; a relative one depends on where the daemon was started."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if value.startswith("/") or not value:
            return None
        return Complaint(f"{value!r} is not an absolute path", "/...", None, "warning", "RelativePath")


@dataclass(frozen=True, slots=True)
class Files:
    """Paths of devices, as a host list is written: /dev/nvidia[0-7]."""

    def check(self, value: str, version: Version | None, /) -> Complaint | None:
        """The list must expand, and its paths should be absolute."""
        complaint = Hosts().check(value, version)
        if complaint:
            return Complaint(complaint.message, "paths like /dev/nvidia0 or /dev/nvidia[0-7]", code="BadHostList")
        return AbsolutePath().check(value, version)


@dataclass(frozen=True, slots=True)
class Hosts:
    """A host list."""

    def check(self, value: str, _version: Version | None, /) -> Complaint | None:
        if not any(character in value for character in ",[]"):
            return None
        try:
            count(value)
        except HostListError as error:
            return Complaint(f"{error}", "names like n1 or n[1-8,12]", code="BadHostList")
        return None


def _dotted(version: Version) -> str:
    return f"{version[0]:02d}.{version[1]:02d}"
