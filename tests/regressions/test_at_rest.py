"""What is at rest wakes when it has to, and what was begun is brought to its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.campaigns import sidecar
from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import NEW_KEY, REF, small
from tests.campaigns.slurm_model import NodeRecord
from tests.reconcile.test_polling import count_looks
from tests.slurm.replay import VERSIONS

from kube_runtime.loop import rest
from kube_runtime.loop.queue import Key
from slurm_operator.api.problem import FieldProblem
from slurm_operator.api.validate import Decoded, decode
from slurm_operator.build import labels
from slurm_operator.reconcile import observe
from slurm_operator.reconcile.partition import OUTCOME_SECONDS
from slurm_operator.reconcile.polling import POLL_SECONDS
from slurm_operator.slurm.transport import Sending
from slurm_operator.slurm.wire import Reply

MISTAKE = FieldProblem(("spec", "extraConf"), "is a mistake")
MERGE = "application/merge-patch+json"

# What is begun


async def with_a_worker_that_never_starts(world: World, replicas: int = 2) -> None:
    """The last is there and Slurm has never heard of it: its image cannot be pulled, say."""
    await small(world, replicas - 1)
    world.cluster.starts = lambda pod: pod["metadata"]["name"] != f"compute-{replicas - 1}"
    await world.patch("NodeSet", "compute", {"spec": {"replicas": replicas}})
    await world.run_for(60.0)
    assert sorted(world.pods()) == [f"compute-{number}" for number in range(replicas)]


def say_nothing_of(world: World, node: str, seconds: float) -> None:
    """For a while Slurm does not say whether it has a node of this name."""
    send, until = world.line.send, world.clock.monotonic() + seconds

    async def answer(sending: Sending, token: str) -> Reply:
        if sending.path.endswith(f"/node/{node}") and world.clock.monotonic() < until:
            return Reply(500, "text/plain", b"Unable to contact slurm controller")
        return await send(sending, token)

    world.line.send = answer  # type: ignore[method-assign]  # the model's own seam


@pytest.mark.parametrize("how", ["scale-in", "deletion"])
async def test_a_worker_that_never_started_goes_when_slurm_says_later_that_it_has_no_such_node(
    world: World, how: str
) -> None:
    await with_a_worker_that_never_starts(world)
    say_nothing_of(world, "compute-1", 30.0)
    if how == "scale-in":
        await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    else:
        await world.delete("NodeSet", "compute")
    await world.run_for(20.0)
    assert world.pods()["compute-1"]["metadata"]["annotations"][labels.CONDEMNED] == how
    await world.run_for(60.0)
    assert "compute-1" not in world.pods()


async def test_a_worker_that_never_started_keeps_no_new_key_waiting(world: World) -> None:
    await with_a_worker_that_never_starts(world)
    before = world.stored("statefulsets.apps", "slurm-controller")["spec"]["template"]["metadata"]["annotations"]
    await world.patch("Secret", "slurm-key", {"data": {"slurm.key": NEW_KEY}})
    await world.run_for(120.0)
    after = world.stored("statefulsets.apps", "slurm-controller")["spec"]["template"]["metadata"]["annotations"]
    assert after[labels.SLURM_KEY_HASH] != before[labels.SLURM_KEY_HASH]


async def test_a_worker_that_never_started_is_not_asked_for_again_while_others_keep_a_new_key_waiting(
    world: World,
) -> None:
    """It was asked for every second, and with it all jobs, as long as any job ran."""
    await with_a_worker_that_never_starts(world)
    run_elsewhere(world, 12)
    job = world.slurm.submit(3600.0)
    assert world.slurm.jobs[job].nodes == ("compute-0",)
    await world.run_for(60.0)
    await world.patch("Secret", "slurm-key", {"data": {"slurm.key": NEW_KEY}})
    await world.run_for(60.0)
    released = released_for(world, "compute-1")
    assert released is not None
    world.arm()
    await world.run_for(300.0)
    calls = Counter(world.calls)
    assert calls["GET jobs"] == 0
    assert calls["GET node"] <= 4
    assert released_for(world, "compute-1") == released
    assert world.trace == []
    world.slurm.end(job)
    await world.run_for(120.0)
    assert (world.stored("pods", "compute-1") or {}).get("metadata", {}).get("uid") != released[1]


def run_elsewhere(world: World, many: int) -> None:
    """So many jobs run on nodes of others."""
    schedule, world.slurm.schedule = world.slurm.schedule, lambda: None  # type: ignore[method-assign]  # by hand
    for _ in range(many):
        job = world.slurm.jobs[world.slurm.submit(100_000.0, "elsewhere")]
        job.state, job.nodes = "RUNNING", ("far-away",)
    world.slurm.schedule = schedule  # type: ignore[method-assign]  # as before
    world.slurm.touch("jobs")


def released_for(world: World, pod: str) -> tuple[str, str] | None:
    """For which key, and which pod it is."""
    meta = world.stored("pods", pod)["metadata"]
    key = meta["annotations"].get(labels.RELEASED_FOR_KEY)
    return (key, meta["uid"]) if key else None


async def start(world: World, pod: str) -> None:
    """Its image can be pulled after all."""
    world.cluster.starts = lambda _: True
    await world.patch("Pod", pod, {"metadata": {"annotations": {"touched": "yes"}}})
    await world.run_for(5.0)
    assert world.stored("pods", pod)["status"]["phase"] == "Running"


@pytest.mark.parametrize("why", ["a job is said to run there", "Slurm does not say", "its slurmd may still register"])
async def test_a_leaving_worker_without_a_record_is_not_asked_for_every_second(world: World, why: str) -> None:
    await with_a_worker_that_never_starts(world)
    run_elsewhere(world, 12)
    if why == "a job is said to run there":
        world.slurm.jobs[1].nodes = ("compute-1",)
        world.slurm.touch("jobs")
    elif why == "Slurm does not say":
        say_nothing_of(world, "compute-1", 10_000.0)
    await world.run_for(60.0)
    if why == "its slurmd may still register":
        world.slurm.register = lambda *_: None  # type: ignore[method-assign]  # its slurmd is slow
        await start(world, "compute-1")
    await world.patch("NodeSet", "compute", {"spec": {"replicas": 1}})
    await world.run_for(3.0)
    world.arm()
    await world.run_for(20.0)
    assert "compute-1" in world.pods()
    assert Counter(world.calls)["GET jobs"] <= 3


# What is at rest


async def at_rest(world: World, *partitions: str) -> None:
    """Everything is as it should be, and has been for long."""
    await small(world, 1)
    for name in partitions:
        await world.create("Partition", name, {**REF, "nodeSets": ["compute"]})
    await world.run_for(3000.0)


@pytest.fixture
def upgrade_slurmrestd(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Beside a new slurmctld there is an old slurmrestd, until this is called."""
    newest = VERSIONS["26.05"]
    monkeypatch.setitem(VERSIONS, "26.05", "v0.0.42")
    return lambda: VERSIONS.update({"26.05": newest})


@pytest.mark.parametrize("kind", ["NodeSet", "Controller"])
async def test_an_upgraded_slurmrestd_wakes_whoever_may_ask_more_of_it(
    upgrade_slurmrestd: Callable[[], None], world: World, kind: str
) -> None:
    """Not one answer was missing meanwhile, and no node, job or partition has changed."""
    await at_rest(world, "fast")
    looks = count_looks(world)
    upgrade_slurmrestd()
    await world.run_for(2 * POLL_SECONDS)
    assert looks[kind] >= 1


async def test_what_others_write_on_a_kubernetes_node_wakes_nobody_and_a_cordon_who_has_a_worker_there(
    world: World,
) -> None:
    await at_rest(world)
    await world.create("NodeSet", "other", {**REF, "replicas": 1})
    await world.run_for(600.0)
    (there,) = world.pods().values()
    woken = note_woken(world, "NodeSet")
    for number in range(10):
        for name in ("k0", "k1", "k2"):
            await annotate(world, name, **{"example.org/x": str(number)})
        await world.run_for(1.0)
    assert woken == []
    path = f"/api/v1/nodes/{there['spec']['nodeName']}"
    await world.ask("PATCH", path, {"spec": {"unschedulable": True}}, MERGE)
    await world.run_for(1.0)
    assert "DRAIN" in world.slurm.nodes["compute-0"].flags
    assert {key.name for key in woken} == {"compute"}


async def test_features_and_topology_of_a_kubernetes_node_reach_slurm_at_once(world: World) -> None:
    await at_rest(world)
    (there,) = world.pods().values()
    await annotate(world, there["spec"]["nodeName"], **{labels.FEATURES: "gpu", labels.TOPOLOGY: "default:s1"})
    await world.run_for(2.0)
    assert "k8s/gpu" in world.slurm.nodes["compute-0"].features
    assert world.stored("pods", "compute-0")["metadata"]["annotations"][labels.TOPOLOGY] == "default:s1"


async def annotate(world: World, node: str, **annotations: str) -> None:
    await world.ask("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"annotations": annotations}}, MERGE)


def note_woken(world: World, kind: str) -> list[Key]:
    """The keys of a kind that something wakes from now on."""
    assert world.operator is not None
    woken, controller = list[Key](), world.operator.controllers[kind]
    add = controller.add

    def listening(key: Key) -> None:
        woken.append(key)
        add(key)

    controller.add = listening  # type: ignore[method-assign]  # nothing else tells one key from another
    return woken


async def test_a_slurmd_that_missed_a_reconfigure_is_named_although_looks_are_rare(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The others restart at once, which is the last that Slurm tells; they are counted ten seconds later."""
    await small(world, 2)
    await world.create("Partition", "fast", {**REF, "nodeSets": ["compute"]})
    await world.run_for(600.0)
    monkeypatch.setattr(rest, "SECONDS_PER_KEY", 100.0)
    restart_slurmds(world, monkeypatch, missing="compute-1")
    # Taken back before it is kept: nothing becomes due by the history either.
    for text in ("MinJobAge=301\n", ""):
        await world.patch("Controller", "slurm", {"spec": {"extraConf": text}})
        await world.run_for(2.0)
    await world.run_for(30.0)
    (slurmd,) = [each for each in daemons(world) if each["daemon"] == "slurmd"]
    assert (slurmd["total"], slurmd["current"], slurmd.get("names")) == (2, 1, ["compute-1"])
    looks = count_looks(world)
    await world.run_for(30.0)
    assert looks["Controller"] == 0


def restart_slurmds(world: World, monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    """From now on each configuration that is read restarts all slurmds but one, and its verdict says when."""
    long_ago, said, shape = int(world.clock.now().timestamp()) - 3600, sidecar.verdict, world.slurm._node
    started = dict.fromkeys(world.slurm.nodes, long_ago)

    def verdict(*args: Any) -> str:
        now = int(world.clock.now().timestamp())
        started.update({name: now for name in started if name != missing})
        world.slurm.touch("nodes")
        return said(*args).replace(" at=0 ", f" at={now} ")

    def node(record: NodeRecord) -> dict[str, Any]:
        return shape(record) | {"slurmd_start_time": {"set": True, "infinite": False, "number": started[record.name]}}

    monkeypatch.setattr(sidecar, "verdict", verdict)
    monkeypatch.setattr(world.slurm, "_node", node)


async def test_a_login_that_has_gone_is_counted_no_more(world: World) -> None:
    await at_rest(world)
    await world.create("LoginSet", "login", {**REF, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}})
    meta = {"name": "login-x", "labels": {labels.NAME: labels.LOGIN.daemon, labels.INSTANCE: "login"}}
    spec = {"containers": [{"name": "login", "image": "example.org/login"}]}
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    await world.ask("POST", pods, {"metadata": meta, "spec": spec})
    await world.ask("PATCH", f"{pods}/login-x/status", {"status": {"phase": "Running"}}, MERGE)
    await world.run_for(3000.0)
    assert "login" in counted(world)
    # As with a deletion in the background: its pods go after it, and then nobody knows any more whose they were.
    await world.delete("LoginSet", "login")
    await world.run_for(5.0)
    await world.delete("Pod", "login-x")
    await world.run_for(20.0)
    assert "login" not in counted(world)


def daemons(world: World) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.custom("Controller", "slurm")["status"]["config"]["daemons"]
    return found


def counted(world: World) -> list[str]:
    return [each["daemon"] for each in daemons(world)]


@pytest.mark.parametrize("why", ["wrong", "going"])
async def test_a_partition_does_not_go_by_what_its_controller_left_before_it_was_reconciled_no_more(
    world: World, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    await at_rest(world, "fast")
    assert world.verdicts("Partition", "fast")["Ready"][0] == "True"
    if why == "wrong":
        refuse(monkeypatch, "Controller")
        await world.patch("Controller", "slurm", {"metadata": {"annotations": {"touched": "yes"}}})
    else:
        await world.patch("Controller", "slurm", {"metadata": {"finalizers": ["example.org/backup"]}})
        await world.delete("Controller", "slurm")
    await world.run_for(2 * OUTCOME_SECONDS)
    assert world.verdicts("Partition", "fast")["Ready"][0] != "True"


def refuse(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    """As if a newer operator found a mistake in what the API server has kept; it can be read nevertheless."""

    def refusing(raw: Any, *, served: bool = False) -> Decoded:
        decoded = decode(raw, served=served)
        return replace(decoded, resource=None, problems=(MISTAKE,)) if raw["kind"] == kind else decoded

    monkeypatch.setattr(observe, "decode", refusing)


async def test_a_record_goes_when_a_job_has_ended_that_may_have_required_any_node(world: World) -> None:
    """Slurm says nothing readable of what it requires, and the job itself holds no node."""
    await at_rest(world)
    world.slurm.schedule = lambda: None  # type: ignore[method-assign]  # there is no room for it
    number = world.slurm.submit(10.0)
    job_of = world.slurm._job
    world.slurm._job = lambda job: job_of(job) | {"required_nodes": 7}  # type: ignore[method-assign]  # of a new form
    left = replace(world.slurm.nodes["compute-0"], name="compute-7", base="DOWN", flags={"NOT_RESPONDING"})
    world.slurm.nodes["compute-7"] = left
    world.slurm.touch("nodes", "jobs")
    await world.run_for(3000.0)
    assert "compute-7" in world.slurm.nodes
    world.slurm.cancel_pending(number)
    await world.run_for(2 * POLL_SECONDS)
    assert "compute-7" not in world.slurm.nodes
