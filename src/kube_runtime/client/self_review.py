"""Which of the rights that a program is shipped with it does not have, asked of the API server all at once.

In: a client, a table of rights (`rights.py`), and where the program works. Out: the rights that are missing, also those
that nobody has needed yet. One SelfSubjectRulesReview for each namespace; where an authorizer cannot list its rules,
each right that it did not name is asked for by itself. Every account may ask this about itself. Called by `cli/run.py`
and `cli/webhook.py` at the start and now and then.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from typing import Any, Final

import msgspec

from kube_runtime.client.client import Client
from kube_runtime.client.denials import Denials
from kube_runtime.client.errors import KubeError
from kube_runtime.client.missing_right import MissingRight
from kube_runtime.client.objects import RawObject, Resource
from kube_runtime.client.rights import Right, Scope

log = logging.getLogger(__name__)

REVIEW_INTERVAL_SECONDS = 600.0
RULES_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectrulesreviews", "SelfSubjectRulesReview", RawObject, namespaced=False
)
ACCESS_REVIEWS: Final = Resource(
    "authorization.k8s.io", "v1", "selfsubjectaccessreviews", "SelfSubjectAccessReview", RawObject, namespaced=False
)
SELF_REVIEWS: Final = Resource(
    "authentication.k8s.io", "v1", "selfsubjectreviews", "SelfSubjectReview", RawObject, namespaced=False
)
# Rules that hold in every namespace are seen in any of them.
ANYWHERE = "default"


class _Rule(msgspec.Struct, frozen=True, rename="camel"):
    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] | None = ()
    resources: tuple[str, ...] | None = ()
    resource_names: tuple[str, ...] | None = ()

    def gives(self, right: MissingRight) -> bool:
        """Whether it grants a right."""
        resource = f"{right.resource}/{right.subresource}" if right.subresource else right.resource
        return (
            _has(self.verbs, right.verb)
            and _has(self.api_groups, right.group)
            and _has(self.resources, resource, f"*/{right.subresource}")
            and (not self.resource_names or right.name in self.resource_names)
        )


class _Rules(msgspec.Struct, frozen=True, rename="camel"):
    resource_rules: tuple[_Rule, ...] | None = ()
    incomplete: bool = False


class _Access(msgspec.Struct, frozen=True):
    allowed: bool = False


class _User(msgspec.Struct, frozen=True):
    username: str = ""


class _Self(msgspec.Struct, frozen=True, rename="camel"):
    user_info: _User = _User()


def _has(given: Sequence[str] | None, *wanted: str) -> bool:
    return any(each in (given or ()) for each in ("*", *wanted))


def needed(
    table: Iterable[Right], scopes: Iterable[Scope], namespaces: Sequence[str], own: str
) -> Iterator[MissingRight]:
    """Every single right of a table, at each place where it is needed; `namespaces` is empty for all of them."""
    wanted = frozenset(scopes)
    for right in table:
        places = {Scope.NAMESPACES: tuple(namespaces) or ("",), Scope.OWN: (own,)}.get(right.scope, ("",))
        for place in places if right.scope in wanted else ():
            for resource in right.resources:
                plain, _, part = resource.partition("/")
                for verb in right.verbs:
                    for name in right.names or ("",):
                        yield MissingRight(right.group, plain, verb, part, place, name)


async def missing(client: Client, wanted: Iterable[MissingRight]) -> list[MissingRight]:
    """Those of some rights that are not there."""
    by_place: dict[str, list[MissingRight]] = {}
    for right in wanted:
        by_place.setdefault(right.namespace, []).append(right)
    found: list[MissingRight] = []
    for place, rights in by_place.items():
        rules = await _rules(client, place or ANYWHERE)
        lacking = [each for each in rights if not any(rule.gives(each) for rule in rules.resource_rules or ())]
        # An authorizer that cannot list its rules may still say yes to each.
        found += [each for each in lacking if not (rules.incomplete and await _allowed(client, each))]
    user = await _user(client) if found else ""
    return [msgspec.structs.replace(each, user=user) for each in found]


async def keep_looking(
    client: Client, wanted: Sequence[MissingRight], denials: Denials, sleep: Callable[[float], Awaitable[object]]
) -> None:
    """Look now and every few minutes, until cancelled."""
    while True:
        try:
            denials.review(await missing(client, wanted))
        except (KubeError, msgspec.MsgspecError) as error:
            # A cluster that does not let us ask is none that we could tell about.
            log.debug("rights were not reviewed: %s", error)
        await sleep(REVIEW_INTERVAL_SECONDS)


async def _user(client: Client) -> str:
    answer = await client.create(SELF_REVIEWS, _review(SELF_REVIEWS, {}))
    return msgspec.convert(answer.content().get("status") or {}, _Self).user_info.username


async def _rules(client: Client, namespace: str) -> _Rules:
    answer = await client.create(RULES_REVIEWS, _review(RULES_REVIEWS, {"namespace": namespace}))
    return msgspec.convert(answer.content().get("status") or {}, _Rules)


async def _allowed(client: Client, right: MissingRight) -> bool:
    attributes = {
        "group": right.group,
        "resource": right.resource,
        "subresource": right.subresource,
        "verb": right.verb,
        "namespace": right.namespace,
        "name": right.name,
    }
    answer = await client.create(ACCESS_REVIEWS, _review(ACCESS_REVIEWS, {"resourceAttributes": attributes}))
    return msgspec.convert(answer.content().get("status") or {}, _Access).allowed


def _review(resource: Resource[Any], spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": resource.api_version, "kind": resource.kind, "spec": spec}
