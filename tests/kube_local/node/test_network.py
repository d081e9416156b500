"""Address ranges, names of links, and the script that makes a pod's network."""

from __future__ import annotations

import os
import threading
from ipaddress import IPv4Network
from pathlib import Path

import pytest

from kube_local.node import network
from kube_local.node.errors import CannotRunPods, SandboxFailed
from kube_local.node.network import Addresses, Network
from kube_local.node.paths import Paths

NET = Network("slk01234567", "10.240.16.0/20")


@pytest.mark.parametrize(
    ("taken", "expected"),
    [
        ([], "10.240.0.0/20"),
        (["10.240.0.0/20", "10.240.20.0/24", "192.168.0.0/16"], "10.240.32.0/20"),
        (["10.240.0.0/13"], "10.248.0.0/20"),
    ],
    ids=["nothing taken", "a neighbour and a part", "half of it"],
)
def test_the_first_range_that_nobody_uses_is_taken(taken: list[str], expected: str) -> None:
    assert str(network.free_range(IPv4Network(each) for each in taken)) == expected


def test_services_have_a_range_of_their_own_which_must_be_free_as_well() -> None:
    assert str(NET.services) == "10.224.16.0/20"
    assert str(network.free_range([IPv4Network("10.224.0.7/32")])) == "10.240.16.0/20"


def test_a_machine_without_a_free_range_is_told() -> None:
    with pytest.raises(CannotRunPods, match="is in use on this machine"):
        network.free_range([IPv4Network("10.0.0.0/8")])


def test_names_and_hardware_addresses_follow_the_address() -> None:
    assert network.mac("10.240.16.9") == "0a:58:0a:f0:10:09"
    assert network.link(NET, "10.240.31.254") == "slk01234567pffe"
    assert len(network.link(NET, "10.240.31.254")) == 15
    assert NET.gateway == "10.240.16.1"


def test_every_name_comes_from_the_data_folder(tmp_path: Path) -> None:
    one, other = Paths.of(tmp_path / "a"), Paths.of(tmp_path / "a" / ".." / "b")
    assert one.prefix != other.prefix
    assert Paths.of(tmp_path / "x" / ".." / "a") == one
    assert one.pod("u").netns == f"{one.prefix}-u"
    assert len(one.bridge) == 11
    deep = Paths.of(tmp_path / ("d" * 120))
    assert len(str(deep.socket)) < 100


def test_addresses_go_round_before_one_is_used_again() -> None:
    addresses = Addresses(Network("b", "10.240.0.0/29"))
    first = addresses.take()
    assert first == "10.240.0.2"
    addresses.give_back(first)
    assert [addresses.take() for _ in range(5)] == [f"10.240.0.{number}" for number in (3, 4, 5, 6, 2)]
    with pytest.raises(SandboxFailed, match="no address is left"):
        addresses.take()


def test_a_host_name_cannot_become_a_command(tmp_path: Path) -> None:
    script = network.attach_script(NET, Paths(tmp_path).pod("u"), "10.240.16.5", "x; rm -rf /")
    assert "hostname 'x; rm -rf /'" in script
    assert "netns add" not in network.attach_script(NET, Paths(tmp_path).pod("u"), "", "x")


@pytest.mark.skipif(os.geteuid() != 0, reason="a bridge needs root")
def test_parts_that_start_at_once_agree_on_one_range(tmp_path: Path) -> None:
    found: list[Network] = []
    together = [threading.Thread(target=lambda: found.append(network.ensure(tmp_path))) for _ in range(4)]
    try:
        for thread in together:
            thread.start()
        for thread in together:
            thread.join(30)
        assert found == [network.load(tmp_path)] * 4
    finally:
        network.remove(tmp_path)
