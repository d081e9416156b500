"""Which records a name has."""

from __future__ import annotations

from typing import Any

import dns.message
import pytest
from dns.rcode import Rcode
from dns.rdatatype import RdataType

from kube_local.dns.wire import Answer, read_query


def ask(zone: Any, name: str, kind: RdataType = RdataType.A) -> Answer:
    answer: Answer = zone.records.answer(read_query(dns.message.make_query(name, kind).to_wire()))
    return answer


def values(answer: Answer) -> list[str]:
    return [one.to_text() for found in answer.records for one in found]


@pytest.fixture
def full(zone: Any, endpoint: Any) -> Any:
    zone.service("web", endpoint("10.0.0.1", "web-0"), endpoint("10.0.0.2", "web-1"), endpoint("10.0.0.3", ready=False))
    zone.service("empty")
    zone.pod("login-7f-x", "10.0.0.7")
    zone.pod("empty", "10.0.0.8")
    zone.pod("renamed", "10.0.0.9", hostname="other")
    zone.pod("coming", "")
    return zone


@pytest.mark.parametrize(
    ("name", "code", "found"),
    [
        ("web.ns.svc.cluster.local", Rcode.NOERROR, ["10.0.0.1", "10.0.0.2"]),
        ("web-1.web.ns.svc.cluster.local", Rcode.NOERROR, ["10.0.0.2"]),
        ("10-0-0-1.web.ns.svc.cluster.local", Rcode.NOERROR, ["10.0.0.1"]),
        ("empty.ns.svc.cluster.local", Rcode.NOERROR, []),
        ("ns.svc.cluster.local", Rcode.NOERROR, []),
        ("svc.cluster.local", Rcode.NOERROR, []),
        ("login-7f-x.ns.svc.cluster.local", Rcode.NOERROR, ["10.0.0.7"]),
        ("login-7f-x.other.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("renamed.ns.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("coming.ns.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("web-9.web.ns.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("10-0-0-3.web.ns.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("none.ns.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("web.other.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("other.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("a.b.c.web.ns.svc.cluster.local", Rcode.NXDOMAIN, []),
        ("www.example.org", Rcode.NXDOMAIN, []),
        ("web.ns.svc.cluster.local.cluster.local", Rcode.NXDOMAIN, []),
        ("notcluster.local", Rcode.NXDOMAIN, []),
        ("", Rcode.NXDOMAIN, []),
    ],
)
def test_names_of_services_and_pods(full: Any, name: str, code: Rcode, found: list[str]) -> None:
    answer = ask(full, name)
    assert (answer.code, values(answer)) == (code, found)


def test_there_are_no_addresses_of_version_six_but_the_name_is_known(full: Any) -> None:
    answer = ask(full, "web.ns.svc.cluster.local", RdataType.AAAA)
    assert (answer.code, answer.records, answer.zone) == (Rcode.NOERROR, (), "cluster.local")


def test_an_address_leads_back_to_the_name_of_its_pod_until_it_is_gone(full: Any) -> None:
    assert values(ask(full, "1.0.0.10.in-addr.arpa", RdataType.PTR)) == ["web-0.web.ns.svc.cluster.local."]
    assert ask(full, "9.9.9.9.in-addr.arpa", RdataType.PTR).code is Rcode.NXDOMAIN
    full.forget("web")
    assert ask(full, "1.0.0.10.in-addr.arpa", RdataType.PTR).code is Rcode.NXDOMAIN
