"""`logs` shows those of a resource that there is, and says so when there is none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from click.testing import CliRunner

from kube_runtime.client.client import Listing
from kube_runtime.client.errors import Forbidden, KubeError
from kube_runtime.client.objects import ObjectMeta, RawObject
from slurm_operator.cli.kubectl import pods
from slurm_operator.cli.kubectl.main import main


class Client:
    """An API server with one resource of each kind; or one that refuses to list them."""

    def __init__(self, error: KubeError | None = None) -> None:
        self.error = error

    async def list(self, *_: Any) -> Listing[RawObject]:
        if self.error is not None:
            raise self.error
        return Listing((RawObject(ObjectMeta(name="compute", namespace="slurm"), b"{}"),), "1")


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Any:
    def invoke(client: Client, target: str) -> tuple[int, str, list[list[str]]]:
        @asynccontextmanager
        async def connected(_: Any) -> AsyncIterator[tuple[Client, str]]:
            yield client, "slurm"

        ran: list[list[str]] = []
        monkeypatch.setattr(pods, "connected", connected)
        monkeypatch.setattr(pods, "kubectl", lambda _, arguments: ran.append(arguments))
        done = CliRunner().invoke(main, ["logs", target])
        return done.exit_code, done.output, ran

    return invoke


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("nodeset/nope", "there is no NodeSet 'nope' in namespace slurm; kubectl slurm -n slurm status"),
        ("controller/nope", "there is no Controller 'nope' in namespace slurm; kubectl slurm -n slurm status"),
        ("nodeset/comput", 'did you mean "compute"?'),
    ],
)
def test_logs_of_what_is_not_there_fail(run: Any, target: str, said: str) -> None:
    code, output, ran = run(Client(), target)
    assert (code, ran) == (1, [])
    assert said in output


@pytest.mark.parametrize("error", [None, Forbidden("nodesets is forbidden")], ids=["it is there", "nobody may know"])
def test_logs_of_what_is_there_are_kubectls(run: Any, error: KubeError | None) -> None:
    code, _, ran = run(Client(error), "nodeset/compute")
    assert code == 0
    assert ran[0][:2] == ["logs", "-l"]
