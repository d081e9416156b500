"""A wait says what it waits for, why, and what would help: one line on a terminal, a line for each news elsewhere."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest

from kube_runtime.errors import OperatorError
from slurm_operator.cli import waiting
from slurm_operator.cli.waiting import UNKNOWN, Reason, Waited, Waiting, reason_of, until
from slurm_operator.diagnose.cause import Cause, Fine, Unseen

BUSY = Reason("job 4 of bob holds compute-0", "scancel 4")
STARTING = Reason("pod compute-1 is starting")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Clock:
    """Seconds that a test lets pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def shown(out: io.StringIO, *steps: tuple[float, Reason]) -> str:
    """What is written when the reason becomes so at these seconds, looked at four times a second until the last."""
    clock = Clock()
    display = Waiting("the job runs", out, clock)
    for number in range(int(steps[-1][0] * 4) + 1):
        clock.now = 100.0 + number / 4
        for second, reason in steps:
            if second == number / 4:
                display.because(reason)
        display.show()
    display.close()
    return out.getvalue()


def test_elsewhere_each_new_reason_is_a_line_and_a_long_one_is_said_again_now_and_then() -> None:
    text = shown(io.StringIO(), (1.0, STARTING), (3.0, BUSY), (18.0, BUSY))
    assert text.splitlines() == [
        "[  2.0 s] waiting until the job runs: pod compute-1 is starting",
        "[  5.0 s] waiting until the job runs: job 4 of bob holds compute-0; scancel 4",
        "[ 15.0 s] still waiting until the job runs: job 4 of bob holds compute-0; scancel 4",
    ]


def test_progress_alone_is_no_news() -> None:
    further = (Reason(BUSY.sentence, BUSY.command, progress=f"{number} of 9 ready") for number in (3, 4))
    text = shown(io.StringIO(), (1.0, next(further)), (6.0, next(further)), (10.0, STARTING))
    assert text.splitlines() == [
        "[  2.0 s] waiting until the job runs: 3 of 9 ready; job 4 of bob holds compute-0; scancel 4",
        "[ 10.0 s] waiting until the job runs: pod compute-1 is starting",
    ]


def test_while_nobody_knows_the_reason_only_a_long_wait_is_told() -> None:
    text = shown(io.StringIO(), (15.0, UNKNOWN))
    assert text.splitlines() == ["[  6.0 s] waiting until the job runs: the reason is not known yet"]


@pytest.mark.parametrize("out", [io.StringIO(), Terminal()], ids=["a pipe", "a terminal"])
def test_what_is_over_at_once_needs_no_words(out: io.StringIO) -> None:
    assert shown(out, (0.5, STARTING), (1.5, STARTING)) == ""


def test_on_a_terminal_one_line_is_redrawn_and_erased_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    text = shown(Terminal(), (1.0, STARTING), (4.0, STARTING))
    assert "\n" not in text
    drawn = text.split("\r\x1b[K")
    assert drawn[1] == "   2 s  waiting until the job runs: pod compute-1 is start…"
    assert all(len(line) < 60 for line in drawn)
    assert drawn[-1] == ""


def test_on_a_terminal_a_reason_that_lasts_is_said_in_full_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    text = shown(Terminal(), (1.0, BUSY), (30.0, BUSY))
    lines = [line.rpartition("\x1b[K")[2] for line in text.split("\n")[:-1]]
    assert lines == ["[  7.0 s] waiting until the job runs: job 4 of bob holds compute-0; scancel 4"]


def test_foreign_words_do_nothing_to_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    text = shown(Terminal(), (1.0, Reason("evil\x1b[2J\r\nname", "x\x1b[1m")), (30.0, BUSY))
    assert "\x1b[2J" not in text
    assert "\x1b[1m" not in text


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (Cause("Busy", BUSY.sentence, BUSY.command), BUSY),
        (Unseen("there is no job 9", "squeue"), Reason("there is no job 9", "squeue")),
        (Fine("job 4 is running"), Reason("job 4 is running")),
    ],
    ids=["a cause", "nothing of that name", "nothing wrong"],
)
def test_a_diagnosis_is_a_reason(answer: Any, reason: Reason) -> None:
    assert reason_of(answer) == reason


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits as above, a hundred times as fast."""
    for name in (
        "SILENT_SECONDS",
        "REASON_POLL_SECONDS",
        "NEW_REASON_SECONDS",
        "SAME_REASON_SECONDS",
        "LASTING_REASON_SECONDS",
        "POLL_SECONDS",
    ):
        monkeypatch.setattr(waiting, name, getattr(waiting, name) / 100)


async def waits(answers: list[bool], why: Any, seconds: float = 60.0) -> Waited:
    """Asked until the answers end; the last one stays."""

    async def is_so() -> bool:
        return answers.pop(0) if len(answers) > 1 else answers[0]

    return await until("it is so", is_so, why, seconds, poll_seconds=0.01)


@pytest.mark.usefixtures("hasty")
async def test_it_is_asked_until_it_is_so_and_the_reason_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    async def why() -> Reason:
        return BUSY

    waited = await waits([False] * 20 + [True], why)
    assert waited.is_so
    assert waited.reason == BUSY
    assert "waiting until it is so: job 4 of bob holds compute-0; scancel 4" in capsys.readouterr().err


@pytest.mark.usefixtures("hasty")
async def test_it_ends_in_time_with_the_last_reason() -> None:
    async def why() -> Reason:
        return BUSY

    waited = await waits([False], why, seconds=0.3)
    assert (waited.is_so, waited.reason) == (False, BUSY)


@pytest.mark.usefixtures("hasty")
async def test_whoever_cannot_say_why_keeps_nobody_from_waiting() -> None:
    async def why() -> Reason:
        raise OperatorError("Slurm does not answer")

    waited = await waits([False] * 20 + [True], why)
    assert (waited.is_so, waited.reason.sentence) == (True, "the reason cannot be read: Slurm does not answer")


@pytest.mark.usefixtures("hasty")
async def test_a_slow_reason_delays_no_answer_and_is_not_waited_for() -> None:
    async def why() -> Reason:
        await asyncio.sleep(3600)
        return BUSY

    waited = await waits([False] * 20 + [True], why)
    assert waited.is_so


@pytest.mark.usefixtures("hasty")
async def test_a_question_that_takes_long_is_no_silence(capsys: pytest.CaptureFixture[str]) -> None:
    """On a busy machine one look at Slurm took half a minute, and nothing was said meanwhile."""
    answers, released = [True], asyncio.Event()

    async def is_so() -> bool:
        await released.wait()
        return answers.pop()

    async def why() -> Reason:
        asyncio.get_running_loop().call_later(0.2, released.set)
        return BUSY

    waited = await until("it is so", is_so, why, 60.0, poll_seconds=0.01)
    assert waited.is_so
    assert "waiting until it is so: job 4 of bob" in capsys.readouterr().err


@pytest.mark.usefixtures("hasty")
async def test_a_question_that_never_ends_ends_with_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "FIRST_CHECK_SECONDS", 0.1)

    async def never() -> Any:
        await asyncio.sleep(3600)

    assert not (await until("it is so", never, never, 0.1, poll_seconds=0.01)).is_so
