"""Every name is computed, stands in the wire contract, and fits where it goes."""

from __future__ import annotations

import re
from typing import Any

import pytest
from tests.build.resources import (
    accounting,
    controller,
    external_controller,
    loginset,
    nodeset,
    restapi,
    token,
)

from slurm_operator.admission import rules
from slurm_operator.build import names
from slurm_operator.build.refs import Refs

LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$")


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        pytest.param(names.controller(controller("x")), "x-controller", id="controller"),
        pytest.param(names.controller_internal(controller("x")), "x-controller-internal", id="headless service"),
        pytest.param(names.controller_pod(controller("x"), 1), "x-controller-1", id="controller pod"),
        pytest.param(names.config(controller("x")), "x-config", id="configuration"),
        pytest.param(names.accounting(accounting("x")), "x-accounting", id="accounting"),
        pytest.param(names.restapi(restapi("x")), "x-restapi", id="rest api"),
        pytest.param(names.ssh_config(loginset("x")), "x-ssh-config", id="sshd of login pods"),
        pytest.param(names.ssh_config(nodeset("x")), "x-ssh-config", id="sshd of workers"),
        pytest.param(names.ssh_host_keys(loginset("x")), "x-ssh-host-keys", id="host keys"),
        pytest.param(names.workers_service("x"), "slurm-workers-x", id="service of all workers"),
        pytest.param(names.workers_pdb("x"), "slurm-workers-pdb-x", id="budget of all workers"),
        pytest.param(names.claim("scratch", nodeset("x"), "007"), "scratch-x-007", id="claim"),
        pytest.param(names.revision(nodeset("x"), "abc"), "x-abc", id="revision"),
        pytest.param(names.reservation(nodeset("x")), "SlurmOperatorMaint-x", id="reservation"),
        pytest.param(names.token_secret(token("x")), "x-jwt-alice", id="token"),
        pytest.param(names.token_secret(token("x", username="")), "x-jwt-nobody", id="token of nobody"),
        pytest.param(
            names.token_secret(token("x", secretRef={"name": "there", "key": "k"})), "there", id="token elsewhere"
        ),
        pytest.param(
            names.token_secret(token("x", secretRef={"key": "k"})), "x-jwt-alice", id="token with a key but no name"
        ),
        pytest.param(names.short_host("s", "ns"), "s.ns", id="short host"),
        pytest.param(names.long_host("s", "ns", "cluster.local"), "s.ns.svc.cluster.local", id="long host"),
    ],
)
def test_names_of_objects(actual: str, expected: str) -> None:
    assert actual == expected


@pytest.mark.parametrize(
    ("spec", "number", "pod", "hostname"),
    [
        pytest.param({}, 3, "x-3", "x-3", id="plain"),
        pytest.param({"ordinalPadding": 3}, 3, "x-003", "x-003", id="padded"),
        pytest.param({"ordinalPadding": 1}, 12, "x-12", "x-12", id="longer than the padding"),
        pytest.param({"template": {"spec": {"hostname": "gpu-"}}}, 3, "x-3", "gpu-3", id="prefix"),
        pytest.param(
            {"template": {"spec": {"hostname": "n"}}, "ordinalPadding": 2}, 3, "x-03", "n03", id="prefix and padding"
        ),
        pytest.param({"template": {"spec": {"hostname": ""}}}, 3, "x-3", "x-3", id="empty prefix"),
    ],
)
def test_names_of_workers(spec: dict[str, Any], number: int, pod: str, hostname: str) -> None:
    cr = nodeset("x", **spec)
    assert (names.worker(cr, number), names.worker_hostname(cr, number)) == (pod, hostname)


HA: dict[str, Any] = {"ha": {"enabled": True, "backups": 1}, "persistence": {"enabled": True, "existingClaim": "state"}}


@pytest.mark.parametrize(
    ("cr", "expected"),
    [
        pytest.param(controller(), "slurm-controller.hpc:6817", id="one controller"),
        pytest.param(external_controller(), "outside.example.org:16817", id="elsewhere"),
        pytest.param(
            controller(**HA),
            "slurm-controller-0.slurm-controller-internal.hpc:6817,"
            "slurm-controller-1.slurm-controller-internal.hpc:6817",
            id="a backup",
        ),
    ],
)
def test_configless_daemons_ask_every_controller(cr: Any, expected: str) -> None:
    assert names.conf_server(cr) == expected


@pytest.mark.parametrize(
    ("make", "longest", "children"),
    [
        pytest.param(
            controller,
            41,
            # A pod of a StatefulSet carries <set>-<10 characters> in a label.
            lambda cr: [f"{names.controller(cr)}-0123456789", names.controller_pod(cr, 0)],
            id="Controller",
        ),
        pytest.param(
            accounting,
            41,
            lambda cr: [f"{names.accounting(cr)}-0123456789", f"{names.accounting(cr)}-0"],
            id="Accounting",
        ),
        pytest.param(restapi, 55, lambda cr: [names.restapi(cr)], id="RestApi"),
        pytest.param(nodeset, 61, lambda cr: [names.worker(cr, 0)], id="NodeSet"),
        pytest.param(loginset, 63, lambda cr: [cr.name], id="LoginSet"),
    ],
)
def test_the_longest_admitted_name_leaves_room_for_its_children(make: Any, longest: int, children: Any) -> None:
    spec = {"clusterName": "short"} if make is controller else {}
    fits, too_long = make("a" * longest, **spec), make("a" * (longest + 1), **spec)
    assert not [str(each) for each in rules.check(fits, None, Refs()) if each.path == ("metadata", "name")]
    assert [each for each in rules.check(too_long, None, Refs()) if each.path == ("metadata", "name")]
    assert all(LABEL.match(child) for child in children(fits))
