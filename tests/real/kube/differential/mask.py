"""Takes out of a transcript what two honest servers may choose freely.

In: a `Transcript`. Out: plain JSON in which uids and resource versions are ranks, and times, addresses,
continue tokens and random name endings are placeholders. What is left must be equal. Called by `compare.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.real.kube.differential.play import Answer, Transcript

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
GENERATED = re.compile(r"(gen-\d+-)[a-z0-9]{5}\b")
TIME = re.compile(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
IP_ADDRESS = re.compile(r"^\d+\.\d+\.\d+\.\d+$")
VERSION_IN_TEXT = re.compile(
    r"(ResourceVersion in (?:the )?(?:precondition|record|object meta)\D{1,4}|resourceVersion\W{1,8})\d+"
)
STORAGE_KEY = re.compile(r"Key: [^,]*, ResourceVersion: \d+")
# Several problems come in the order of a Go map: the causes are sorted, the text that repeats them is cut.
PROBLEM_LIST = re.compile(r"(is invalid:|Apply failed with \d+ conflicts:).*", re.DOTALL)
ADDRESS_FIELDS = frozenset({"clusterIP", "clusterIPs", "nodePort", "healthCheckNodePort"})
CLAIM = "PersistentVolumeClaim"
AGE_COLUMNS = frozenset({"Age", "Created At"})


def shows_age(column: dict[str, Any]) -> bool:
    """Whether a column of a table counts seconds."""
    return column["type"] == "date" or column["name"] in AGE_COLUMNS


def objects_in(value: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Kind and metadata of every object that is anywhere in a JSON value."""
    if isinstance(value, dict):
        metadata = value.get("metadata")
        if isinstance(metadata, dict) and "uid" in metadata and "resourceVersion" in metadata:
            yield str(value.get("kind", "")), metadata
        for item in value.values():
            yield from objects_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from objects_in(item)


@dataclass(slots=True)
class Mask:
    """The replacements of one transcript: filled from all of it, then used on each part in order."""

    namespace: str
    per_object: bool  # the garbage collector may take unrelated objects in any order
    versions: dict[str, list[int]] = field(default_factory=dict)
    uids: dict[str, str] = field(default_factory=dict)
    claims: set[str] = field(default_factory=set)  # their versions are counted apart: see claim-rewrite

    def collect(self, answers: list[Answer]) -> None:
        """Learn all versions, so that each gets its place in the order."""
        seen: dict[str, set[int]] = {}
        found = [each for answer in answers for each in objects_in(answer.body)]
        self.claims = {metadata["uid"] for kind, metadata in found if kind == CLAIM}
        for _, metadata in found:
            seen.setdefault(self.order_of(metadata["uid"]), set()).add(int(metadata["resourceVersion"]))
        self.versions = {order: sorted(numbers) for order, numbers in seen.items()}

    def order_of(self, uid: str) -> str:
        """The name of the order that an object's versions belong to."""
        return uid if self.per_object or uid in self.claims else "all"

    def rank(self, metadata: dict[str, Any]) -> str:
        """A version as its place among all that were seen; a list has none of its own."""
        if "uid" not in metadata:
            return "<list>"
        order = self.versions.get(self.order_of(metadata["uid"]), [])
        version = int(metadata["resourceVersion"])
        name = "claim version" if metadata["uid"] in self.claims else "version"
        return f"<{name} {order.index(version)}>" if version in order else "<unseen version>"

    def text(self, text: str) -> str:
        """A string with uids, namespace, random endings and versions replaced."""
        text = UID.sub(lambda found: self.uids.setdefault(found[0], f"<uid {len(self.uids)}>"), text)
        text = GENERATED.sub(r"\1<random>", text.replace(self.namespace, "<namespace>"))
        text = STORAGE_KEY.sub("Key: <of the store>", TIME.sub("<time>", text))
        return VERSION_IN_TEXT.sub(r"\1<version>", text)

    def whole_text(self, text: str) -> str:
        """A string that is nothing but an address, or any other."""
        return "<address>" if IP_ADDRESS.match(text) else self.text(text)

    def value(self, value: Any) -> Any:
        """Any JSON value, masked."""
        if isinstance(value, str):
            return self.whole_text(value)
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, dict):
            return self.mapping(value)
        return value

    def mapping(self, value: dict[str, Any]) -> dict[str, Any]:
        """An object, with the fields that need their surroundings treated here."""
        masked = {self.text(key): self.field(key, item) for key, item in sorted(value.items())}
        if value.get("kind") == "Table" and isinstance(value.get("rows"), list):
            ages = {n for n, column in enumerate(value["columnDefinitions"]) if shows_age(column)}
            for row in masked["rows"]:
                row["cells"] = ["<age>" if n in ages else cell for n, cell in enumerate(row["cells"])]
        if value.get("kind") == "Status" and len((value.get("details") or {}).get("causes") or ()) > 1:
            masked["details"]["causes"].sort(key=repr)
            masked["message"] = PROBLEM_LIST.sub(r"\1 <the causes>", masked.get("message", ""))
        return masked

    def field(self, key: str, value: Any) -> Any:
        """One field of an object."""
        if key == "metadata" and isinstance(value, dict) and isinstance(value.get("resourceVersion"), str):
            rank = self.rank(value) if value["resourceVersion"].isdigit() else value["resourceVersion"]
            rest = {name: item for name, item in value.items() if name != "resourceVersion"}
            return self.mapping(rest) | {"resourceVersion": rank}
        if key == "continue" and isinstance(value, str):
            return "<continue>" if value else ""
        if key in ADDRESS_FIELDS and value not in ("None", ["None"], "", None):
            return f"<{key}>"
        if key == "managedFields" and isinstance(value, list):
            return sorted((self.value(item) for item in value), key=repr)
        return self.value(value)


def masked(transcript: Transcript, *, per_object: bool) -> dict[str, Any]:
    """All answers of a transcript by a readable place: `step 12`, `end pods`, `watch 7`."""
    places = {f"step {number}": answer for number, answer in enumerate(transcript.answers)}
    places |= {f"end {plural}": answer for plural, answer in transcript.finals.items()}
    places |= {f"watch {number}": answer for number, answer in transcript.watches.items()}
    mask = Mask(transcript.namespace, per_object)
    mask.collect(list(places.values()))
    return {place: masked_answer(mask, answer, per_object) for place, answer in places.items()}


def is_timed_bookmark(event: dict[str, Any]) -> bool:
    """A bookmark that only the clock brings; the one after the initial events is not of that sort."""
    annotations = event["object"].get("metadata", {}).get("annotations", {})
    return event["type"] == "BOOKMARK" and "k8s.io/initial-events-end" not in annotations


def masked_events(events: list[dict[str, Any]], per_object: bool) -> list[dict[str, Any]]:
    """Events of a collected sequence keep their order only within each object."""
    kept = [event for event in events if not is_timed_bookmark(event)]
    if per_object:
        kept.sort(key=lambda event: str(event["object"].get("metadata", {}).get("name", "")))
    return kept


def masked_answer(mask: Mask, answer: Answer, per_object: bool) -> dict[str, Any]:
    """One answer, or one watch with its events."""
    body = mask.value(answer.body)
    if isinstance(body, list):
        body = masked_events(body, per_object)
    return {
        "status": answer.status,
        "type": answer.content_type,
        "warnings": [mask.text(warning) for warning in answer.warnings],
        "body": body,
    }
