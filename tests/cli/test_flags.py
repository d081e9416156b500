"""Flags of the long-running commands: the Go operator's spellings, files and environment."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from slurm_operator.cli import flags
from slurm_operator.cli import run as running
from slurm_operator.cli.main import main
from slurm_operator.settings import Settings


@pytest.fixture
def settings(monkeypatch: pytest.MonkeyPatch) -> list[Settings]:
    """What `run` was to run with; the process itself is started elsewhere."""
    seen: list[Settings] = []

    def take(chosen: Settings) -> int:
        seen.append(chosen)
        return 0

    monkeypatch.setattr(running, "run_operator", take)
    return seen


@pytest.mark.parametrize(
    ("arguments", "field", "wanted"),
    [
        (["--leader-elect"], "leader_elect", True),
        (["--leader-elect=true"], "leader_elect", True),
        (["--leader-elect=false"], "leader_elect", False),
        (["--health-addr=:9081"], "health", ("0.0.0.0", 9081)),  # noqa: S104
        (["--metrics-addr=0"], "metrics", ("", 0)),
        (["--metrics-addr", "127.0.0.1:8443"], "metrics", ("127.0.0.1", 8443)),
        (["--metrics-secure"], "metrics_secure", True),
        (["--namespaces", "a, b"], "namespaces", ("a", "b")),
        (["--profile"], "profile", ("127.0.0.1", 6060)),
        (["--zap-log-level=warn", "--zap-encoder=console"], "profile", ("", 0)),
        (["--enable-http2=false", "--slurmclient-workers=2"], "profile", ("", 0)),
        (["-leader-elect"], "leader_elect", True),
        (["-leader-elect=false"], "leader_elect", False),
        (["-namespaces", "a,b", "-zap-log-level", "debug"], "namespaces", ("a", "b")),
        (["--zap-devel", "--zap-stacktrace-level=error", "--zap-time-encoding=iso8601"], "profile", ("", 0)),
        (["-zap-devel=true", "-metrics-addr", "0"], "metrics", ("", 0)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_flags_are_read_as_the_go_operator_reads_them(
    arguments: list[str], field: str, wanted: object, settings: list[Settings]
) -> None:
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 0, result.output
    assert getattr(settings[0], field) == wanted


def test_a_flag_wins_over_the_environment_which_wins_over_the_file(tmp_path: Path, settings: list[Settings]) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("namespaces: [file]\nnodeset-workers: 9\nleader-elect: true\nhealth-addr: ':1'\n")
    environment = {"SLURM_OPERATOR_NAMESPACES": "environment", "SLURM_OPERATOR_HEALTH_ADDR": ":2"}
    result = CliRunner().invoke(main, ["run", "--config", str(config), "--health-addr=:3"], env=environment)
    assert result.exit_code == 0, result.output
    assert settings[0].namespaces == ("environment",)
    assert settings[0].health[1] == 3
    assert settings[0].workers_of("NodeSet") == 9
    assert settings[0].leader_elect is True


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("namespace: a", "did you mean"),
        ("- a", "must be a mapping"),
        ("a: [", "config.yaml:1: not valid YAML: "),
        ("leader-elect: perhaps", "perhaps"),
        (f"namespaces: {'[' * 20_000}", "config.yaml:1: nested deeper than 100 levels"),
        (f"nodeset-workers: {'9' * 5000}", "is not a valid integer range"),
        ("namespaces: [[a]]", "config.yaml: namespaces must be text, a number, true or false, or a list of these"),
        ("namespaces: {a: b}", "config.yaml: namespaces must be text, a number"),
        ("namespaces: a\n---\nnamespaces: b\n", "config.yaml:3: a second document"),
        ("namespaces: &a [*a]", "config.yaml:1: alias *a stands inside &a itself"),
        ("namespaces: !!python/name:os.system ''", "config.yaml:1: tag !!python/name:os.system is not allowed"),
    ],
    ids=[
        "a wrong name",
        "a list",
        "no YAML",
        "a wrong value",
        "too deep",
        "a number of 5000 digits",
        "a list in a list",
        "a mapping as value",
        "two documents",
        "an endless alias",
        "a foreign tag",
    ],
)
def test_a_bad_file_is_named_with_what_is_wrong(content: str, said: str, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(content)
    result = CliRunner().invoke(main, ["run", "--config", str(config)])
    assert result.exit_code == 2
    assert said in " ".join(result.output.split())


@pytest.mark.parametrize(
    ("text", "level"),
    [("INFO", "info"), ("warn", "warning"), ("dpanic", "critical"), ("5", "debug")],
)
def test_levels_have_the_names_of_either_operator(text: str, level: str) -> None:
    assert flags.level(text) == level


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--namespaces", "slurm,My_Team"], '--namespaces: "My_Team" '),
        (["--restapi-address", "http://{svc}:{port}"], "may hold {service}, {namespace} and {port}"),
        (["--restapi-address", "slurmrestd:6820"], "'slurmrestd:6820': a slurmrestd address is http://HOST:PORT"),
        (["--log-level", "loud"], "unknown level 'loud'; it is one of debug, info"),
        (["--allow-pod-features", "hostNetwrk"], "unknown feature 'hostNetwrk'; it is one of "),
    ],
    ids=["namespace", "placeholder", "scheme", "level", "feature"],
)
def test_a_wrong_word_is_told_which_there_are(arguments: list[str], said: str) -> None:
    result = CliRunner().invoke(main, ["run", *arguments])
    assert result.exit_code == 2
    assert said in result.output


@pytest.mark.parametrize(
    "text", ["8080", "host:80", ":70000", ":x", "", f":{'9' * 5000}", ":²"], ids=lambda text: text[:9]
)
def test_an_address_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="--health-addr"):
        flags.address(text, "--health-addr")


@pytest.mark.parametrize(
    ("arguments", "level", "form"),
    [
        (["--zap-devel"], "debug", "console"),
        (["--zap-devel", "--zap-log-level=error"], "error", "console"),
        (["--zap-devel", "--zap-encoder=json"], "debug", "json"),
        (["--zap-devel=false"], "info", "auto"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_development_mode_of_the_go_operators_log_means_its_level_and_form(
    arguments: list[str], level: str, form: str, settings: list[Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    """C13: the flag was refused, and a Deployment with it did not start."""
    seen: list[tuple[str, str]] = []
    monkeypatch.setattr("kube_runtime.loop.logs.setup_logging", lambda *given: seen.append(given))
    assert CliRunner().invoke(main, ["run", *arguments]).exit_code == 0
    assert seen == [(level, form)]
    assert settings


def test_a_flag_without_effect_is_said_once(
    settings: list[Settings], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("kube_runtime.loop.logs.setup_logging", lambda *_: None)
    assert CliRunner().invoke(main, ["run", "-zap-time-encoding=epoch"]).exit_code == 0
    (said,) = (each.getMessage() for each in caplog.records)
    assert said.startswith("the flag --zap-time-encoding of the Go operator is accepted, but has no effect: times are")
    assert settings


def test_one_dash_makes_no_unknown_flag_known() -> None:
    result = CliRunner().invoke(main, ["run", "-leader-elekt"])
    assert result.exit_code == 2
