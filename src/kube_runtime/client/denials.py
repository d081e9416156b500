"""Rights that the API server has refused and not granted since: a line in the log for each, and a metric.

In: every request as it went, and rights that were found missing without a request. Out: log lines, when a right is
first missed and when it is there again; `samples` for the metric. Conditions say what a missing right means for a
resource; this says it also where there is no resource to say it of, such as for the Lease. Fed by `Client.report`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from kube_runtime.client.client import Call
from kube_runtime.client.missing_right import MissingRight, of_owners, of_path

log = logging.getLogger(__name__)

HTTP_CREATED = 201
HELP = "the shipped roles grant it: apply them again, and look for a missing binding"


@dataclass(slots=True)
class Denials:
    """The rights that are missing now, as far as somebody has tried."""

    _missing: dict[MissingRight, None] = field(default_factory=dict)

    def note(self, call: Call) -> None:
        """Take notice of a request."""
        if call.denied is not None:
            self.miss(call.denied)
        elif self._missing and 200 <= call.code < 300 and not call.request.what.startswith("discovery "):
            self._granted(call)

    def miss(self, right: MissingRight) -> None:
        """A right that is not there."""
        if right not in self._missing:
            self._missing[right] = None
            log.warning('a right is missing: "%s" says no; %s', right.can_i, HELP)

    def review(self, missing: Iterable[MissingRight]) -> None:
        """Everything that is missing, out of a look at all rights at once; what is not named is there."""
        found = list(missing)
        for right in [each for each in self._missing if not any(_includes(other, each) for other in found)]:
            self._found(right)
        for right in found:
            if not any(_includes(right, each) for each in self._missing):
                self.miss(right)

    def samples(self) -> Iterator[tuple[tuple[str, ...], float]]:
        """One for each missing right: verb, resource, namespace."""
        for verb, resource, namespace in sorted({_labels(right) for right in self._missing}):
            yield (verb, resource, namespace), 1.0

    def _granted(self, call: Call) -> None:
        used = list(_used(call))
        for right in [each for each in self._missing if any(_includes(each, right) for right in used)]:
            self._found(right)

    def _found(self, right: MissingRight) -> None:
        del self._missing[right]
        log.info('a right is there again: "%s" says yes', right.can_i)


def _includes(wide: MissingRight, narrow: MissingRight) -> bool:
    """Whether both are the same right, in the same place or one in the whole cluster."""
    return wide.kind == narrow.kind and wide.namespace in ("", narrow.namespace)


def _used(call: Call) -> Iterator[MissingRight]:
    """The rights that a request shows to be there by having gone well."""
    request = call.request
    used = of_path(request.method, request.path, watch=("watch", "true") in request.query)
    yield used
    if call.code == HTTP_CREATED:
        # An apply of what was not there.
        yield msgspec.structs.replace(used, verb="create")
    if request.body and request.method != "DELETE":
        yield from of_owners(request.body)


def _labels(right: MissingRight) -> tuple[str, str, str]:
    kind = f"{right.resource}.{right.group}" if right.group else right.resource
    return right.verb, f"{kind}/{right.subresource}" if right.subresource else kind, right.namespace
