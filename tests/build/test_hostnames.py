"""Where two NodeSets would share a host name: held against the lists of all names."""

from __future__ import annotations

import itertools
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import hostnames, names


def nodeset(name: str = "w", hostname: str | None = None, **spec: Any) -> NodeSet:
    template = {"template": {"spec": {"hostname": hostname}}} if hostname is not None else {}
    raw = {"metadata": {"name": name}, "spec": {"controllerRef": {"name": "slurm"}, **template, **spec}}
    return msgspec.convert(raw, NodeSet)


def every(cr: NodeSet) -> set[str]:
    return {names.worker_hostname(cr, number) for number in range(cr.spec.replicas)}


PREFIXES = st.sampled_from(["a", "a-", "a0", "a1", "a10", "a-1", "b"])
SETS = st.builds(
    nodeset,
    name=st.sampled_from(["a", "b"]),
    hostname=st.none() | PREFIXES,
    replicas=st.integers(0, 1200),
    ordinalPadding=st.integers(0, 4),
)


@given(SETS, SETS)
def test_a_shared_name_is_found_exactly_when_there_is_one(one: NodeSet, other: NodeSet) -> None:
    both = every(one) & every(other)
    found = hostnames.shared(one, other)
    assert found in both if both else found == ""
    assert hostnames.shared(other, one) == found
    assert not both or hostnames.are_related(one, other)


@given(SETS, st.sampled_from(["a0", "a-0", "a10", "a-", "a-00", "b-7", "a-07", "a٣"]))
def test_a_name_is_of_a_nodeset_exactly_when_it_is_listed(cr: NodeSet, host: str) -> None:
    assert hostnames.has_number(cr, host) == (host in every(cr))


@pytest.mark.parametrize("spec", [{"scalingMode": "DaemonSet"}, {"template": {"spec": {"hostNetwork": True}}}])
def test_names_of_kubernetes_nodes_are_nobodys_numbers(spec: dict[str, Any]) -> None:
    one = nodeset(**spec, replicas=3)
    for pair in itertools.permutations((one, nodeset(replicas=3))):
        assert hostnames.shared(*pair) == ""
    assert not hostnames.has_number(one, "w-0")
