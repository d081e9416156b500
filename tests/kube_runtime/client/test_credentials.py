"""As whom we speak: tokens and certificates that are rotated under us, and plugins that give them."""

from __future__ import annotations

import os
from base64 import b64encode
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tests.kube_runtime.client.kubeconfigs import authorization, config, credential, exec_user, plugin_script, write

from kube_runtime.client import errors, kubeconfig
from kube_runtime.client.credentials import EXEC_VERSIONS, ExecPlugin, RotatedFile
from kube_runtime.client.timing import Timing


def test_a_file_that_vanishes_keeps_its_last_content(tmp_path: Path) -> None:
    file = RotatedFile(write(tmp_path / "token", "t"))
    assert file.read() == b"t"
    file.path.unlink()
    assert file.read() == b"t"


async def test_a_file_that_was_never_there_is_a_failed_login(tmp_path: Path) -> None:
    target = kubeconfig.load([write(tmp_path / "config", config(user={"tokenFile": "none"}))])
    with pytest.raises(errors.LoginFailed, match="none"):
        await target.credentials.current()


@pytest.mark.parametrize("version", EXEC_VERSIONS)
async def test_an_exec_plugin_of_either_version_gives_a_token(tmp_path: Path, version: str) -> None:
    command = plugin_script(tmp_path, credential(version, token="made"))
    user = exec_user(command, version, args=["a", "b"], env=[{"name": "EXTRA", "value": "x"}], provideClusterInfo=True)
    path = write(
        tmp_path / "config", config(user=user, cluster={"certificate-authority-data": b64encode(b"ca").decode()})
    )
    target = kubeconfig.load([path])
    assert await authorization(target) == "Bearer made"
    assert await authorization(target) == "Bearer made"
    (call,) = (tmp_path / "calls").read_text().splitlines()
    assert msgspec.json.decode(call) == {
        "apiVersion": version,
        "kind": "ExecCredential",
        "spec": {
            "interactive": False,
            "cluster": {"server": "https://one:6443", "certificate-authority-data": b64encode(b"ca").decode()},
        },
    }
    assert (tmp_path / "env").read_text() == "x a b"


async def test_an_exec_token_is_renewed_when_it_expires_or_is_refused(tmp_path: Path, waits: Any) -> None:
    timing: Timing = waits.timing
    until = (timing.clock.now() + timedelta(seconds=60)).isoformat()
    command = plugin_script(tmp_path, credential(EXEC_VERSIONS[0], token="t", expirationTimestamp=until))
    path = write(tmp_path / "config", config(user=exec_user(command, EXEC_VERSIONS[0])))
    source = kubeconfig.load([path], timing=timing).credentials

    def calls() -> int:
        return len((tmp_path / "calls").read_text().splitlines())

    for _ in range(3):
        await source.current()
    assert calls() == 1
    waits.elapsed = 55
    await source.current()
    assert calls() == 2
    waits.elapsed = 0
    source.refused()
    await source.current()
    assert calls() == 3


@pytest.mark.parametrize(
    ("answer", "code", "says"),
    [
        pytest.param("", 0, "no ExecCredential", id="nothing printed"),
        pytest.param("{}", 0, "no ExecCredential", id="an empty object"),
        pytest.param(credential(EXEC_VERSIONS[1], token="t"), 0, "answered in", id="another version"),
        pytest.param(credential(EXEC_VERSIONS[0]), 0, "neither a token", id="no credentials"),
        pytest.param(credential(EXEC_VERSIONS[0], clientCertificateData="c"), 0, "without its key", id="no key"),
        pytest.param("", 3, "code 3: it broke.*install it", id="a failure"),
    ],
)
async def test_a_plugin_that_fails_is_a_failed_login(tmp_path: Path, answer: str, code: int, says: str) -> None:
    command = plugin_script(tmp_path, answer, code=code)
    user = exec_user(command, EXEC_VERSIONS[0], installHint="install it")
    target = kubeconfig.load([write(tmp_path / "config", config(user=user))])
    with pytest.raises(errors.LoginFailed, match=says):
        await target.credentials.current()


async def test_a_plugin_that_is_not_there_says_how_to_get_it() -> None:
    plugin = ExecPlugin(EXEC_VERSIONS[0], "no-such-program", install_hint="apt install it")
    with pytest.raises(errors.LoginFailed, match="apt install it"):
        await plugin.current()


async def test_a_plugin_that_hangs_is_ended() -> None:
    plugin = ExecPlugin(EXEC_VERSIONS[0], "sleep", ("600",), env=dict(os.environ), seconds=0.1)
    with pytest.raises(errors.LoginFailed, match=r"within 0\.1 s"):
        await plugin.current()
