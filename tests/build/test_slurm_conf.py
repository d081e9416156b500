"""slurm.conf: sections in their order, checked values, lines that always come out the same."""

from __future__ import annotations

from typing import Any

import pytest
from tests.build.resources import accounting, controller, external_controller, nodeset, partition, refs

from slurm_operator.build import slurm_conf as build
from slurm_operator.build.errors import BuildError, InvalidSpec
from slurm_operator.build.slurm_conf import slurm_conf
from slurm_operator.slurm import conf, hostlist

SECTIONS = [
    "GENERAL",
    "LOGGING",
    "PLUGINS & PARAMETERS",
    "ACCOUNTING",
    "SLURMCTLD PROLOG & EPILOG",
    "PROLOG & EPILOG",
    "NODESET & PARTITION",
    "EXTRA CONFIG",
    "MERGED CONFIG",
]


@pytest.mark.parametrize(
    ("enabled", "config", "lines"),
    [
        pytest.param(True, None, ["PartitionName=foo Nodes=foo "], id="empty: the line ends in a blank"),
        pytest.param(True, "Default=YES", ["PartitionName=foo Nodes=foo Default=YES"], id="one option"),
        pytest.param(
            True,
            "MaxTime=24:00:00 Default=YES",
            ["PartitionName=foo Nodes=foo MaxTime=24:00:00 Default=YES"],
            id="two options",
        ),
        pytest.param(False, None, [], id="disabled"),
        pytest.param(False, "Default=YES", [], id="disabled, whatever the options"),
    ],
)
def test_the_partition_of_a_nodeset(enabled: bool, config: str | None, lines: list[str]) -> None:
    wish = {"enabled": enabled, **({"config": config} if config else {})}
    text = slurm_conf(controller(), refs(nodeset("foo", partition=wish))).text
    assert [line for line in text.split("\n") if line.startswith("PartitionName=")] == lines
    assert "NodeSet=foo Feature=foo\n" in text


def everything() -> tuple[Any, Any]:
    scripts = [{"name": "scripts"}]
    cr = controller(
        accountingRef={"name": "books"},
        prologScriptRefs=scripts,
        prologSlurmctldScriptRefs=scripts,
        extraConf="AuthInfo=cred_expire=9\n",
    )
    return cr, refs(cr, accounting(), nodeset(), config_maps={"scripts": {"a.sh": ""}})


def test_the_sections_stand_in_their_order() -> None:
    text = slurm_conf(*everything()).text
    headers = [line.strip("# ") for line in text.splitlines() if line.startswith("### ")]
    assert headers == SECTIONS
    assert text.endswith("\n")
    assert "\n\n" not in text


def test_sections_without_lines_are_left_out() -> None:
    headers = [line.strip("# ") for line in slurm_conf(controller(), refs()).text.splitlines() if "###" in line]
    assert headers == SECTIONS[:4]


def test_our_own_reader_reads_it_back() -> None:
    text = slurm_conf(*everything()).text
    document = conf.parse(text)
    assert not document.findings
    assert document.get("ClusterName") == "hpc_slurm"
    assert document.get("AuthInfo") == "cred_expire=9,use_client_ids"


@pytest.mark.parametrize(
    ("replicas", "daemon", "nodes", "room"),
    [
        pytest.param(0, False, 0, 1024, id="none"),
        pytest.param(512, False, 0, 1024, id="half of the least"),
        pytest.param(513, False, 0, 2048, id="one more"),
        pytest.param(40000, False, 0, 65533, id="never more than Slurm has"),
        pytest.param(40000, True, 700, 2048, id="one on each Kubernetes node"),
    ],
)
def test_room_for_nodes(replicas: int, daemon: bool, nodes: int, room: int) -> None:
    mode = "DaemonSet" if daemon else "StatefulSet"
    assert build.max_node_count([nodeset(replicas=replicas, scalingMode=mode)], nodes) == room


@pytest.mark.parametrize(
    ("extra", "merged"),
    [
        pytest.param("", [], id="nothing"),
        pytest.param("AuthInfo=", [], id="no value"),
        pytest.param("AuthInfo=ttl=5", [("AuthInfo", "ttl=5,use_client_ids")], id="an item"),
        pytest.param("authinfo=TTL=5", [("AuthInfo", "TTL=5,use_client_ids")], id="case of keys does not matter"),
        pytest.param("AuthInfo=USE_CLIENT_IDS", [("AuthInfo", "use_client_ids")], id="an item that we have"),
        pytest.param("AuthInfo=a=1\nAuthInfo=b=2", [("AuthInfo", "b=2,use_client_ids")], id="the last one counts"),
        pytest.param('AuthInfo="a=1, b=2"', [], id="spaces"),
        pytest.param(
            "AuthAltParameters=jwt_key=/mine,x",
            [("AuthAltParameters", "jwt_key=/etc/slurm/jwt.key,x")],
            id="our key wins",
        ),
        pytest.param("AuthInfo=a,,b", [("AuthInfo", "a,b,use_client_ids")], id="empty items"),
    ],
)
def test_lists_of_operator_and_user_are_merged(extra: str, merged: list[Any]) -> None:
    assert list(build.merged(conf.parse(extra), build.managed(controller(), live_partitions=False))) == merged


@pytest.mark.parametrize(
    ("cr", "more", "path"),
    [
        pytest.param(controller(clusterName="a b"), {}, ("spec", "clusterName"), id="cluster name"),
        pytest.param(controller("s" * 40), {}, ("spec", "clusterName"), id="cluster name that is made too long"),
        pytest.param(controller(extraConf="A=b\x07"), {}, ("spec", "extraConf"), id="control character"),
        pytest.param(controller(extraConf="A=b\\"), {}, ("spec", "extraConf"), id="open end"),
        pytest.param(
            controller(prologScriptRefs=[{"name": "gone"}]),
            {},
            ("spec", "prologScriptRefs", 0, "name"),
            id="scripts that are missing",
        ),
        pytest.param(
            controller(epilogSlurmctldScriptRefs=[{"name": "odd"}]),
            {"config_maps": {"odd": {"a b.sh": ""}}},
            ("spec", "epilogSlurmctldScriptRefs", 0, "name"),
            id="a script that cannot be named",
        ),
        pytest.param(
            external_controller(externalConfig={"host": "a b", "port": 1}),
            {},
            ("spec", "externalConfig", "host"),
            id="a host that is none",
        ),
        pytest.param(
            external_controller(externalConfig=None), {}, ("spec", "externalConfig"), id="elsewhere, but not where"
        ),
    ],
)
def test_what_cannot_be_written_names_its_field(cr: Any, more: dict[str, Any], path: tuple[object, ...]) -> None:
    with pytest.raises(BuildError) as caught:
        slurm_conf(cr, refs(cr, **more))
    assert caught.value.path == path


def test_a_nodeset_that_slurm_cannot_name() -> None:
    odd = nodeset(template={"spec": {"hostname": "a_b c"}})
    with pytest.raises(InvalidSpec, match="is not a Slurm name"):
        slurm_conf(controller(), refs(odd))


@pytest.mark.parametrize("value", ["a b", "a\nb", 'a"b', "", "a#b"])
def test_the_writer_takes_no_value_that_would_become_another_line(value: str) -> None:
    with pytest.raises(InvalidSpec, match="Key: "):
        build.write([("GENERAL", [("Key", value)])])


@pytest.mark.parametrize(
    ("extra", "nodes", "default"),
    [
        pytest.param("NodeName=a[1-2]", {"a1", "a2"}, None, id="nodes"),
        pytest.param("NodeName=a[1-", set(), None, id="a host list that is none"),
        pytest.param("PartitionName=p Nodes=ALL Default=yes", set(), "p", id="a default"),
        pytest.param("PartitionName=p Nodes=ALL Default=no", set(), None, id="no default"),
        pytest.param(
            "PartitionName=p Nodes=ALL Default=yes\nPartitionName=q Nodes=ALL Default=yes", set(), "q", id="the last"
        ),
    ],
)
def test_what_extra_conf_claims(extra: str, nodes: set[str], default: str | None) -> None:
    found = build.claimed(conf.parse(extra))
    assert (set(found.nodes), found.default) == (nodes, default)


def test_verdicts_come_with_the_text() -> None:
    world = refs(nodeset("a"), partition("p", nodeSets=["a"]), partition("q", nodeSets=["gone"]))
    assert [(each.resource, each.accepted) for each in slurm_conf(controller(), world).partitions] == [
        ("p", True),
        ("q", False),
    ]


def test_all_nodes_of_extra_conf_cross_checks_are_bounded() -> None:
    """T3: each line may name a hundred thousand hosts, and a file has tens of thousands of lines."""
    text = "".join(f"NodeName=n{at}-[0-99999]\n" for at in range(200))
    found = build.claimed(conf.parse(text))
    assert len(found.nodes) == hostlist.MAX_NAMES
    assert build.claimed(conf.parse(text), with_nodes=False).nodes == frozenset()


def test_extra_conf_declares_so_many_partitions_and_no_more() -> None:
    lines = [f"PartitionName=p{number} Nodes=ALL" for number in range(2001)]
    with pytest.raises(InvalidSpec, match="declares 2001 partitions; at most 2000"):
        build.claimed(conf.parse("\n".join(lines)))
    assert len(build.claimed(conf.parse("\n".join(lines[1:]))).partitions) == 2000
