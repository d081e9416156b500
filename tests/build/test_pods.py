"""Parts of pods: probes, volumes, security contexts, and overlays that do not fit."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from kube_local.node.environment import expand, expand_all
from slurm_operator.api.meta import PodTemplate, SecretKeySelector
from slurm_operator.build import labels, pods
from slurm_operator.build.errors import InvalidSpec

REF = SecretKeySelector(name="s", key="k")


@pytest.mark.parametrize("name", ["initconf.sh", "logfile.sh"])
def test_scripts_are_read_once_and_are_shell(name: str) -> None:
    text = pods.script(name)
    assert pods.script(name) is text
    subprocess.run(["sh", "-n", "-c", text], check=True)


@pytest.mark.parametrize("name", ["initconf.sh", "logfile.sh", "worker_trial.sh"])
def test_the_kubelet_reads_no_variable_into_a_script(name: str) -> None:
    """Kubernetes takes any printable name: one may be called like a part of the script."""
    text = pods.script(name)
    variables = dict.fromkeys(re.findall(r"\$\(([^)]*)\)", text), '"; echo code of a variable; : "')
    assert expand(pods.shell(name)[-1], variables) == text


class LogSidecar:
    """The script of the log sidecar, running on a log file."""

    def __init__(self, log: Path, **environment: str) -> None:
        self.log = log
        self.process = subprocess.Popen(
            # As the kubelet hands it over.
            expand_all(pods.log_sidecar("slurmd.log", "image", {})["command"], {}),
            env={**os.environ, "SOCKET": str(log), "LOOK_SECONDS": "0.05", **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            # Its children end with it.
            start_new_session=True,
        )

    def __enter__(self) -> LogSidecar:
        while not self.log.is_file() or self.log.is_symlink():
            time.sleep(0.01)
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()

    def line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().decode()

    def write(self, text: str) -> None:
        with self.log.open("a") as written:
            written.write(text)


@pytest.mark.parametrize("before", ["nothing", "a link", "a pipe"])
def test_the_log_sidecar_prints_what_comes_into_a_file_of_its_own(tmp_path: Path, before: str) -> None:
    """A link that somebody put there is neither read nor written through."""
    log, elsewhere = tmp_path / "slurm" / "slurmd.log", tmp_path / "elsewhere"
    elsewhere.write_text("untouched\n")
    log.parent.mkdir()
    match before:
        case "a link":
            log.symlink_to(elsewhere)
        case "a pipe":
            os.mkfifo(log)
    with LogSidecar(log) as sidecar:
        assert log.stat().st_mode & 0o777 == 0o660
        sidecar.write("one line\n")
        assert sidecar.line() == "one line\n"
        # Whoever reads the file takes nothing away (U9).
        assert log.read_text() == "one line\n"
        sidecar.write("another\n")
        assert sidecar.line() == "another\n"
    assert elsewhere.read_text() == "untouched\n"


def test_a_log_sidecar_that_restarts_goes_on_with_the_file_that_the_daemon_has_open(tmp_path: Path) -> None:
    log = tmp_path / "slurmd.log"
    with LogSidecar(log) as sidecar, log.open("a", buffering=1) as daemon:
        daemon.write("first\n")
        assert sidecar.line() == "first\n"
        with LogSidecar(log) as again:
            assert again.line() == "first\n"
            daemon.write("second\n")
            assert again.line() == "second\n"


def test_a_full_log_file_begins_anew_and_the_daemon_keeps_writing_to_it(tmp_path: Path) -> None:
    log, elsewhere = tmp_path / "slurmd.log", tmp_path / "elsewhere"
    elsewhere.write_text("untouched\n")
    (tmp_path / "slurmd.log.1").symlink_to(elsewhere)
    with LogSidecar(log, MAX_BYTES="100") as sidecar, log.open("a", buffering=1) as daemon:
        long = "x" * 200 + "\n"
        daemon.write(long)
        assert sidecar.line() == long
        while log.stat().st_size:
            time.sleep(0.01)
        daemon.write("after\n")
        assert sidecar.line() == "after\n"
        assert log.read_text() == "after\n"
        assert (tmp_path / "slurmd.log.1").read_text() == long
    assert elsewhere.read_text() == "untouched\n"


def test_a_log_sidecar_ends_when_it_is_asked_to(tmp_path: Path) -> None:
    with LogSidecar(tmp_path / "slurmd.log") as sidecar:
        sidecar.write("last words\n")
        assert sidecar.line() == "last words\n"
        sidecar.process.terminate()
        assert sidecar.process.wait(timeout=10) == 0


@pytest.mark.parametrize(
    ("http", "alive", "ready"),
    [
        pytest.param(
            True,
            {"httpGet": {"path": "/livez", "port": "p"}},
            {"httpGet": {"path": "/readyz", "port": "p"}},
            id="a daemon that answers HTTP",
        ),
        pytest.param(False, {"tcpSocket": {"port": "p"}}, {"tcpSocket": {"port": "p"}}, id="an older one"),
    ],
)
def test_probes(http: bool, alive: Any, ready: Any) -> None:
    patient = {**alive, "failureThreshold": 6, "periodSeconds": 10}
    assert pods.daemon_probes("p", http=http) == {
        "startupProbe": patient,
        "livenessProbe": patient,
        "readinessProbe": ready,
    }


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        pytest.param(pods.mount("v", "/p"), {"name": "v", "mountPath": "/p"}, id="mount"),
        pytest.param(
            pods.mount("v", "/p", read_only=True, sub_path="s"),
            {"name": "v", "mountPath": "/p", "subPath": "s", "readOnly": True},
            id="mount of one file",
        ),
        pytest.param(pods.memory_dir("v"), {"name": "v", "emptyDir": {"medium": "Memory"}}, id="memory"),
        pytest.param(
            pods.projected("v", []), {"name": "v", "projected": {"defaultMode": 0o600, "sources": []}}, id="projected"
        ),
        pytest.param(
            pods.secret_file(REF, "f"), {"secret": {"name": "s", "items": [{"key": "k", "path": "f"}]}}, id="secret"
        ),
        pytest.param(
            pods.secret_file(REF, "f", 0o600),
            {"secret": {"name": "s", "items": [{"key": "k", "path": "f", "mode": 0o600}]}},
            id="secret with a mode",
        ),
        pytest.param(
            pods.config_map_file("c", "k", "f"),
            {"configMap": {"name": "c", "items": [{"key": "k", "path": "f"}]}},
            id="config map",
        ),
    ],
)
def test_volumes_and_mounts(actual: Any, expected: Any) -> None:
    assert actual == expected


def test_the_restricted_context_with_and_without_a_user() -> None:
    assert "runAsUser" not in pods.restricted()
    assert pods.restricted(401) == {**pods.restricted(), "runAsUser": 401, "runAsGroup": 401}
    assert pods.restricted_pod(401)["fsGroup"] == 401


def test_the_log_sidecar() -> None:
    plain = pods.log_sidecar("x.log", "image", {})
    assert plain["env"] == [{"name": "SOCKET", "value": "/var/log/slurm/x.log"}]
    assert "securityContext" not in plain
    mine = pods.log_sidecar("x.log", "image", {"image": "mine"}, {"runAsNonRoot": True})
    assert (mine["image"], mine["securityContext"]) == ("mine", {"runAsNonRoot": True})


def test_a_container_overlay_that_does_not_fit_names_its_field() -> None:
    with pytest.raises(InvalidSpec) as caught:
        pods.container({"ports": [{"containerPort": 1}]}, {"$patch": "wrong"}, "slurmd")
    assert caught.value.path == ("spec", "slurmd")


def test_a_pod_overlay_that_does_not_fit_names_its_field() -> None:
    with pytest.raises(InvalidSpec) as caught:
        pods.pod_spec({}, {"securityContext": {"$patch": "wrong"}})
    assert caught.value.path == ("spec", "template", "spec", "securityContext")


def test_a_template_has_the_labels_of_its_component() -> None:
    template = pods.template(PodTemplate(), labels.LOGIN, "x", {"containers": []}, {"h": "1"}, {"more": "2"})
    assert template["metadata"]["labels"] == {**labels.of_pod(labels.LOGIN, "x"), "more": "2"}
    assert template["metadata"]["annotations"] == {labels.DEFAULT_CONTAINER: "login", "h": "1"}
