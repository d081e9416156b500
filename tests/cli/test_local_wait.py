"""What `local up` says while it waits: the cause that `why` would find, with commands that run as printed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import yaml

from kube_local.apiserver import ApiServer
from slurm_operator.cli import local_wait
from slurm_operator.cli.invocation import Typed, program
from slurm_operator.cli.local_wait import _cause, _why, typed_reason
from slurm_operator.cli.waiting import Reason
from slurm_operator.diagnose.facts import Facts
from slurm_operator.local import cluster
from slurm_operator.local.home import Choices, Home, LocalError, write_whole
from slurm_operator.local.parts import client_of
from slurm_operator.local.readiness import State
from slurm_operator.reconcile.resources import OURS

MINIMAL = list(yaml.safe_load_all((Path(__file__).parents[2] / "examples" / "minimal.yaml").read_text()))


@pytest.fixture
async def home(tmp_path: Path) -> AsyncIterator[Home]:
    """A cluster of which only the API server runs."""
    home, server = Home(tmp_path), ApiServer()
    await server.start()
    write_whole(home.kubeconfig, server.kubeconfig().encode())
    home.keep(Choices(nodes=1))
    yield home
    await server.stop()


async def health(home: Home) -> cluster.Health:
    """Its health, as if its parts ran."""
    now = await cluster.health(home, cluster.keys_of(MINIMAL))
    return cluster.Health(**{name: getattr(now, name) for name in now.__struct_fields__ if name != "parts"}, parts=[])


async def test_the_first_cause_is_told_of_what_others_depend_on(home: Home) -> None:
    await cluster.apply(home, MINIMAL)
    reason = await _why(home, await health(home), is_early=False)
    assert reason.progress.endswith("objects not ready")
    assert reason.sentence.startswith("Controller slurm changed")
    assert reason.command == "kubectl -n slurm describe controller slurm"


async def test_a_part_that_does_not_run_is_told_first(home: Home) -> None:
    await cluster.apply(home, MINIMAL)
    now = await cluster.health(home)
    assert (await _why(home, now, is_early=False)).sentence.startswith("apiserver is not running")


@pytest.mark.parametrize("is_early", [True, False])
def test_what_every_start_looks_like_is_no_news_at_first(is_early: bool) -> None:
    claim = {"metadata": {"name": "state"}, "spec": {"storageClassName": ""}, "status": {"phase": "Pending"}}
    volume = {"name": "state", "persistentVolumeClaim": {"claimName": "state"}}
    pod = {"metadata": {"name": "a"}, "spec": {"volumes": [volume]}, "status": {"phase": "Pending"}}
    facts = Facts("slurm", {"Pod": {"a": pod}, "PersistentVolumeClaim": {"state": claim}})
    state = State(kind="Pod", namespace="slurm", name="a", ready=False, message="it is Pending")
    sentence = _cause(facts, state, is_early).sentence
    assert sentence == (
        "Pod slurm/a: it is Pending" if is_early else "claim 'state' of pod a is not bound: no volume fits it"
    )


def test_commands_are_those_of_this_cluster() -> None:
    reason = Reason("see slurm-operator local logs node", "kubectl -n slurm get pods")
    typed = typed_reason(reason, Typed("lab"))
    assert typed.sentence == f"see {program()} local logs --name=lab node"
    assert typed.command == f"{program()} local kubectl --name=lab -n slurm get pods"


async def test_what_somebody_is_deleting_is_waited_for_and_named_when_it_does_not_go(home: Home) -> None:
    await cluster.apply(home, MINIMAL)
    async with client_of(home) as client:
        keep = {"metadata": {"finalizers": ["nodeset.slinky.slurm.net/drain"]}}
        await client.merge_patch(OURS["NodeSet"].raw(), "compute", keep, "slurm")
        await client.delete(OURS["NodeSet"], "compute", "slurm")
    with pytest.raises(LocalError, match="NodeSet compute is still being deleted after 0 s"):
        # It has a loop of its own, as a command has.
        await asyncio.to_thread(local_wait.until_gone, home, MINIMAL, Typed(), 0)
