"""What a string may hold before it reaches slurm.conf, a command line, the environment, a drain reason or an eye.

In: a string of a custom resource. Out: None, or a sentence that says what is wrong. Called by `admission/rules` (to
refuse) and by `build` (when the webhook was bypassed), and by `plan/drains.py` for what a drain gives as its reason.
`printable` makes any foreign text safe to show: conditions, events, log lines, tables and terminals go through it.
The one place for these rules.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from kube_runtime.text import shown
from slurm_operator.api.meta import MAX_FILE_BYTES

MAX_VALUE_CHARACTERS = 8192
MAX_TEXT_CHARACTERS = MAX_FILE_BYTES
MAX_LINES = 25_000
MAX_CLUSTER_NAME_CHARACTERS = 40

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f\x80-\x9f\u2028\u2029\ufeff\ud800-\udfff]")
_LINE_BREAK = re.compile("[\n\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]")
# Slurm parts words at plain spaces only; what else looks like one would be read in two ways.
_ODD_SPACE = re.compile(r"[^\S ]")
_SHELL = re.compile(r"""['"`$\\;|&<>(){}!*?~]""")
# All of these are matched whole: `$` would let a line break pass at the end.
_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_DNS_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_SLURM_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*")
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_FILE = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_USER = re.compile(r"[A-Za-z_][A-Za-z0-9_.@-]*\$?")
_OPTION = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
_QUOTED = re.compile(r'"[^"]*"')


def one_line(text: str, max_characters: int = MAX_VALUE_CHARACTERS) -> str | None:
    """A text that must stay on its line, without comment, continuation or control signs."""
    if _LINE_BREAK.search(text):
        return "must be one line; a line break would start a line of its own"
    if _CONTROL.search(text) or _ODD_SPACE.search(text):
        return f"has a control character or an unusual space: {shown(text)}"
    if "#" in text:
        return "must not contain '#', which starts a comment"
    if "\\" in text:
        return "must not contain a backslash, which hides what follows it or joins the next line"
    if len(text) > max_characters:
        return f"is {len(text)} characters long; at most {max_characters} are allowed"
    return None


def config_value(text: str) -> str | None:
    """A value that stands behind `Key=` on a line of its own or among others."""
    problem = one_line(text)
    if problem:
        return problem
    if not text:
        return "must not be empty"
    if any(sign in text for sign in " \"'"):
        return f"must contain neither spaces nor quotes: {shown(text)}"
    return None


def config_text(text: str) -> str | None:
    """Lines of a configuration file that a user adds."""
    control = _CONTROL.search(text.replace("\r\n", "\n"))
    if control:
        return f"has the control character {shown(control[0])} in line {text.count(chr(10), 0, control.start()) + 1}"
    if text.rstrip().endswith("\\"):
        return "must not end in a backslash, which would join the operator's next line"
    if len(text) > MAX_TEXT_CHARACTERS:
        return f"is {len(text)} characters long; at most {MAX_TEXT_CHARACTERS} are allowed"
    if text.count("\n") > MAX_LINES:
        return f"has {text.count(chr(10))} lines; at most {MAX_LINES} are allowed"
    return None


def shell_quoted(text: str) -> str | None:
    """A text that reaches a command line which the image may expand once more."""
    problem = one_line(text)
    if problem:
        return problem
    found = _SHELL.search(text)
    return f"must not contain {shown(found[0])}, which a shell would act on" if found else None


def options(text: str) -> Iterator[tuple[str, str] | str]:
    """The `Key=Value` pairs of a line, and a sentence for each word that is none."""
    for option in text.split():
        key, sign, value = option.partition("=")
        if not sign or not value:
            yield f"{shown(option)} is not of the form Key=Value"
        elif not _OPTION.fullmatch(key):
            yield f"{shown(key)} is not an option name"
        elif '"' in value and not _QUOTED.fullmatch(value):
            yield f"{shown(option)} has a quote that does not enclose the whole value"
        else:
            yield key, value


def dns_label(text: str) -> str | None:
    """A name that becomes a host name or a label."""
    if len(text) > 63:
        return f"is {len(text)} characters long; at most 63 are allowed"
    if not _DNS_LABEL.fullmatch(text):
        return f"{shown(text)} is not a DNS label: lower-case letters, digits and dashes, such as node-1"
    return None


def dns_subdomain(text: str) -> str | None:
    """A name of a Kubernetes object."""
    if len(text) > 253:
        return f"is {len(text)} characters long; at most 253 are allowed"
    if not _DNS_SUBDOMAIN.fullmatch(text):
        return f"{shown(text)} is not a DNS name: lower-case letters, digits, dashes and dots"
    return None


def hostname_prefix(text: str) -> str | None:
    """The part of a host name before the ordinal; it may end in a dash."""
    return dns_label(text.rstrip("-")) if text.rstrip("-") else f"{shown(text)} has no letter or digit"


def slurm_name(text: str) -> str | None:
    """A name of a node set or partition in Slurm."""
    if not _SLURM_NAME.fullmatch(text) or len(text) > 255:
        return f"{shown(text)} is not a Slurm name: letters, digits, dots, dashes and underscores"
    return None


def cluster_name(text: str) -> str | None:
    """Slurm's ClusterName; it is also a folder and a table prefix."""
    if len(text) > MAX_CLUSTER_NAME_CHARACTERS:
        return f"{shown(text)} is {len(text)} characters long; Slurm allows {MAX_CLUSTER_NAME_CHARACTERS}"
    return slurm_name(text)


def host(text: str) -> str | None:
    """A host name or an address."""
    if not _HOST.fullmatch(text) or len(text) > 253:
        return f"{shown(text)} is neither a host name nor an address"
    return None


def file_name(text: str) -> str | None:
    """A key of a ConfigMap that becomes a file and stands in slurm.conf."""
    if not _FILE.fullmatch(text) or len(text) > 253:
        return f"{shown(text)} is not a plain file name: letters, digits, dots, dashes, underscores and plus signs"
    return None


def user_name(text: str) -> str | None:
    """A user that a token speaks for."""
    if not _USER.fullmatch(text) or len(text) > 256:
        return f"{shown(text)} is not a user name"
    return None
