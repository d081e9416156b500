# ruff: noqa: ASYNC240 - it looks at files of the machine
"""Containers: order, environment, restarts, ends, and what they may do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.real.local.node.rig import NEEDS, STAY, Api, condition, has_phase, host_folder, is_ready, sh, state

from kube_local.node import host
from kube_runtime.client.objects import CONFIG_MAPS, SECRETS

pytestmark = NEEDS


async def test_init_containers_run_in_order_and_a_sidecar_outlives_the_main_container(api: Api) -> None:
    shared = {"volumeMounts": [{"name": "v", "mountPath": "/v"}], "image": "busybox"}
    inits = [
        {"name": "one", "command": sh("echo one >> /v/order"), **shared},
        {
            "name": "side",
            "restartPolicy": "Always",
            "command": sh(
                "echo side >> /v/order; trap 'echo side-ends >> /v/order; exit 0' TERM; while :; do sleep 0.1; done"
            ),
            **shared,
        },
        {
            "name": "two",
            "command": sh("while ! grep -q side /v/order; do sleep 0.05; done; echo two >> /v/order"),
            **shared,
        },
    ]
    main = {
        "name": "main",
        "command": sh(
            "echo main >> /v/order; trap 'echo main-ends >> /v/order; exit 0' TERM; while :; do sleep 0.1; done"
        ),
        **shared,
    }
    pod = await api.ready(
        containers=[main], initContainers=inits, volumes=[{"name": "v", "hostPath": host_folder(api, "order")}]
    )
    assert condition(pod, "Initialized") == "True"
    assert state(pod, "one")["state"]["terminated"]["exitCode"] == 0
    assert state(pod, "side")["ready"] is True
    await api.gone("p")
    order = (api.cluster.data / "order" / "order").read_text().split()
    assert order == ["one", "side", "two", "main", "main-ends", "side-ends"]


async def test_variables_come_from_fields_resources_config_maps_and_secrets(api: Api) -> None:
    await api.put(CONFIG_MAPS, "vars", {"COLOUR": "red", "0bad": "x"})
    await api.put(SECRETS, "hidden", {"word": "swordfish"})
    env: list[dict[str, Any]] = [
        {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "NOTE", "valueFrom": {"fieldRef": {"fieldPath": "metadata.annotations['note']"}}},
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}},
        {"name": "WORD", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "word"}}},
        {"name": "NONE", "valueFrom": {"configMapKeyRef": {"name": "absent", "key": "x", "optional": True}}},
        {"name": "BOTH", "value": "$(NAME)-$(WORD)-$$(NAME)-$(UNKNOWN)"},
    ]
    pod = await api.ready(
        command=sh('echo "$0 $1"; ' + STAY),
        args=["$(NAME)", "$(COLOUR)"],
        env=env,
        envFrom=[{"configMapRef": {"name": "vars"}}, {"secretRef": {"name": "absent", "optional": True}}],
        resources={"limits": {"memory": "64Mi"}},
        annotations={"note": "a b"},
    )
    found = dict(line.split("=", 1) for line in (await api.run("p", "env")).splitlines())
    assert found["NAME"] == "p"
    assert found["NOTE"] == "a b"
    assert found["ADDRESS"] == pod["status"]["podIP"]
    assert found["MEMORY"] == "64"
    assert found["COLOUR"] == "red"
    assert found["FROM_IMAGE"] == "yes"
    assert found["BOTH"] == "p-swordfish-$(NAME)-$(UNKNOWN)"
    assert "NONE" not in found
    assert (await api.log("p"))[0] == "p red"


async def test_a_container_waits_for_a_missing_secret_and_starts_when_it_comes(api: Api) -> None:
    ref = {"secretKeyRef": {"name": "later", "key": "k"}}
    await api.pod(command=sh(STAY), env=[{"name": "K", "valueFrom": ref}])
    waiting = await api.until("p", lambda pod: state(pod).get("state", {}).get("waiting", {}).get("message"))
    assert state(waiting)["state"]["waiting"] == {
        "reason": "CreateContainerConfigError",
        "message": 'secret "later" not found',
    }
    await api.put(SECRETS, "later", {"k": "v"})
    await api.until("p", is_ready)


async def test_an_image_that_nothing_stands_for_is_named(api: Api) -> None:
    await api.pod(containers=[{"name": "main", "image": "missing/thing:1", "command": sh(STAY)}])
    pod = await api.until("p", lambda pod: state(pod).get("state", {}).get("waiting", {}).get("message"))
    assert state(pod)["state"]["waiting"]["reason"] in {"ErrImagePull", "ImagePullBackOff"}
    assert "missing/thing:1" in state(pod)["state"]["waiting"]["message"]


async def test_a_command_that_is_not_in_the_image_is_a_start_error(api: Api) -> None:
    await api.pod(command=["/no/such/program"], restartPolicy="Never")
    pod = await api.until("p", has_phase("Failed"))
    ended = state(pod)["state"]["terminated"]
    assert ended["reason"] == "StartError"
    assert "/no/such/program" in ended["message"]


@pytest.mark.parametrize(
    ("code", "phase", "reason"), [(0, "Succeeded", "Completed"), (3, "Failed", "Error")], ids=["good end", "bad end"]
)
async def test_a_pod_that_is_never_restarted_ends(api: Api, code: int, phase: str, reason: str) -> None:
    await api.pod(command=sh(f"echo last words > /dev/termination-log; exit {code}"), restartPolicy="Never")
    pod = await api.until("p", has_phase(phase))
    ended = state(pod)["state"]["terminated"]
    assert (ended["exitCode"], ended["reason"], ended["message"]) == (code, reason, "last words\n")
    assert condition(pod, "Ready") == "False"
    assert await api.log("p") == []
    await api.gone("p")


async def test_on_failure_restarts_until_success(api: Api) -> None:
    command = sh("if [ -e /v/once ]; then exit 0; fi; touch /v/once; exit 1")
    volume = {"name": "v", "emptyDir": {}}
    await api.pod(
        command=command, volumeMounts=[{"name": "v", "mountPath": "/v"}], volumes=[volume], restartPolicy="OnFailure"
    )
    pod = await api.until("p", has_phase("Succeeded"))
    assert state(pod)["restartCount"] == 1
    assert state(pod)["lastState"]["terminated"]["exitCode"] == 1


async def test_a_crashing_container_is_started_again_ever_later(api: Api) -> None:
    await api.pod(command=sh("echo round; exit 2"))
    pod = await api.until(
        "p", lambda pod: state(pod).get("state", {}).get("waiting", {}).get("reason") == "CrashLoopBackOff"
    )
    assert state(pod)["restartCount"] >= 1
    assert "s restarting failed container main in pod p" in state(pod)["state"]["waiting"]["message"]
    assert state(pod)["lastState"]["terminated"]["exitCode"] == 2
    assert pod["status"]["phase"] == "Running"
    await api.event("p", "BackOff", "Back-off restarting failed container")
    assert await api.log("p", previous=True) == ["round"]
    await api.until("p", lambda pod: state(pod)["restartCount"] >= 3)


async def test_a_failing_init_container_of_a_pod_that_never_restarts_fails_the_pod(api: Api) -> None:
    init = {"name": "one", "image": "busybox", "command": sh("exit 4")}
    await api.pod(command=sh(STAY), initContainers=[init], restartPolicy="Never")
    pod = await api.until("p", has_phase("Failed"))
    assert state(pod, "one")["state"]["terminated"]["exitCode"] == 4
    assert "waiting" in state(pod)["state"]


async def test_a_deadline_ends_a_pod(api: Api) -> None:
    await api.pod(command=sh(STAY), activeDeadlineSeconds=1)
    pod = await api.until("p", has_phase("Failed"))
    assert pod["status"]["reason"] == "DeadlineExceeded"


async def test_user_groups_capabilities_and_privileges_are_as_the_spec_says(api: Api) -> None:
    context = {
        "runAsUser": 401,
        "runAsGroup": 401,
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]},
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    container = {"name": "main", "image": "busybox", "command": sh(STAY), "securityContext": context}
    await api.ready(containers=[container], securityContext={"supplementalGroups": [900], "fsGroup": 901})
    assert (await api.run("p", "id")).strip() == "uid=401(slurm) gid=401(slurm) groups=77(extra),401(slurm),900,901"
    status = dict(line.split(":", 1) for line in (await api.run("p", "cat", "/proc/1/status")).splitlines())
    assert int(status["CapBnd"], 16) == 1 << 10
    assert status["NoNewPrivs"].strip() == "1"
    assert status["Seccomp"].strip() == "2"
    ran = await api.client.run("default", "p", ["touch", "/file"])
    assert b"Read-only" in ran.stderr


async def test_root_is_refused_where_the_spec_wants_another_user(api: Api) -> None:
    container = {"name": "main", "image": "busybox", "command": sh(STAY), "securityContext": {"runAsNonRoot": True}}
    await api.pod(containers=[container])
    pod = await api.until("p", lambda pod: state(pod).get("state", {}).get("waiting", {}).get("message"))
    assert "runAsNonRoot and image will run as root" in state(pod)["state"]["waiting"]["message"]


async def test_a_privileged_container_has_devices_and_what_the_machine_has_to_give(api: Api) -> None:
    container = {"name": "main", "image": "busybox", "command": sh(STAY), "securityContext": {"privileged": True}}
    await api.ready(containers=[container])
    status = dict(line.split(":", 1) for line in (await api.run("p", "cat", "/proc/1/status")).splitlines())
    ours = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    assert int(status["CapEff"], 16) == int(ours["CapBnd"], 16)
    await api.run("p", "test", "-c", "/dev/tty0") if Path("/dev/tty0").exists() else None


async def test_a_container_that_takes_more_memory_than_its_limit_is_killed(api: Api) -> None:
    if "memory" not in host.controllers():
        pytest.skip("this machine has no memory controller")
    script = "x=$(head -c 64m /dev/zero | tr '\\0' x); echo survived"
    await api.pod(command=sh(script), restartPolicy="Never", resources={"limits": {"memory": "16Mi", "cpu": "1"}})
    pod = await api.until("p", has_phase("Failed"))
    assert state(pod)["state"]["terminated"]["reason"] == "OOMKilled"
    assert await api.log("p") == []
