"""Random sequences of API requests, the same for every server that plays them.

In: a seed. Out: a list of `Step`. What only a server knows (uids, resource versions, continue tokens,
the live object) is written as `${rv:configmaps/cm-a}` and filled in by `play.py` from that server's own
answers. Called by `campaign.py` and the tests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from tests.real.kube.differential.bodies import (
    BUDGETS,
    CLAIMS,
    CONFIG_MAPS,
    KINDS,
    LABELS,
    PODS,
    SERVICES,
    WEIGHTED_KINDS,
    WIDGETS,
    Json,
    Kind,
    sentinel,
    some,
    whole,
)

JSON = "application/json"
MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
PARTIAL = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
PARTIAL_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"
HOLD = "example.com/hold"
LIST_SELECTORS = ("app=red", "app!=red", "app in (red,blue)", "tier notin (back)", "app", "!tier", "app=red,tier")
WATCH_SELECTORS = ("app=red", "app in (red,blue)", "app", "tier!=back", "!absent")
BAD_SELECTORS = ("app=", "=x", "app in red", "a b")


@dataclass(frozen=True, slots=True)
class Step:
    """One request, with the server's own values left open."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    content_type: str = ""
    body: Any = None  # JSON to encode, or bytes to send as they are
    base: str = ""  # "plural/name": the body is a merge patch upon the object last seen under it
    accept: str = ""
    watch: bool = False
    settle: bool = False  # wait for the controllers before the next request

    def describe(self) -> str:
        """One line for a report."""
        marks = f" [{self.content_type.split('/')[-1]}]" if self.content_type else ""
        over = f" over {self.base}" if self.base else ""
        body = f" {self.body!r}" if self.body is not None else ""
        return f"{self.method} {self.path} {self.query or ''}{marks}{over}{body}{' settle' * self.settle}"


def named(kind: Kind, name: str, subresource: str = "") -> str:
    """The path of one object."""
    return f"{kind.collection}/{name}" + (f"/{subresource}" if subresource else "")


def writing_options(random: Random, chance: float = 0.12) -> dict[str, str]:
    """Query parameters that every write understands."""
    query: dict[str, str] = {}
    if random.random() < chance:
        query["dryRun"] = random.choice(("All", "All", "All", "Some"))
    if random.random() < chance:
        query["fieldValidation"] = random.choice(("Strict", "Warn", "Ignore", "Sometimes"))
    if random.random() < chance:
        query["fieldManager"] = random.choice(("carol", "dave"))
    return query


def owner_reference(random: Random) -> Json:
    """A reference to an object that may be there, gone, or never have been."""
    kind = random.choice((CONFIG_MAPS, WIDGETS))
    name = random.choice(kind.names)
    made: Json = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "name": name,
        "uid": f"${{uid:{kind.plural}/{name}}}",
    }
    if random.random() < 0.5:
        made["blockOwnerDeletion"] = True
    return made


def create(random: Random, kind: Kind) -> Step:
    """A new object, now and then with something wrong about it."""
    body = whole(kind, random.choice(kind.names), random)
    path = kind.collection
    flaw = random.random()
    if flaw < 0.10 and kind is BUDGETS:  # nobody checks the metadata of these
        flaw = 1.0
    if flaw < 0.03:
        # A nameless service is refused by its address allocator, in words that name an address.
        wrong = ("Upper", "under_score", "-dash", "a" * 254, *([] if kind is SERVICES else [""]))
        body["metadata"]["name"] = random.choice(wrong)
    elif flaw < 0.05:
        body["metadata"]["namespace"] = random.choice(("other", "{ns}"))
    elif flaw < 0.07:
        body = sentinel(kind)  # of a wrong kind with other problems, the real server lists an odd part
        body[random.choice(("kind", "apiVersion"))] = "Wrong"
    elif flaw < 0.08:
        body["metadata"]["resourceVersion"] = "1"
    elif flaw < 0.10:
        body["metadata"]["labels"] = random.choice(({"bad key!": "x"}, {"good": "bad value!"}))
    elif flaw < 0.12:
        path = path.replace("{ns}", "{ns}-missing")
    elif flaw < 0.15:
        body["surprise"] = 1
    return Step("POST", path, writing_options(random), JSON, body)


def create_generated(random: Random, kind: Kind) -> Step:
    """A name by the server; the prefix differs per step, so lists sort alike on every server."""
    body = whole(kind, "", random)
    body["metadata"] |= {"generateName": f"gen-{random.randrange(10**6)}-"}
    del body["metadata"]["name"]
    return Step("POST", kind.collection, {}, JSON, body)


def read(random: Random, kind: Kind) -> Step:
    """One object in one of its forms."""
    accept = random.choice(("", "", "", PARTIAL, TABLE))
    name = random.choice((*kind.names, *kind.names, "missing"))
    return Step("GET", named(kind, name), accept=accept)


def read_list(random: Random, kind: Kind) -> Step:
    """A collection: selected, paged, in one of its forms."""
    query: dict[str, str] = {}
    chance = random.random()
    if chance < 0.4:
        query["labelSelector"] = random.choice(LIST_SELECTORS)
    elif chance < 0.45:
        query["labelSelector"] = random.choice(BAD_SELECTORS)
    elif chance < 0.6:
        query["fieldSelector"] = random.choice(
            (
                f"metadata.name={kind.names[0]}",
                f"metadata.name!={kind.names[0]}",
                "spec.nothing=1",
                "metadata.namespace={ns}",
            )
        )
    if random.random() < 0.35:
        query["limit"] = random.choice(("1", "2", "100"))
    accept = random.choice(("", "", "", PARTIAL_LIST, TABLE))
    return Step("GET", kind.collection, query, accept=accept)


def read_next_page(random: Random, kind: Kind) -> Step:
    """Go on where the last paged list of this kind stopped."""
    return Step("GET", kind.collection, {"limit": "1", "continue": f"${{continue:{kind.plural}}}"})


def watch(random: Random, kind: Kind) -> Step:
    """A watch that stays open to the end of the sequence."""
    query = {"watch": "true"}
    chance = random.random()
    if chance < 0.6:
        query["resourceVersion"] = f"${{listrv:{kind.plural}}}"
    elif chance < 0.7:
        query["resourceVersion"] = "nonsense"
    elif chance < 0.8:
        query |= {"sendInitialEvents": "true", "allowWatchBookmarks": "true", "resourceVersionMatch": "NotOlderThan"}
    if random.random() < 0.5:
        query["labelSelector"] = random.choice(WATCH_SELECTORS)
    return Step("GET", kind.collection, query, watch=True)


def edit_of(random: Random, kind: Kind) -> Json:
    """A change of some part of an object, as a merge patch."""
    chance = random.random()
    if chance < 0.35:
        labels: Json = dict(some(random, LABELS, 0.7))
        if random.random() < 0.3:
            labels["tier"] = None
        return {"metadata": {"labels": labels}}
    if chance < 0.45:
        return {"metadata": {"annotations": {"example.com/note": random.choice(("one", "two", None))}}}
    if chance < 0.55 and kind is not CLAIMS:  # a controller puts the finalizer of a claim back
        return {"metadata": {"finalizers": random.choice(([HOLD], [], None))}}
    if chance < 0.60:
        return {}
    if kind is PODS:
        return random.choice(
            ({"spec": {"activeDeadlineSeconds": 60}}, {"spec": {"hostNetwork": True}}, {"status": {"phase": "Failed"}})
        )
    return kind.content(random)


def version_into(body: Json, random: Random, target: str) -> None:
    """Sometimes name a resource version: the right one, an old one, nonsense, or none."""
    chance = random.random()
    if chance < 0.5:
        return
    pool = (f"${{rv:{target}}}", f"${{rv:{target}}}", f"${{oldrv:{target}}}", "nonsense", None)
    body.setdefault("metadata", {})["resourceVersion"] = random.choice(pool)


def update(random: Random, kind: Kind) -> Step:
    """PUT of the object last seen, changed."""
    name = random.choice(kind.names)
    target = f"{kind.plural}/{name}"
    body = edit_of(random, kind)
    version_into(body, random, target)
    flaw = random.random()
    if flaw < 0.03:
        body.setdefault("metadata", {})["name"] = "other"
    elif flaw < 0.05:
        body.setdefault("metadata", {})["uid"] = "11111111-1111-1111-1111-111111111111"
    return Step("PUT", named(kind, name), writing_options(random), JSON, body, base=target)


def merge_patch(random: Random, kind: Kind) -> Step:
    """A merge patch, seldom with a resource version as precondition."""
    name = random.choice(kind.names)
    body = edit_of(random, kind)
    if random.random() < 0.3:
        version_into(body, random, f"{kind.plural}/{name}")
    return Step("PATCH", named(kind, name), writing_options(random), MERGE, body)


def json_patch(random: Random, kind: Kind) -> Step:
    """One to three operations, some of which cannot work."""
    pool: list[Json] = [
        {"op": "add", "path": "/metadata/labels/app", "value": random.choice(LABELS["app"])},
        {"op": "add", "path": "/metadata/labels", "value": {"app": "blue"}},
        {"op": "replace", "path": "/metadata/labels/tier", "value": "front"},
        {"op": "remove", "path": "/metadata/labels/app"},
        {"op": "test", "path": "/metadata/labels/app", "value": "red"},
        {"op": "test", "path": "/metadata/name", "value": kind.names[0]},
        {"op": "add", "path": "/metadata/annotations", "value": {"a/b": "x"}},
        {"op": "remove", "path": "/metadata/annotations/a~1b"},
        {"op": "add", "path": "/metadata/finalizers/-", "value": HOLD},
        {"op": "copy", "from": "/metadata/labels/app", "path": "/metadata/labels/copied"},
        {"op": "move", "from": "/metadata/labels/tier", "path": "/metadata/labels/moved"},
        {"op": "replace", "path": "/metadata/name", "value": "renamed"},
    ]
    if kind is WIDGETS:
        pool += [
            {"op": "add", "path": "/spec/tags", "value": ["p"]},
            {"op": "add", "path": "/spec/tags/0", "value": "q"},
            {"op": "replace", "path": "/spec/replicas", "value": random.choice((1, 4, -1))},
            {"op": "remove", "path": "/spec/nested"},
            {"op": "add", "path": "/spec/free", "value": {"a/b~c": "x"}},
            {"op": "remove", "path": "/spec/free/a~1b~0c"},
        ]
    body = random.sample(pool, random.choice((1, 1, 2, 3)))
    return Step("PATCH", named(kind, random.choice(kind.names)), writing_options(random), JSON_PATCH, body)


def strategic_patch(random: Random, kind: Kind) -> Step:
    """Lists merged by key, directives; a custom resource refuses the whole kind of patch."""
    image = random.choice(("nginx:1.27", "nginx:1.28"))
    special: dict[str, list[Json]] = {
        "pods": [
            {"spec": {"containers": [{"name": "main", "image": image}]}},
            {"spec": {"containers": [{"name": "absent", "$patch": "delete"}]}},
            {"spec": {"tolerations": [{"key": "new", "operator": "Exists"}]}},
            {"metadata": {"finalizers": [HOLD]}},
            {"metadata": {"$deleteFromPrimitiveList/finalizers": [HOLD]}},
        ],
        "services": [
            {"spec": {"ports": [{"port": 80, "targetPort": 8000}]}},
            {"spec": {"ports": [{"port": 9090, "name": "more"}]}},
            {"spec": {"ports": [{"port": 8080, "$patch": "delete"}]}},
            {"spec": {"selector": {"$patch": "replace", "app": "green"}}},
            {
                "spec": {
                    "$setElementOrder/ports": [{"port": 9090}, {"port": 80}],
                    "ports": [{"port": 9090, "name": "m"}],
                }
            },
        ],
        "configmaps": [{"data": {"k1": None, "k2": "patched"}}, {"data": {"$patch": "replace", "k9": "only"}}],
    }
    pool = [*special.get(kind.plural, []), edit_of(random, kind)]
    return Step(
        "PATCH", named(kind, random.choice(kind.names)), writing_options(random), STRATEGIC, random.choice(pool)
    )


def apply(random: Random, kind: Kind) -> Step:
    """Server-side apply by one of two managers, forced or not."""
    name = random.choice(kind.names)
    body = whole(kind, name, random)
    if not kind.builtin:  # a map that loses all its entries to an empty one becomes null, and so invalid
        body["spec"] = {key: value for key, value in body["spec"].items() if value != {}}
    query = {"fieldManager": random.choice(("alice", "bob"))}
    if random.random() < 0.4:
        query["force"] = random.choice(("true", "true", "false"))
    flaw = random.random()
    if flaw < 0.03:
        del query["fieldManager"]
    elif flaw < 0.06:
        body["metadata"]["resourceVersion"] = random.choice(
            (f"${{rv:{kind.plural}/{name}}}", f"${{oldrv:{kind.plural}/{name}}}")
        )
    elif flaw < 0.08:
        body["metadata"]["name"] = "different"
    elif flaw < 0.10:
        body["metadata"]["managedFields"] = [{"manager": "x", "operation": "Apply"}]
    elif flaw < 0.13:
        query["dryRun"] = "All"
    return Step("PATCH", named(kind, name), query, APPLY, body)


def status_write(random: Random, kind: Kind) -> Step:
    """The status subresource by every kind of write; a kind without one says so."""
    name = random.choice(kind.names)
    path, target = named(kind, name, "status"), f"{kind.plural}/{name}"
    body: Json = {"status": kind.status(random) if kind.status else {"x": 1}}
    if random.random() < 0.3:
        body |= {"metadata": {"labels": {"app": "green"}}}
    form = random.choice((JSON, MERGE, APPLY, "read"))
    if form == "read":
        return Step("GET", path)
    if form == JSON:
        return Step("PUT", path, writing_options(random), JSON, body, base=target)
    if form == MERGE:
        return Step("PATCH", path, writing_options(random), MERGE, body)
    # No labels: the real server drops them from an applied status, but counts them as a change of the entry's time.
    body |= {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {"name": name}}
    return Step("PATCH", path, {"fieldManager": random.choice(("alice", "kubelet")), "force": "true"}, APPLY, body)


def scale(random: Random, kind: Kind) -> Step:
    """The scale subresource; kinds without one say so."""
    name = random.choice(kind.names)
    path = named(kind, name, "scale")
    form = random.choice(("read", "put", "patch"))
    count = random.choice((0, 2, 5, 11, -1))
    if form == "read":
        return Step("GET", path)
    if form == "patch":
        return Step("PATCH", path, writing_options(random), MERGE, {"spec": {"replicas": count}})
    body: Json = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": name, "namespace": "{ns}"}}
    body["spec"] = {"replicas": count}
    if random.random() < 0.4:
        body["metadata"]["resourceVersion"] = random.choice(
            (f"${{rv:{kind.plural}/{name}}}", f"${{oldrv:{kind.plural}/{name}}}")
        )
    return Step("PUT", path, writing_options(random), JSON, body)


def delete_options(random: Random, target: str) -> Json:
    """Preconditions and policies, right and wrong."""
    body: Json = {}
    if random.random() < 0.25:
        body["preconditions"] = random.choice(
            (
                {"uid": f"${{uid:{target}}}"},
                {"uid": "11111111-1111-1111-1111-111111111111"},
                {"resourceVersion": f"${{rv:{target}}}"},
                {"resourceVersion": f"${{oldrv:{target}}}"},
            )
        )
    if random.random() < 0.1:
        body["dryRun"] = ["All"]
    if random.random() < 0.15:
        body["gracePeriodSeconds"] = random.choice((0, 3))
    return body


def delete(random: Random, kind: Kind) -> Step:
    """Deletion in the background."""
    name = random.choice((*kind.names, *kind.names, "missing"))
    body = delete_options(random, f"{kind.plural}/{name}")
    query = {"propagationPolicy": "Background"} if random.random() < 0.3 else {}
    return Step("DELETE", named(kind, name), query, JSON if body else "", body or None)


def delete_with_policy(random: Random, kind: Kind) -> Step:
    """Deletion that leaves the garbage collector something to do."""
    name = random.choice(kind.names)
    body = delete_options(random, f"{kind.plural}/{name}")
    body["propagationPolicy"] = random.choice(("Foreground", "Orphan", "Background", "Sideways"))
    return Step("DELETE", named(kind, name), {}, JSON, body, settle=True)


def own(random: Random, kind: Kind) -> Step:
    """Give an object an owner, or two, or none."""
    references = [owner_reference(random) for _ in range(random.choice((0, 1, 1, 2)))]
    body = {"metadata": {"ownerReferences": references}}
    return Step("PATCH", named(kind, random.choice(kind.names)), {}, MERGE, body, settle=True)


def create_owned(random: Random, kind: Kind) -> Step:
    """A new object that has an owner from the start."""
    body = whole(kind, random.choice(kind.names), random)
    body["metadata"]["ownerReferences"] = [owner_reference(random)]
    return Step("POST", kind.collection, {}, JSON, body, settle=True)


def malformed(random: Random, kind: Kind) -> Step:
    """Requests that no server should accept."""
    name = random.choice(kind.names)
    path = named(kind, name)
    good = whole(kind, name, random)
    return random.choice(
        (
            Step("POST", kind.collection, {}, JSON, b'{"apiVersion": "v1", "kind": '),
            Step("POST", kind.collection, {}, JSON, b""),
            Step("POST", kind.collection, {}, JSON, b"[]"),
            Step("POST", kind.collection, {}, "text/plain", good),
            Step("PUT", path, {}, JSON, b"not json"),
            Step("PATCH", path, {}, JSON, {"metadata": {"labels": {"app": "red"}}}),
            Step("PATCH", path, {}, "application/unheard-of", {}),
            Step("PATCH", path, {}, MERGE, b"{"),
            Step("PATCH", path, {}, MERGE, b"[1]"),
            Step("PATCH", path, {}, JSON_PATCH, {"op": "add"}),
            Step("PATCH", path, {}, JSON_PATCH, [{"op": "fly", "path": "/x"}]),
            Step("PATCH", path, {"fieldManager": "alice"}, APPLY, b": : :"),
            Step("PATCH", path, {"fieldManager": "alice"}, APPLY, {"kind": kind.kind}),
            Step("POST", path, {}, JSON, good),
            Step("PUT", kind.collection, {}, JSON, good),
            Step("GET", f"{kind.prefix}/namespaces/{{ns}}/nonsense"),
            Step("GET", f"{path}/nonsense"),
            Step("GET", "/apis/nonsense.example.com/v1/namespaces/{ns}/things"),
            Step("GET", path, accept="image/png"),
            Step("DELETE", path, {}, JSON, {"preconditions": {"uid": 5}}),
            Step("GET", kind.collection, {"limit": "many"}),
            Step("GET", kind.collection, {"continue": "nonsense"}),
            Step("GET", kind.collection, {"resourceVersion": "nonsense"}),
        )
    )


Maker = Callable[[Random, Kind], Step]
PLAIN: dict[Maker, int] = {
    create: 20,
    create_generated: 2,
    read: 8,
    read_list: 8,
    read_next_page: 2,
    watch: 3,
    update: 12,
    merge_patch: 10,
    json_patch: 8,
    strategic_patch: 8,
    apply: 16,
    status_write: 8,
    scale: 4,
    delete: 8,
    malformed: 3,
}
COLLECTED: dict[Maker, int] = {
    create: 20,
    create_owned: 14,
    own: 8,
    read: 6,
    read_list: 6,
    watch: 2,
    merge_patch: 6,
    apply: 4,
    delete: 6,
    delete_with_policy: 14,
}
APPLYING: dict[Maker, int] = {
    apply: 30,
    create: 6,
    update: 6,
    merge_patch: 6,
    status_write: 8,
    read: 3,
    scale: 4,
    delete: 4,
}


KIND_WEIGHTS = tuple(WEIGHTED_KINDS.values())


def sequence(seed: int, length: int = 60) -> list[Step]:
    """The requests of one seed; one in five is about garbage collection, one in five about apply."""
    random = Random(seed)  # noqa: S311 (repeatable, not secret)
    weights = {3: COLLECTED, 4: APPLYING}.get(seed % 5, PLAIN)
    steps = prologue(random)
    makers = random.choices(list(weights), list(weights.values()), k=length - len(steps))
    steps += [maker(random, suitable_kind(random, maker)) for maker in makers]
    return [settled(step) if weights is COLLECTED or CLAIMS.plural in step.path else step for step in steps]


def prologue(random: Random) -> list[Step]:
    """Something to work on, and somebody who watches it."""
    kinds = random.choices(KINDS, KIND_WEIGHTS, k=5)
    watched = random.choice([kind for kind in kinds if kind is not CLAIMS] or [PODS])
    query = {"watch": "true", "resourceVersion": f"${{listrv:{watched.plural}}}"}
    created = [Step("POST", kind.collection, {}, JSON, whole(kind, kind.names[0], random)) for kind in kinds]
    return [Step("GET", watched.collection), Step("GET", watched.collection, query, watch=True), *created]


def suitable_kind(random: Random, maker: Maker) -> Kind:
    """Any kind, but mostly one that has the subresource in question."""
    kind = random.choices(KINDS, KIND_WEIGHTS)[0]
    misfit = (maker is scale and not kind.scales) or (maker is status_write and kind.status is None)
    if maker is watch and kind is CLAIMS:  # see the rule claim-rewrite
        return PODS
    return WIDGETS if misfit and random.random() < 0.9 else kind


def settled(step: Step) -> Step:
    """With owners or protected claims about, every write may wake a controller."""
    if step.method == "GET" or step.settle:
        return step
    return replace(step, settle=True)
