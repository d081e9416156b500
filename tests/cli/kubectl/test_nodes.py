"""`drain` and `undrain` claim what Slurm has confirmed, and say at once what keeps a worker drained."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.diagnose.broken import cluster, pod, resource

from kube_runtime.client.objects import ObjectMeta, RawObject
from slurm_operator.build import labels
from slurm_operator.cli.kubectl import gather, nodes
from slurm_operator.cli.kubectl.main import main
from slurm_operator.cli.kubectl.nodes import NO_NEW_JOBS, accepts_jobs, foreign_drain, lasting_drain, reason_on
from slurm_operator.diagnose.facts import Facts, Silence, Slurm, SlurmNode

OURS = "slurm-operator: pod cordoned"
RESUME = "kubectl slurm -n slurm shell -- scontrol update nodename=debug-0 state=resume"
POD: dict[str, Any] = {
    "kind": "Pod",
    "metadata": {"name": "debug-0", "namespace": "slurm", "uid": "u", "labels": labels.of_pod(labels.WORKER, "debug")},
    "spec": {"nodeName": "machine", "hostname": "debug-0"},
    "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
}
IDLE = SlurmNode("debug-0", frozenset({"IDLE"}))


def drained(reason: str = OURS, by: str = "") -> SlurmNode:
    return SlurmNode("debug-0", frozenset({"IDLE", "DRAIN"}), reason=reason, reason_by=by)


def world(node: SlurmNode | None, *, cordoned: bool = False) -> Facts:
    machine = {"kind": "Node", "metadata": {"name": "machine"}, "spec": {"unschedulable": cordoned}}
    slurm: Slurm | Silence = Slurm(nodes={"debug-0": node}) if node else Silence("slurmctld does not answer")
    return Facts("slurm", {"Pod": {"debug-0": POD}, "Node": {"machine": machine}}, slurm={"slurm": slurm})


class Changes:
    """A namespace in which Slurm says one thing after the other; the last one stays."""

    def __init__(self, *words: SlurmNode | None) -> None:
        self.words: Iterator[SlurmNode | None] = iter(words)
        self.namespace, self.client = "slurm", None
        self.cordons: list[bool] = []
        self.last: SlurmNode | None = None
        self.asked = 0

    async def workers(self) -> list[RawObject]:
        return [RawObject(ObjectMeta(name="debug-0", namespace="slurm", uid="u"), json.dumps(POD).encode())]

    async def cordon(self, pod: RawObject, on: bool) -> None:
        assert pod.metadata.name == "debug-0"
        self.cordons.append(on)

    async def gather(self, *_: Any) -> Facts:
        self.asked += 1
        self.last = next(self.words, self.last)
        return world(self.last)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    def invoke(changes: Changes, *arguments: str) -> Result:
        @asynccontextmanager
        async def changing(_: Any) -> AsyncIterator[Changes]:
            yield changes

        monkeypatch.setattr(nodes, "changing", changing)
        monkeypatch.setattr(gather, "gather", changes.gather)
        return CliRunner().invoke(main, [*arguments, "--timeout", "0.6"])

    return invoke


@pytest.mark.parametrize(
    ("node", "said"),
    [
        (drained("bad fan", "root"), "user root drained it: bad fan"),
        (drained(""), "somebody drained it: no reason was given"),
        (drained("Prolog error"), "Slurm itself drained it: Prolog error; resume it once that is fixed"),
    ],
    ids=["a person", "nobody knows", "Slurm"],
)
def test_undrain_says_at_once_who_drained_a_worker_and_what_lifts_it(run: Any, node: SlurmNode, said: str) -> None:
    changes = Changes(node)
    done = run(changes, "undrain", "debug-0")
    assert (done.exit_code, done.stdout, changes.asked) == (1, "", 1)
    assert done.stderr == f"Error: debug-0 stays drained: {said}; {RESUME}\n"


def test_undrain_gives_up_when_somebody_drains_the_worker_meanwhile(run: Any) -> None:
    done = run(Changes(drained(), drained("bad fan", "root")), "undrain", "debug-0")
    assert (done.exit_code, done.stdout) == (1, "")


def test_undrain_claims_nothing_before_slurm_has_confirmed_it(run: Any) -> None:
    changes = Changes(drained(), drained(), IDLE)
    done = run(changes, "undrain", "debug-0")
    assert (done.exit_code, done.stdout, changes.cordons) == (0, "Slurm confirms that debug-0 accepts jobs\n", [False])


def test_undrain_claims_nothing_when_slurm_does_not_answer(run: Any) -> None:
    done = run(Changes(None), "undrain", "debug-0")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "still not true that debug-0 accepts jobs" in done.stderr


def test_drain_claims_nothing_before_slurm_has_confirmed_it(run: Any) -> None:
    changes = Changes(IDLE, IDLE, drained())
    done = run(changes, "drain", "debug-0")
    assert (done.exit_code, done.output) == (0, "Slurm confirms that debug-0 takes no new jobs\n")
    assert changes.cordons == [True]


def test_drain_says_that_another_drain_will_stay(run: Any) -> None:
    done = run(Changes(drained("bad fan", "root")), "drain", "debug-0")
    assert (done.exit_code, done.stdout) == (0, "Slurm confirms that debug-0 takes no new jobs\n")
    assert "it was drained before: user root drained it: bad fan" in done.stderr


def down(*more: str, reason: str = "psu", by: str = "root") -> SlurmNode:
    return SlurmNode("debug-0", frozenset({"DOWN", *more}), reason=reason, reason_by=by)


@pytest.mark.parametrize("arguments", [["drain", "debug-0"], ["drain", "debug-0", "--wait"]])
@pytest.mark.parametrize(
    ("node", "said"),
    [
        (down(), "set down by root: psu"),
        (down("NOT_RESPONDING", reason="Not responding", by=""), "set down: Not responding"),
        (down(reason="", by=""), "no reason was given"),
    ],
    ids=["a person", "its slurmd is silent", "nobody knows"],
)
def test_drain_of_a_worker_that_is_down_is_kept_for_later(
    run: Any, node: SlurmNode, said: str, arguments: list[str]
) -> None:
    changes = Changes(node)
    done = run(changes, *arguments)
    assert (done.exit_code, done.stderr, changes.asked, changes.cordons) == (0, "", 1, [True])
    assert done.stdout == (
        f"Slurm confirms that debug-0 takes no new jobs\ndebug-0 is DOWN ({said}); it will be drained when it is back; "
        "kubectl slurm -n slurm undrain debug-0 undoes that\n"
    )


def test_a_worker_that_is_down_and_drained_is_drained(run: Any) -> None:
    done = run(Changes(down("DRAIN", reason=OURS, by="")), "drain", "debug-0", "--wait")
    assert (done.exit_code, "DOWN" in done.output) == (0, False)


def test_undrain_says_at_once_that_a_worker_stays_down(run: Any) -> None:
    changes = Changes(down())
    done = run(changes, "undrain", "debug-0")
    assert (done.exit_code, done.stdout, changes.asked, changes.cordons) == (1, "", 1, [False])
    assert done.stderr == (
        f"Error: debug-0 is no longer cordoned, and stays DOWN: debug-0 was set down by root: psu; {RESUME}\n"
    )


def test_undrain_waits_for_a_worker_whose_slurmd_may_come_back(run: Any) -> None:
    done = run(Changes(down("NOT_RESPONDING", reason="Not responding"), IDLE), "undrain", "debug-0")
    assert (done.exit_code, done.stdout) == (0, "Slurm confirms that debug-0 accepts jobs\n")


def test_drain_that_slurm_does_not_confirm_fails(run: Any) -> None:
    done = run(Changes(IDLE), "drain", "debug-0")
    assert (done.exit_code, done.stdout) == (1, "")


def test_a_cordoned_kubernetes_node_keeps_its_workers_drained() -> None:
    reason = lasting_drain(world(drained("slurm-operator: node cordoned"), cordoned=True), "debug-0")
    assert reason is not None
    assert reason.command == "kubectl uncordon machine"
    assert lasting_drain(world(drained()), "debug-0") is None


def test_only_a_drain_of_others_is_foreign() -> None:
    assert foreign_drain(world(drained()), "debug-0") is None
    assert foreign_drain(world(IDLE), "debug-0") is None
    assert foreign_drain(world(None), "debug-0") is None


@pytest.mark.parametrize("state", ["DRAIN", "DOWN", "NOT_RESPONDING"])
def test_a_node_that_is_down_accepts_no_jobs(state: str) -> None:
    assert accepts_jobs(world(IDLE), "debug-0")
    assert not accepts_jobs(world(SlurmNode("debug-0", frozenset({"IDLE", state}))), "debug-0")


def without_database() -> Facts:
    """A cluster whose database was scaled to nothing, so that the operator is kept from Slurm."""
    selector = {"app": "mariadb"}
    template = {"template": {"metadata": {"labels": selector}}}
    facts = cluster(
        resource("Controller", "slurm", {"accountingRef": {"name": "slurm"}}),
        resource("Accounting", "slurm", {"storageConfig": {"host": "mariadb"}}),
        pod("slurm-accounting-0", labels.ACCOUNTING, "slurm"),
        {"kind": "Service", "metadata": {"name": "mariadb"}, "spec": {"selector": selector}},
        {"kind": "StatefulSet", "metadata": {"name": "mariadb"}, "spec": {"replicas": 0, **template}},
    )
    return Facts("slurm", facts.objects, facts.slurm, databases={"slurm": "Unable to connect to database"})


def test_what_keeps_the_operator_from_a_drain_is_told() -> None:
    reason = reason_on(without_database(), "compute-0", NO_NEW_JOBS)
    assert reason.sentence == "the database does not run: StatefulSet mariadb is scaled to 0"
    assert reason.command == "kubectl -n slurm scale statefulset mariadb --replicas=1"


def test_a_drain_that_nothing_keeps_is_on_its_way() -> None:
    assert "does not show it as drained yet" in reason_on(cluster(), "compute-0", NO_NEW_JOBS).sentence
