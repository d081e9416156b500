"""Labels are the contract of other people's selectors."""

from __future__ import annotations

import pytest

from slurm_operator.build import labels

COMPONENTS = [
    pytest.param(labels.CONTROLLER, "slurmctld", "controller", id="controller"),
    pytest.param(labels.ACCOUNTING, "slurmdbd", "accounting", id="accounting"),
    pytest.param(labels.RESTAPI, "slurmrestd", "restapi", id="restapi"),
    pytest.param(labels.LOGIN, "login", "login", id="login"),
    pytest.param(labels.WORKER, "slurmd", "worker", id="worker"),
]


@pytest.mark.parametrize(("component", "daemon", "role"), COMPONENTS)
def test_objects_selectors_and_pods(component: labels.Component, daemon: str, role: str) -> None:
    selector = {"app.kubernetes.io/name": daemon, "app.kubernetes.io/instance": "x"}
    assert labels.selector(component, "x") == selector
    assert labels.of(component, "x") == {**selector, "app.kubernetes.io/component": role}
    assert labels.of_pod(component, "x") == {**labels.of(component, "x"), "slinky.slurm.net/component": daemon}


def test_the_selector_of_the_scale_subresource_is_sorted_text() -> None:
    assert labels.selector_text(labels.WORKER, "x") == "app.kubernetes.io/instance=x,app.kubernetes.io/name=slurmd"


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        (labels.CLUSTER, "slinky.slurm.net/cluster"),
        (labels.POD_NAME, "nodeset.slinky.slurm.net/pod-name"),
        (labels.POD_INDEX, "nodeset.slinky.slurm.net/pod-index"),
        (labels.POD_HOSTNAME, "nodeset.slinky.slurm.net/pod-hostname"),
        (labels.POD_PROTECT, "nodeset.slinky.slurm.net/pod-protect"),
        (labels.SCALING_MODE, "nodeset.slinky.slurm.net/scaling-mode"),
        (labels.REVISION, "controller.kubernetes.io/hash"),
        (labels.POD_CORDON, "nodeset.slinky.slurm.net/pod-cordon"),
        (labels.OLD_POD_CORDON, "slinky.slurm.net/pod-cordon"),
        (labels.POD_DELETION_COST, "nodeset.slinky.slurm.net/pod-deletion-cost"),
        (labels.POD_DEADLINE, "nodeset.slinky.slurm.net/pod-deadline"),
        (labels.NODE_CORDON_REASON, "nodeset.slinky.slurm.net/node-cordon-reason"),
        (labels.HOSTNAME_OVERRIDE, "nodeset.slinky.slurm.net/hostname-override"),
        (labels.TOPOLOGY, "topology.slinky.slurm.net/spec"),
        (labels.FEATURES, "features.slinky.slurm.net/spec"),
        (labels.SLURM_KEY_HASH, "slinky.slurm.net/slurm-key-hash"),
        (labels.JWT_KEY_HASH, "slinky.slurm.net/jwt-key-hash"),
        (labels.CONFIG_HASH, "slinky.slurm.net/slurm-config-hash"),
        (labels.SLURMDBD_CONF_HASH, "slinky.slurm.net/slurmdbd-conf-hash"),
        (labels.SSHD_CONF_HASH, "slinky.slurm.net/sshd-conf-hash"),
        (labels.SSSD_CONF_HASH, "slinky.slurm.net/sssd-conf-hash"),
        (labels.SSH_HOST_KEYS_HASH, "slinky.slurm.net/ssh-host-keys-hash"),
        (labels.WORKER_TAINT, "nodeset.slinky.slurm.net/worker"),
        (labels.RESERVATION_FINALIZER, "nodeset.slinky.slurm.net/reservation"),
    ],
)
def test_keys_on_the_wire(actual: str, expected: str) -> None:
    assert actual == expected
