# ruff: noqa: ASYNC221 - kubectl runs beside
"""Logs, exec, cp and port-forward by the real kubectl."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import time
from pathlib import Path

import aiohttp
import pytest
from tests.real.local.node.rig import NEEDS, STAY, Api, Cluster, has_phase, sh, state

from kube_runtime.client import kubeconfig

pytestmark = NEEDS


async def test_kubectl_logs_shows_what_was_asked_for(api: Api) -> None:
    await api.ready(command=sh(f"for i in 1 2 3 4 5; do echo line $i; done; echo bad >&2; {STAY}"))
    kubectl = api.cluster.kubectl
    await asyncio.to_thread(_wait_for_log, api.cluster, "bad")
    assert kubectl("logs", "p", "--tail=2").stdout == "line 5\nbad\n"
    assert kubectl("logs", "p", "--limit-bytes=6").stdout == "line 1"
    assert kubectl("logs", "p", "--since=1h", "--tail=1").stdout == "bad\n"
    assert kubectl("logs", "p", "--timestamps", "--tail=1").stdout.split()[1:] == ["bad"]
    refused = kubectl("logs", "p", "--previous", check=False)
    assert refused.returncode == 1
    assert 'Error from server (BadRequest): previous terminated container "main" in pod "p" not found' in refused.stderr


def _wait_for_log(cluster: Cluster, text: str) -> None:
    deadline = time.monotonic() + 20
    while text not in cluster.kubectl("logs", "p").stdout:
        assert time.monotonic() < deadline


async def test_followed_logs_end_with_the_container(api: Api) -> None:
    await api.ready(command=sh("for i in 1 2 3; do echo $i; sleep 0.2; done"), restartPolicy="Never")
    async with asyncio.timeout(30):
        assert await api.log("p", follow=True) == ["1", "2", "3"]


async def test_kubectl_exec_and_cp_work(api: Api, tmp_path: Path) -> None:
    await api.ready(command=sh(STAY))
    kubectl = api.cluster.kubectl
    assert kubectl("exec", "-i", "p", "--", "cat", stdin="typed").stdout == "typed"
    failed = kubectl("exec", "p", "--", "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
    assert (failed.returncode, failed.stdout) == (7, "out\n")
    assert "err" in failed.stderr
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "file").write_text("x" * 300_000)
    kubectl("cp", str(tmp_path / "folder"), "p:/tmp/there")
    kubectl("cp", "p:/tmp/there/file", str(tmp_path / "back"))
    assert (tmp_path / "back").read_text() == "x" * 300_000


async def test_a_container_that_does_not_run_is_named_to_kubectl(api: Api) -> None:
    await api.pod(command=sh("exit 0"), restartPolicy="Never")
    await api.until("p", has_phase("Succeeded"))
    refused = api.cluster.kubectl("exec", "p", "--", "true", check=False)
    assert refused.returncode == 1
    assert "is not running" in refused.stderr or "completed pod" in refused.stderr
    await api.pod("q", containers=[{"name": "main", "image": "busybox", "command": sh("exit 1")}])
    await api.until("q", lambda pod: state(pod).get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff")
    refused = api.cluster.kubectl("exec", "q", "--", "true", check=False)
    assert (refused.returncode, "websockets" in refused.stderr) == (1, False), refused.stderr
    assert 'container not found ("main")' in refused.stderr


async def test_a_terminal_is_a_terminal(api: Api) -> None:
    await api.ready(command=sh(STAY))
    command = f"kubectl --kubeconfig {api.cluster.data}/kubeconfig exec -it p -- sh -c 'test -t 0 && echo yes; exit 5'"
    if shutil.which("kubectl") is None or shutil.which("script") is None:
        pytest.skip("needs kubectl and script")
    done = subprocess.run(
        ["script", "-qec", command, "/dev/null"], capture_output=True, text=True, timeout=30, check=False
    )
    assert "yes" in done.stdout
    assert done.returncode == 5


async def test_kubectl_port_forward_reaches_what_listens_on_loopback_in_the_pod(api: Api) -> None:
    page = sh(f"mkdir /tmp/w; head -c 200000 /dev/zero > /tmp/w/big; httpd -p 127.0.0.1:8080 -h /tmp/w; {STAY}")
    await api.ready(command=page)
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    command = ["kubectl", "--kubeconfig", str(api.cluster.data / "kubeconfig"), "port-forward", "p", ":8080"]
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    assert process.stdout is not None
    said = (await asyncio.wait_for(process.stdout.readline(), 20)).decode()
    url = f"http://127.0.0.1:{said.split('127.0.0.1:')[1].split()[0]}/big"
    async with aiohttp.ClientSession() as session:
        for _ in range(3):
            async with session.get(url) as answer:
                assert len(await answer.read()) == 200_000
    process.kill()
    await process.wait()


async def test_an_old_client_that_speaks_spdy_is_told_what_to_do(api: Api) -> None:
    await api.ready(command=sh(STAY))
    target = kubeconfig.find(path=str(api.cluster.data / "kubeconfig"))
    credentials = await target.credentials.current()
    headers = {"Authorization": credentials.authorization, "Connection": "Upgrade", "Upgrade": "SPDY/3.1"}
    url = f"{target.server}/api/v1/namespaces/default/pods/p/exec?command=true&stdout=true"
    async with aiohttp.ClientSession() as session, session.post(url, headers=headers, ssl=False) as answer:
        assert answer.status == 400
        assert "use kubectl 1.31 or newer" in (await answer.json())["message"]
