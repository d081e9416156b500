"""Lines name their object, are one JSON object each, and never hold a secret."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime.loop.logs import log_fields, mask, mask_value, setup_logging

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjE4OTM0NTYwMDAsInN1biI6InNsdXJtIn0.c2lnbmF0dXJl-_x"
log = logging.getLogger("slurm_operator.test")

Style = Literal["auto", "json", "console"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def start() -> Iterator[Callable[..., io.StringIO]]:
    root = logging.getLogger()
    before, level = root.handlers[:], root.level

    def start(style: Style = "json", stream: io.StringIO | None = None, level: str = "info") -> io.StringIO:
        stream = stream or io.StringIO()
        setup_logging(level, style, stream)
        return stream

    yield start
    root.handlers[:] = before
    root.setLevel(level)


def line(stream: io.StringIO) -> dict[str, Any]:
    text = stream.getvalue()
    assert text.count("\n") == 1
    return dict(json.loads(text))


def test_a_json_line_has_time_level_logger_message_and_fields(start: Callable[..., io.StringIO]) -> None:
    stream = start()
    with log_fields(kind="NodeSet", namespace="slurm"), log_fields(name="gpu"):
        log.info("scaled to %d", 3, extra={"pods": ["gpu-0", "gpu-1"], "seconds": 0.5, "ready": True})
    entry = line(stream)
    assert entry.pop("time").endswith("+00:00")
    assert entry == {
        "level": "info",
        "logger": "slurm_operator.test",
        "message": "scaled to 3",
        "kind": "NodeSet",
        "namespace": "slurm",
        "name": "gpu",
        "pods": ["gpu-0", "gpu-1"],
        "seconds": 0.5,
        "ready": True,
    }


def test_fields_end_with_their_block(start: Callable[..., io.StringIO]) -> None:
    stream = start()
    with log_fields(name="gpu"):
        pass
    log.info("outside")
    assert "name" not in line(stream)


def test_a_field_cannot_replace_what_every_line_has(start: Callable[..., io.StringIO]) -> None:
    stream = start()
    log.info("true", extra={"level": "forged"})
    assert line(stream)["level"] == "info"


async def test_fields_follow_into_tasks_and_do_not_leak_between_them(start: Callable[..., io.StringIO]) -> None:
    stream = start()

    async def work(name: str) -> None:
        with log_fields(name=name):
            await asyncio.sleep(0)
            log.info("working on %s", name)

    await asyncio.gather(*(work(name) for name in "abc"))
    entries = [json.loads(text) for text in stream.getvalue().splitlines()]
    assert [(entry["name"], entry["message"]) for entry in entries] == [(n, f"working on {n}") for n in "abc"]


def test_a_traceback_and_a_stack_are_part_of_the_line_and_masked(start: Callable[..., io.StringIO]) -> None:
    stream = start()
    log.error("failed", exc_info=ValueError(f"refused Bearer {JWT}"), stack_info=True)
    trace = line(stream)["traceback"]
    assert "ValueError: refused Bearer ***" in trace
    assert "Stack (most recent call last)" in trace
    assert JWT not in trace


def test_a_wrong_format_string_loses_no_line(start: Callable[..., io.StringIO]) -> None:
    stream = start()
    log.info("two %s %s", *["one"])
    assert line(stream)["message"] == "two %s %s (arguments do not fit: ('one',))"


def test_a_terminal_gets_a_coloured_line_for_people(start: Callable[..., io.StringIO]) -> None:
    stream = start("auto", Terminal())
    with log_fields(kind="NodeSet", namespace="slurm", name="gpu", controller="NodeSet"):
        log.warning("drain waits", extra={"jobs": 2})
    text = stream.getvalue()
    assert "\033[33mWARNING\033[0m NodeSet slurm/gpu: drain waits controller=NodeSet jobs=2\n" in text


def test_a_console_line_without_a_terminal_has_no_colour_and_no_object(
    start: Callable[..., io.StringIO],
) -> None:
    stream = start("console")
    log.error("failed", exc_info=LookupError("gone"))
    text = stream.getvalue()
    assert "\033" not in text
    assert text.endswith("ERROR   failed\nLookupError: gone\n")


def test_a_cluster_wide_object_has_no_namespace_on_the_console(start: Callable[..., io.StringIO]) -> None:
    stream = start("console")
    with log_fields(kind="Node", namespace="", name="n1"):
        log.info("cordoned")
    assert "Node n1: cordoned" in stream.getvalue()


def test_the_level_is_respected_and_standard_error_is_the_default(
    start: Callable[..., io.StringIO], capsys: pytest.CaptureFixture[str]
) -> None:
    start()
    setup_logging("warning", "json")
    log.info("quiet")
    log.warning("loud")
    err = capsys.readouterr().err
    assert "quiet" not in err
    assert "loud" in err


@pytest.mark.parametrize(
    "template",
    [
        "X-SLURM-USER-TOKEN: {}",
        "x-slurm-user-token={}",
        '{{"X-SLURM-USER-TOKEN": "{}"}}',
        '{{\\"X-SLURM-USER-TOKEN\\": \\"{}\\"}}',
        "{{'X-SLURM-USER-TOKEN': '{}'}}",
        "(b'X-SLURM-USER-TOKEN', b'{}')",
        "curl -H 'X-SLURM-USER-TOKEN:{}' http://x",
        "Authorization: Bearer {}",
        "authorization: basic {}",
    ],
    ids=["header", "assignment", "json", "escaped json", "dict", "bytes", "curl", "bearer", "basic"],
)
@pytest.mark.parametrize("secret", ["s3cr3t-opaque_Value.9", JWT], ids=["opaque", "jwt"])
def test_tokens_are_masked_in_every_shape_of_text(template: str, secret: str) -> None:
    masked = mask(template.format(secret))
    assert secret not in masked
    assert "***" in masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (f"SLURM_JWT={JWT} srun", "SLURM_JWT=*** srun"),
        (JWT.rpartition(".")[0], "***"),
        (
            "-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY----- after",
            "-----EC PRIVATE KEY ***----- after",
        ),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "-----PRIVATE KEY ***-----"),
        ("the bearer of news", "the bearer of news"),
        ("node gpu-0 is in state IDLE+DRAIN", "node gpu-0 is in state IDLE+DRAIN"),
    ],
    ids=["bare jwt", "jwt without signature", "private key", "cut key", "prose", "plain"],
)
def test_secrets_are_masked_and_the_rest_is_left(text: str, masked: str) -> None:
    assert mask(text) == masked


@given(
    st.text(alphabet="abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_", min_size=12),
    st.text(max_size=30),
)
def test_no_token_survives_whatever_stands_around_it(secret: str, before: str) -> None:
    assert secret not in mask(f"{before} X-SLURM-USER-TOKEN: {secret}\n").removeprefix(before)


def test_fields_are_masked_by_name_and_by_shape(start: Callable[..., io.StringIO]) -> None:
    stream = start()
    log.info(
        "request",
        extra={
            "token": "opaque",
            "slurm_jwt": "opaque",
            "headers": {"Authorization": "opaque", "Accept": "json", "X-SLURM-USER-TOKEN": "opaque"},
            "values": (JWT, None, 3),
            "tokens_left": 4,
            "password": None,
        },
    )
    entry = line(stream)
    assert entry["token"] == entry["slurm_jwt"] == "***"
    assert entry["headers"] == {"Authorization": "***", "Accept": "json", "X-SLURM-USER-TOKEN": "***"}
    assert entry["values"] == ["***", None, 3]
    assert entry["tokens_left"] == 4
    assert entry["password"] is None


def test_any_object_can_be_a_field() -> None:
    assert mask_value("error", ValueError(f"Bearer {JWT}")) == "Bearer ***"
