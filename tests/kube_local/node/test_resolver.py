"""/etc/hosts and /etc/resolv.conf of pods."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kube_local.node import resolver
from kube_local.node.errors import ConfigInvalid

MakePod = Callable[..., dict[str, Any]]
CLUSTER = "search slurm.svc.cluster.local svc.cluster.local cluster.local"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, "w-0"),
        ({"hostname": "compute-3"}, "compute-3"),
        ({"hostname": "x" * 62 + "-more"}, "x" * 62),
    ],
    ids=["the pod's name", "its own", "cut where host names end"],
)
def test_a_pod_is_called(spec: dict[str, Any], expected: str, make_pod: MakePod) -> None:
    assert resolver.hostname(make_pod(**spec)) == expected


def test_a_pod_knows_its_own_names_and_its_aliases(make_pod: MakePod) -> None:
    pod = make_pod(subdomain="workers", hostAliases=[{"ip": "1.2.3.4", "hostnames": ["a", "b"]}])
    lines = resolver.hosts(pod, "10.240.0.9").splitlines()
    assert "127.0.0.1\tlocalhost" in lines
    assert "10.240.0.9\tw-0.workers.slurm.svc.cluster.local\tw-0" in lines
    assert "1.2.3.4\ta\tb" in lines


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, f"nameserver 10.240.0.1\n{CLUSTER}\noptions ndots:5\n"),
        (
            {
                "dnsConfig": {
                    "searches": ["w.slurm.svc.cluster.local", "cluster.local"],
                    "options": [{"name": "rotate"}],
                }
            },
            f"nameserver 10.240.0.1\n{CLUSTER} w.slurm.svc.cluster.local\noptions ndots:5 rotate\n",
        ),
        (
            {"dnsConfig": {"options": [{"name": "ndots", "value": "1"}]}},
            f"nameserver 10.240.0.1\n{CLUSTER}\noptions ndots:1\n",
        ),
        ({"dnsPolicy": "Default"}, "host's\n"),
        ({"hostNetwork": True}, "host's\n"),
        ({"dnsPolicy": "None", "dnsConfig": {"nameservers": ["9.9.9.9"]}}, "nameserver 9.9.9.9\n"),
    ],
    ids=["cluster first", "searches are added", "options win", "the host's", "with the host's network", "none of ours"],
)
def test_names_are_looked_up(spec: dict[str, Any], expected: str, make_pod: MakePod) -> None:
    assert resolver.resolv_conf(make_pod(**spec), "10.240.0.1", "host's\n") == expected


@pytest.mark.parametrize("name", ["-F/etc/shadow", "a b", "a\nb", "$(id)", "ü"])
def test_a_host_name_is_a_name_and_no_option_of_a_command(name: str) -> None:
    """T14: the agent hands it to a command of the machine."""
    with pytest.raises(ConfigInvalid, match="host name"):
        resolver.hostname({"metadata": {"name": "w-0"}, "spec": {"hostname": name}})
