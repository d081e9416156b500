"""The demo beside what others have left: whose jobs it cancels, and how many workers it adds. The whole: tests/real."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tools import demo as made

from slurm_operator.cli.invocation import Typed
from slurm_operator.cli.waiting import Reason, Waited
from slurm_operator.local.home import Home


class Played(made.Demo):
    """A cluster in which nothing happens but what the demo does: new workers are idle at once."""

    def __init__(self, nodes: dict[str, str], replicas: int, said: dict[str, str] | None = None) -> None:
        super().__init__(Home(Path("/none")), "kubectl", Typed())
        self.there, self.wanted, self.said = nodes, replicas, said or {}
        self.typed_by_alice: list[str] = []

    def nodes(self, partition: str) -> dict[str, str]:  # noqa: ARG002 - all are of one
        return self.there

    def replicas(self) -> int:
        return self.wanted

    def scale(self, replicas: int) -> None:
        self.wanted = replicas
        self.there |= {f"compute-{n}": "idle" for n in range(replicas) if f"compute-{n}" not in self.there}

    def alice(self, line: str, *, quiet: bool = False) -> str:  # noqa: ARG002 - nobody looks
        self.typed_by_alice.append(line)
        return next((answer for start, answer in self.said.items() if line.startswith(start)), "")

    def watch(self, what: str, is_so: Callable[[], bool], about: Any, seconds: float) -> Waited:  # noqa: ARG002
        return Waited(is_so(), seconds, Reason("nothing happens"))


@pytest.mark.parametrize(
    ("states", "replicas", "after"),
    [
        (["idle", "idle"], 2, 2),
        (["mix", "mix"], 2, 4),
        (["idle", "drain"], 2, 3),
        (["mix", "mix", "drng"], 2, 5),
        (["idle", "idle", "alloc"], 3, 3),
        (["down", "alloc"], 2, 4),
        (["mix-", "plnd"], 2, 4),
    ],
    ids=[
        "nobody is there",
        "both are held",
        "one is drained",
        "one that leaves is held too",
        "enough is left",
        "one was set down",
        "Slurm has planned them for others",
    ],
)
def test_where_others_hold_nodes_workers_are_added(states: list[str], replicas: int, after: int) -> None:
    """A job on all nodes stopped the demo, and nothing said so (U2)."""
    played = Played({f"compute-{number}": state for number, state in enumerate(states)}, replicas)
    made.make_room(played)
    assert played.wanted == after


def test_workers_are_not_added_without_end() -> None:
    played = Played({f"compute-{number}": "alloc" for number in range(12)}, 2)
    with pytest.raises(made.DemoFailed):
        made.make_room(played)
    assert played.wanted == 2 + made.MAX_ADDED


def test_nodes_that_do_not_come_are_an_error_with_the_reason() -> None:
    with pytest.raises(made.DemoFailed, match="waiting until 2 nodes of compute are idle: nothing happens"):
        made.make_room(Played({"compute-0": "idle*"}, 2))


def test_only_jobs_of_an_earlier_demo_are_cancelled(capsys: pytest.CaptureFixture[str]) -> None:
    mine = made.MARK
    played = Played({}, 2, {"squeue": f"7 {mine}\n8 (null)\n9 my {mine}\n10\n11 {mine}"})
    made.cancel_earlier(played)
    assert played.typed_by_alice[1:] == ["scancel 7 11"]
    assert "left 2 jobs behind: 7, 11" in capsys.readouterr().out


def test_where_there_are_none_nothing_is_cancelled() -> None:
    played = Played({}, 2, {"squeue": "8 (null)\n"})
    made.cancel_earlier(played)
    assert len(played.typed_by_alice) == 1


def test_who_holds_a_node_is_named_by_job_or_reason() -> None:
    said = {"squeue -h -w compute-0": "job 2 (hold) of bob\n", "sinfo -h -n compute-1 -o %E": "bad disk\n"}
    played = Played({}, 2, {**said, "sinfo -h -n compute-0 -o %T": "mixed", "sinfo -h -n compute-1 -o %T": "drained"})
    assert list(made.holders(played, ["compute-0", "compute-1"])) == [
        "compute-0 is mixed: job 2 (hold) of bob",
        "compute-1 is drained: bad disk",
    ]


def test_a_nodeset_that_somebody_deleted_and_that_does_not_go_is_left_out(tmp_path: Path) -> None:
    folder = made.reduced(tmp_path, ["debug"])
    names = [each["metadata"]["name"] for each in yaml.safe_load_all((folder / "workers.yaml").read_text())]
    assert names == ["compute"]
    assert {path.name for path in folder.iterdir()} == {path.name for path in made.EXAMPLES.glob("*.yaml")}
