"""Which keys each Slurm knows: as many as its own parser, and no key of another version."""

from __future__ import annotations

import pytest

from slurm_operator.slurm.conf import Finding
from slurm_operator.slurm.conf_keys import (
    CGROUP_CONF,
    NODE_KEYS,
    PARTITION_KEYS,
    SLURM_CONF,
    SLURMDBD_CONF,
    Table,
)
from slurm_operator.slurm.conf_lint import lint
from slurm_operator.slurm.conf_values import parse_version


def conf(text: str, **context: object) -> list[Finding]:
    return lint({"slurm.conf": text}, **context)  # type: ignore[arg-type]  # each test names its own keywords


@pytest.mark.parametrize(
    ("table", "version", "count"),
    [
        (SLURM_CONF, "24.11", 233),
        (SLURM_CONF, "26.05", 248),
        (NODE_KEYS, "24.11", 25),
        (NODE_KEYS, "26.05", 29),
        (PARTITION_KEYS, "24.11", 45),
        (PARTITION_KEYS, "26.05", 47),
        (SLURMDBD_CONF, "24.11", 64),
        (SLURMDBD_CONF, "26.05", 72),
        (CGROUP_CONF, "24.11", 20),
        (CGROUP_CONF, "26.05", 22),
    ],
)
def test_the_tables_hold_as_many_keys_as_slurms_own_parser(table: Table, version: str, count: int) -> None:
    assert sum(key.span.objection(parse_version(version)) is None for key in table.values()) == count


@pytest.mark.parametrize(
    ("key", "version", "known"),
    [
        ("MetricsType=metrics/openmetrics", "25.05", False),
        ("MetricsType=metrics/openmetrics", "25.11", True),
        ("MetricsParameters=ignore_private_data", "25.11", False),
        ("MetricsParameters=ignore_private_data", "26.05", True),
        ("PrologTimeout=5", "24.11", False),
        ("PrologTimeout=5", "25.05", True),
        ("NodeName=a Topology=t:x", "24.11", False),
        ("NodeName=a Topology=t:x", "25.05", True),
        ("PartitionName=p Nodes=ALL Exclusive=USER", "25.11", False),
        ("PartitionName=p Nodes=ALL Exclusive=USER", "26.05", True),
        ("FrontendName=f", "25.05", False),
        ("MetricsType=metrics/openmetrics", None, True),
    ],
)
def test_a_key_of_another_version_is_an_error(key: str, version: str | None, known: bool) -> None:
    assert [finding.code for finding in conf(key, version=version)] == ([] if known else ["WrongVersion"])
