# ruff: noqa: S108 - /tmp is the pods' own
"""Probes and hooks."""

from __future__ import annotations

from tests.real.local.node.rig import NEEDS, STAY, Api, condition, host_folder, is_ready, sh, state

pytestmark = NEEDS


async def test_a_pod_is_ready_only_while_its_readiness_probe_says_so(api: Api) -> None:
    probe = {"exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1, "failureThreshold": 1}
    await api.pod(command=sh(STAY), readinessProbe=probe)
    pod = await api.until("p", lambda pod: "running" in state(pod).get("state", {}))
    assert condition(pod, "Ready") == "False"
    await api.run("p", "touch", "/tmp/ready")
    await api.until("p", is_ready)
    await api.run("p", "rm", "/tmp/ready")
    pod = await api.until("p", lambda pod: condition(pod, "Ready") == "False")
    assert state(pod)["restartCount"] == 0
    await api.event("p", "Unhealthy", "Readiness probe failed")


async def test_a_probe_that_hangs_is_cut_off_and_asked_again(api: Api) -> None:
    asks = "echo asked >> /v/asked; if [ $(wc -l < /v/asked) -lt 3 ]; then sleep 1000; fi"
    await api.ready(
        command=sh(STAY),
        readinessProbe={"exec": {"command": sh(asks)}, "periodSeconds": 1},
        volumes=[{"name": "v", "hostPath": host_folder(api, "asked")}],
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    assert "sleep 1000" not in await api.run("p", "ps")
    await api.event("p", "Unhealthy", "timed out after 1s")


async def test_a_failing_liveness_probe_restarts_the_container(api: Api) -> None:
    probe = {"exec": {"command": ["test", "!", "-e", "/tmp/ill"]}, "periodSeconds": 1, "failureThreshold": 1}
    await api.ready(command=sh(STAY), livenessProbe=probe)
    await api.run("p", "touch", "/tmp/ill")
    pod = await api.until("p", lambda pod: state(pod).get("restartCount") == 1 and is_ready(pod))
    assert state(pod)["lastState"]["terminated"]["exitCode"] == 0
    await api.event("p", "Killing", "failed liveness probe, will be restarted")


async def test_a_startup_probe_that_never_succeeds_restarts_the_container(api: Api) -> None:
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 2}
    await api.pod(command=sh(STAY), startupProbe=probe)
    pod = await api.until("p", lambda pod: state(pod).get("restartCount", 0) >= 1)
    assert state(pod)["started"] is False
    await api.event("p", "Unhealthy", "Startup probe failed")


async def test_http_probes_use_named_ports(api: Api) -> None:
    await api.ready(
        command=sh(f"sleep 0.3; mkdir /tmp/w; touch /tmp/w/livez; httpd -p 8080 -h /tmp/w; {STAY}"),
        ports=[{"name": "web", "containerPort": 8080}],
        startupProbe={"httpGet": {"path": "/livez", "port": "web"}, "periodSeconds": 10},
        readinessProbe={"httpGet": {"path": "/livez", "port": "web"}},
    )


async def test_hooks_run_after_the_start_and_before_the_end(api: Api) -> None:
    hooks = {
        "postStart": {"exec": {"command": sh("echo up >> /v/hooks")}},
        "preStop": {"exec": {"command": sh("echo down >> /v/hooks")}},
    }
    await api.ready(
        command=sh("trap 'echo term >> /v/hooks; exit 0' TERM; while :; do sleep 0.1; done"),
        lifecycle=hooks,
        volumes=[{"name": "v", "hostPath": host_folder(api, "hooked")}],
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    await api.gone("p")
    assert (api.cluster.data / "hooked" / "hooks").read_text().split() == ["up", "down", "term"]
