"""One right that is missing, in the words of `kubectl auth can-i`.

In: what the API server says when it refuses something, or a request. Out: a `MissingRight`, or None where the refusal
is about something else (a quota, an admission rule). Pure. Used by `errors.py`, `denials.py` and
`kube_runtime/client/self_review.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote

import msgspec

# As the API server's authorization writes it; what follows (which role was not found) is for its own log.
_REFUSED = re.compile(
    r'(?: "(?P<name>[^"]*)")? is forbidden: User "(?P<user>[^"]*)" cannot (?P<verb>\w+) '
    r'resource "(?P<resource>[^"/]+)(?:/(?P<part>[^"]+))?" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_BLOCKS = "cannot set blockOwnerDeletion"
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update", "DELETE": "delete"}
_BY_NAME = ("get", "update", "patch", "delete")
# Where a shipped role may be for one object alone, so that a question without its name has another answer.
_NAMED = ("leases", "secrets", "validatingwebhookconfigurations")


class MissingRight(msgspec.Struct, frozen=True, order=True):
    """A verb on a resource; `namespace` is empty where the whole cluster is meant."""

    group: str
    resource: str
    verb: str
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""

    @property
    def can_i(self) -> str:
        """The command that asks whether the right is there."""
        kind = f"{self.resource}.{self.group}" if self.group else self.resource
        args = ["kubectl auth can-i", self.verb, f"{kind}/{self.name}" if self.name else kind]
        args += [f"--subresource={self.subresource}"] if self.subresource else []
        args += ["-n", self.namespace] if self.namespace else []
        args += [f"--as={self.user}"] if self.user else []
        return " ".join(args)

    @property
    def kind(self) -> tuple[str, str, str, str]:
        """The same right, whoever has it, wherever and on whichever object."""
        return self.group, self.resource, self.subresource, self.verb


class _Owner(msgspec.Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    block_owner_deletion: bool = False


class _Metadata(msgspec.Struct, frozen=True, rename="camel"):
    namespace: str = ""
    owner_references: tuple[_Owner, ...] = ()


class _Sent(msgspec.Struct, frozen=True):
    metadata: _Metadata = _Metadata()


def read(message: str, sent: bytes = b"") -> MissingRight | None:
    """The right that a refusal speaks of; `sent` is the body that was refused."""
    found = _REFUSED.search(message)
    if found is None:
        return next(of_owners(sent), None) if _BLOCKS in message else None
    verb, resource = found["verb"], found["resource"]
    name = found["name"] if verb in _BY_NAME and resource in _NAMED else None
    return MissingRight(
        found["group"],
        resource,
        verb,
        found["part"] or "",
        found["namespace"] or "",
        name or "",
        found["user"],
    )


def of_owners(sent: bytes) -> Iterator[MissingRight]:
    """Who blocks the deletion of an owner must be allowed to change its finalizers, where the cluster asks for that."""
    try:
        metadata = msgspec.json.decode(sent, type=_Sent).metadata
    except msgspec.MsgspecError:
        return
    for owner in metadata.owner_references:
        if owner.block_owner_deletion:
            group = owner.api_version.rpartition("/")[0]
            yield MissingRight(group, f"{owner.kind.lower()}s", "update", "finalizers", metadata.namespace)


def of_path(method: str, path: str, *, watch: bool = False) -> MissingRight:
    """The right that a request takes, by its path."""
    parts = [unquote(part) for part in path.strip("/").split("/")]
    group, rest = ("", parts[2:]) if parts[0] == "api" else (parts[1], parts[3:])
    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        namespace, rest = rest[1], rest[2:]
    resource, name, subresource = (*rest, "", "")[:3]
    reading = "watch" if watch else "get" if name else "list"
    verb = _VERBS.get(method, reading)
    return MissingRight(group, resource, verb, subresource, namespace)
