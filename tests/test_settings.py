"""What can be set from outside, and what is found where nobody set it."""

from __future__ import annotations

import pytest

from slurm_operator.settings import Settings, cluster_domain


@pytest.mark.parametrize(
    ("resolv_conf", "domain"),
    [
        ("search ns.svc.cluster.local svc.cluster.local cluster.local\n", "cluster.local"),
        ("nameserver 10.0.0.1\nsearch ns.svc.k8s.example.org svc.k8s.example.org.\n", "k8s.example.org"),
        ("search example.org\n", "cluster.local"),
        ("", "cluster.local"),
    ],
    ids=["usual", "another", "no cluster", "empty"],
)
def test_the_cluster_domain_is_read_from_what_the_kubelet_wrote(resolv_conf: str, domain: str) -> None:
    assert cluster_domain(resolv_conf) == domain


def test_a_kind_without_a_number_of_its_own_has_four_workers() -> None:
    settings = Settings(workers={"nodeset": 9})
    assert (settings.workers_of("NodeSet"), settings.workers_of("Controller")) == (9, 4)


def test_nothing_listens_and_no_pod_reaches_out_unless_asked_for() -> None:
    settings = Settings()
    assert {settings.health[1], settings.metrics[1], settings.profile[1]} == {0}
    assert settings.allowed_pod_features == frozenset()
