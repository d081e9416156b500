"""All rights at once: what the API server says of our own, held against what we are shipped with."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.kube_runtime.client import fault_server as say
from tests.kube_runtime.client.fault_server import FaultServer

from kube_local.apiserver import ApiServer
from kube_runtime.client import self_review
from kube_runtime.client.client import Client
from kube_runtime.client.credentials import Fixed
from kube_runtime.client.denials import Denials
from kube_runtime.client.kubeconfig import Target, find
from kube_runtime.client.missing_right import MissingRight
from kube_runtime.client.rights import Right, Scope
from kube_runtime.client.self_review import needed
from slurm_operator import rights

TABLE = (
    Right("apps", ("deployments",), ("list", "patch")),
    Right("", ("nodes",), ("list",), Scope.CLUSTER),
    Right("coordination.k8s.io", ("leases",), ("update",), Scope.OWN, ("one",)),
    *rights.REVIEWS,
)
ALL = tuple(Scope)


def client_of(faults: FaultServer) -> Client:
    return Client.to(Target(server=faults.url, credentials=Fixed()))


def rules(*given: tuple[str, str, str], incomplete: bool = False) -> say.Step:
    """What a SelfSubjectRulesReview answers."""
    listed = [{"apiGroups": [group], "resources": [kind], "verbs": [verb]} for group, kind, verb in given]
    return say.json({"metadata": {}, "status": {"resourceRules": listed, "incomplete": incomplete}})


ME = say.json({"metadata": {}, "status": {"userInfo": {"username": "op"}}})


@pytest.mark.parametrize(
    ("scopes", "namespaces", "wanted"),
    [
        (
            {Scope.NAMESPACES, Scope.CLUSTER},
            (),
            ["list deployments.apps", "patch deployments.apps", "list nodes"],
        ),
        (
            {Scope.NAMESPACES},
            ("a", "b"),
            [f"{verb} deployments.apps -n {place}" for place in ("a", "b") for verb in ("list", "patch")],
        ),
        ({Scope.OWN}, (), ["update leases.coordination.k8s.io/one -n mine"]),
        (
            {Scope.METRICS},
            (),
            ["create tokenreviews.authentication.k8s.io", "create subjectaccessreviews.authorization.k8s.io"],
        ),
    ],
    ids=["everywhere", "in namespaces", "its own", "for metrics"],
)
def test_a_right_is_needed_where_the_program_works(
    scopes: set[Scope], namespaces: tuple[str, ...], wanted: list[str]
) -> None:
    found = [each.can_i for each in needed(TABLE, scopes, namespaces, "mine")]
    assert found == [f"kubectl auth can-i {each}" for each in wanted]


async def test_what_no_rule_gives_is_missing(faults: FaultServer) -> None:
    faults.answer(rules(("apps", "*", "list"), ("", "nodes", "get")), ME)
    async with client_of(faults) as client:
        found = await self_review.missing(client, needed(TABLE, {Scope.NAMESPACES, Scope.CLUSTER}, (), "mine"))
    assert found == [
        MissingRight("apps", "deployments", "patch", user="op"),
        MissingRight("", "nodes", "list", user="op"),
    ]


async def test_an_authorizer_that_cannot_list_its_rules_is_asked_for_each(faults: FaultServer) -> None:
    no, yes = (say.json({"metadata": {}, "status": {"allowed": allowed}}) for allowed in (False, True))
    faults.answer(rules(("apps", "deployments", "list"), incomplete=True), yes, no, ME)
    async with client_of(faults) as client:
        found = await self_review.missing(client, needed(TABLE, {Scope.NAMESPACES, Scope.CLUSTER}, (), "mine"))
    assert [each.can_i for each in found] == ["kubectl auth can-i list nodes --as=op"]


async def test_a_server_that_allows_everything_lacks_nothing(tmp_path: Path) -> None:
    server = ApiServer()
    await server.start()
    path = tmp_path / "kubeconfig"
    path.write_text(server.kubeconfig())
    async with Client.to(find(path=str(path))) as client:
        assert await self_review.missing(client, needed(rights.OPERATOR, ALL, (), "mine")) == []
    await server.stop()


async def test_a_server_that_may_not_be_asked_is_asked_again_later(faults: FaultServer) -> None:
    faults.answer(say.error(403, "Forbidden"), rules(), ME)
    denials, looks, twice = Denials(), list[float](), asyncio.Event()

    async def sleep(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            twice.set()
            await asyncio.Event().wait()

    wanted = tuple(needed(TABLE[:1], ALL, (), "mine"))
    async with client_of(faults) as client:
        task = asyncio.create_task(self_review.keep_looking(client, wanted, denials, sleep))
        async with asyncio.timeout(10):
            await twice.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [labels for labels, _ in denials.samples()] == [
        ("list", "deployments.apps", ""),
        ("patch", "deployments.apps", ""),
    ]
    assert looks == [self_review.REVIEW_INTERVAL_SECONDS] * 2
