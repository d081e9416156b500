"""Which records a name has."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.dns.wire import Answer, Code, Kind, Query


def ask(zone: Any, name: str, kind: int = Kind.A) -> Answer:
    answer: Answer = zone.records.answer(Query(1, name.lower(), kind, name))
    return answer


def values(answer: Answer) -> list[str]:
    return [one.value for one in answer.records]


@pytest.fixture
def full(zone: Any, endpoint: Any) -> Any:
    zone.service("web", endpoint("10.0.0.1", "web-0"), endpoint("10.0.0.2", "web-1"), endpoint("10.0.0.3", ready=False))
    zone.service("empty")
    zone.service("alias", type="ExternalName", external_name="web.ns.svc.cluster.local.")
    zone.service("outside", type="ExternalName", external_name="db.example.com")
    return zone


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("web.ns.svc.cluster.local", Code.OK, ["10.0.0.1", "10.0.0.2"]),
        ("web-1.web.ns.svc.cluster.local", Code.OK, ["10.0.0.2"]),
        ("10-0-0-1.web.ns.svc.cluster.local", Code.OK, ["10.0.0.1"]),
        ("empty.ns.svc.cluster.local", Code.OK, []),
        ("ns.svc.cluster.local", Code.OK, []),
        ("svc.cluster.local", Code.OK, []),
        ("alias.ns.svc.cluster.local", Code.OK, ["web.ns.svc.cluster.local", "10.0.0.1", "10.0.0.2"]),
        ("outside.ns.svc.cluster.local", Code.OK, ["db.example.com"]),
        ("web-9.web.ns.svc.cluster.local", Code.NO_SUCH_NAME, []),
        ("10-0-0-3.web.ns.svc.cluster.local", Code.NO_SUCH_NAME, []),
        ("none.ns.svc.cluster.local", Code.NO_SUCH_NAME, []),
        ("web.other.svc.cluster.local", Code.NO_SUCH_NAME, []),
        ("other.svc.cluster.local", Code.NO_SUCH_NAME, []),
        ("a.b.c.web.ns.svc.cluster.local", Code.NO_SUCH_NAME, []),
        ("www.example.org", Code.NO_SUCH_NAME, []),
        ("web.ns.svc.cluster.local.cluster.local", Code.NO_SUCH_NAME, []),
        ("notcluster.local", Code.NO_SUCH_NAME, []),
        ("", Code.NO_SUCH_NAME, []),
    ],
)
def test_names_of_services_and_pods(full: Any, name: str, code: Code, found: list[str]) -> None:
    answer = ask(full, name)
    assert (answer.code, values(answer)) == (code, found)


def test_there_are_no_addresses_of_version_six_but_the_name_is_known(full: Any) -> None:
    answer = ask(full, "web.ns.svc.cluster.local", Kind.AAAA)
    assert (answer.code, answer.records, answer.zone) == (Code.OK, (), "cluster.local")


def test_srv_names_port_and_host_of_every_ready_pod(full: Any) -> None:
    answer = ask(full, "_rest._tcp.web.ns.svc.cluster.local", Kind.SRV)
    assert values(answer) == [f"0 100 6820 web-{n}.web.ns.svc.cluster.local" for n in range(2)]
    assert [one.value for one in answer.additional] == ["10.0.0.1", "10.0.0.2"]
    assert ask(full, "_other._tcp.web.ns.svc.cluster.local", Kind.SRV).code is Code.NO_SUCH_NAME


def test_an_address_leads_back_to_the_name_of_its_pod_until_it_is_gone(full: Any) -> None:
    assert values(ask(full, "1.0.0.10.in-addr.arpa", Kind.PTR)) == ["web-0.web.ns.svc.cluster.local"]
    assert ask(full, "9.9.9.9.in-addr.arpa", Kind.PTR).code is Code.NO_SUCH_NAME
    full.forget("web")
    assert ask(full, "1.0.0.10.in-addr.arpa", Kind.PTR).code is Code.NO_SUCH_NAME


def test_addresses_come_in_another_order_each_time(zone: Any, endpoint: Any) -> None:
    zone.service("web", *(endpoint(f"10.0.0.{n}") for n in range(1, 4)))
    zone.records.shuffled = lambda found: list(reversed(found))
    assert values(ask(zone, "web.ns.svc.cluster.local")) == ["10.0.0.3", "10.0.0.2", "10.0.0.1"]
