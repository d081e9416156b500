"""A runner of the command line, and a small cluster as files."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from slurm_operator.cli import manifests
from slurm_operator.cli.main import main

Run = Callable[..., Result]
Write = Callable[..., str]


@pytest.fixture
def run() -> Run:
    """Run `slurm-operator`; a traceback is a failure wherever it happens."""

    def invoke(*arguments: str, stdin: str | bytes | None = None) -> Result:
        result = CliRunner().invoke(main, list(arguments), input=stdin, prog_name="slurm-operator")
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exc_info
        assert "Traceback" not in result.output
        return result

    return invoke


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file and give its path."""

    def to(text: str | bytes, name: str = "a.yaml") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    return to


@pytest.fixture(params=["libyaml", "pure Python"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What reads YAML holds with and without libyaml."""
    loader = getattr(yaml, "CSafeLoader", None) if request.param == "libyaml" else yaml.SafeLoader
    if loader is None:
        pytest.skip("PyYAML was built without libyaml")
    monkeypatch.setattr(manifests, "_LOADER", loader)
