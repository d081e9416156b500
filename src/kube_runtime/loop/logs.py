"""Log lines that name their object and never a secret.

`setup_logging` is called once by the program. Code logs with the standard library; `log_fields` puts kind,
namespace, name, controller and reconcile id on every line written inside it, also in tasks started there.
A terminal gets a line for people, anything else gets one JSON object per line.
"""

from __future__ import annotations

import contextlib
import logging
import re
import sys
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Final, Literal, TextIO

import msgspec

_fields: ContextVar[Mapping[str, str]] = ContextVar("log_fields", default=MappingProxyType({}))

_STANDARD: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_MASK: Final = "***"
_SECRET_NAMES: Final = re.compile(r"(?i)(?:^|[-_.])(?:token|password|passwd|secret|authorization|jwt|private[-_]?key)$")
_SECRET_TEXT: Final = (
    # Header or key, then its value, in the shapes of HTTP, JSON, Python reprs and command lines.
    (
        re.compile(r"""(?i)(x-slurm-user-token(?:\\?["'])?\s*[:=,]\s*b?(?:\\?["'])?)[^\s"'\\,;)}\]]+"""),
        rf"\1{_MASK}",
    ),
    (re.compile(r"(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9._~+/-]{6,}=*"), rf"\1{_MASK}"),
    (re.compile(r"\beyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]{2,}(?:\.[A-Za-z0-9_-]*)?"), _MASK),
    (
        re.compile(r"-----BEGIN ([A-Z ]*PRIVATE KEY)-----.*?(?:-----END \1-----|\Z)", re.DOTALL),
        rf"-----\1 {_MASK}-----",
    ),
)
_COLOURS: Final = {"DEBUG": "2", "INFO": "32", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


@contextlib.contextmanager
def log_fields(**fields: str) -> Iterator[None]:
    """Every line logged inside carries these fields, on top of those from outside."""
    token = _fields.set({**_fields.get(), **fields})
    try:
        yield
    finally:
        _fields.reset(token)


def mask(text: str) -> str:
    """`text` without tokens and private keys."""
    for pattern, replacement in _SECRET_TEXT:
        text = pattern.sub(replacement, text)
    return text


def mask_value(name: str, value: object) -> object:
    """The loggable form of a field: plain data, secrets masked by their shape or by the field's name."""
    if _SECRET_NAMES.search(name) and value is not None:
        return _MASK
    if isinstance(value, Mapping):
        return {mask(str(key)): mask_value(str(key), item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [mask_value("", item) for item in value]
    if value is None or isinstance(value, bool | int | float):
        return value
    return mask(str(value))


def _message(record: logging.LogRecord) -> str:
    try:
        return mask(record.getMessage())
    except (TypeError, ValueError, KeyError):
        # A wrong format string loses its arguments, not the line and not the program.
        return mask(f"{record.msg} (arguments do not fit: {record.args!r})")


def _extras(record: logging.LogRecord) -> dict[str, object]:
    extras = {name: value for name, value in vars(record).items() if name not in _STANDARD}
    return {name: mask_value(name, value) for name, value in {**_fields.get(), **extras}.items()}


class _Formatter(logging.Formatter):
    def traceback(self, record: logging.LogRecord) -> str:
        parts = [self.formatException(record.exc_info)] if record.exc_info else []
        parts += [self.formatStack(record.stack_info)] if record.stack_info else []
        return mask("\n".join(parts))


class JsonFormatter(_Formatter):
    """One JSON object per line: time, level, logger, message, then the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        line |= {name: value for name, value in _extras(record).items() if name not in line}
        if trace := self.traceback(record):
            line["traceback"] = trace
        return msgspec.json.encode(line).decode()


class ConsoleFormatter(_Formatter):
    """A line for people: time, level, object, message, remaining fields; coloured on request."""

    def __init__(self, *, colour: bool) -> None:
        super().__init__()
        self._colour = colour

    def format(self, record: logging.LogRecord) -> str:
        extras = _extras(record)
        kind, namespace, name = (str(extras.pop(part, "")) for part in ("kind", "namespace", "name"))
        subject = f" {kind} {namespace}/{name}:".replace(" /", " ") if name else ""
        tail = "".join(f" {key}={value}" for key, value in extras.items())
        clock = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%S.%f")[:-3]
        level = f"{record.levelname:<7}"
        if self._colour:
            level = f"\033[{_COLOURS.get(record.levelname, '0')}m{level}\033[0m"
        trace = self.traceback(record)
        return f"{clock} {level}{subject} {_message(record)}{tail}" + (f"\n{trace}" if trace else "")


def setup_logging(
    level: str = "INFO",
    style: Literal["auto", "json", "console"] = "auto",
    stream: TextIO | None = None,
) -> logging.Handler:
    """Send the root logger's lines to `stream` (standard error), in place of what was set up before."""
    target = sys.stderr if stream is None else stream
    terminal = target.isatty()
    handler = logging.StreamHandler(target)
    human = style == "console" or (style == "auto" and terminal)
    handler.setFormatter(ConsoleFormatter(colour=terminal) if human else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level.upper())
    return handler
