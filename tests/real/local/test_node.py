# ruff: noqa: ASYNC110, ASYNC221, ASYNC240, S108 - it looks at files of the machine, and /tmp is the pods' own
"""The node agent with real containers: every feature on pods that are bound by hand, on the embedded API server.

Two processes, as in a real local cluster: the API server and the agent, which some tests kill. The image is busybox.
Needs root, runc and conmon (apt-get install runc conmon busybox-static); skips loudly otherwise.
"""

from __future__ import annotations

import asyncio
import base64
import os
import selectors
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from slurm_operator.kube import kubeconfig
from slurm_operator.kube.client import Client
from slurm_operator.kube.decode import Changed, Deleted
from slurm_operator.kube.errors import NotFound
from slurm_operator.kube.objects import CLAIMS, CONFIG_MAPS, EVENTS, NODES, PODS, SECRETS
from slurm_operator.local.node import host, records
from slurm_operator.local.node.cleanup import remove_everything
from slurm_operator.local.node.fetch import PERSISTENT_VOLUMES
from slurm_operator.local.node.paths import Paths
from slurm_operator.local.node.records import ContainerRecord, PodRecord

MISSING = [program for program in ("runc", "conmon", "ip", "busybox") if shutil.which(program) is None]
pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="the node agent needs root"),
    pytest.mark.skipif(bool(MISSING), reason=f"not on this machine: {', '.join(MISSING)}"),
]

SERVER = """
import asyncio, sys
from pathlib import Path
from slurm_operator.local.apiserver import ApiServer
from slurm_operator.local.node.proxy import NodePodAccess

async def main(data, port):
    server = ApiServer(str(data / "cluster.db"), certificates_folder=data / "pki")
    server.plug_in(NodePodAccess(data))
    await server.start(port=port)
    fresh = data / "kubeconfig.new"
    fresh.write_text(server.kubeconfig())
    fresh.rename(data / "kubeconfig")
    await asyncio.Event().wait()

asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
"""

AGENT = """
import asyncio, logging, sys
from pathlib import Path
from types import SimpleNamespace
from slurm_operator.kube import kubeconfig
from slurm_operator.kube.client import Client
from slurm_operator.local.node.agent import NodeSettings, run
from slurm_operator.local.node.errors import ImageMissing

def images(name):
    if name.startswith("missing"):
        raise ImageMissing(f"no root file system stands for {name}")
    return SimpleNamespace(rootfs=Path(sys.argv[2]), digest="sha256:busybox", entrypoint=("sh",), command=(),
                           env={"FROM_IMAGE": "yes"}, user=None, working_dir="/")

async def main(data):
    async with Client.to(kubeconfig.find(path=str(data / "kubeconfig"))) as client:
        await run(client, NodeSettings(data, images, nodes=2, backoff=(1.0, 4.0)))

logging.basicConfig(level=logging.WARNING)
asyncio.run(main(Path(sys.argv[1])))
"""

STAY = "trap 'exit 0' TERM; while true; do sleep 0.1; done"


@dataclass
class Cluster:
    """An API server and a node agent, each a process."""

    data: Path
    rootfs: Path
    server: subprocess.Popen[bytes] | None = None
    agent: subprocess.Popen[bytes] | None = None

    def start_server(self) -> None:
        port = "0"
        self.server = self._start(SERVER, "server", str(self.data), port)
        deadline = time.monotonic() + 30
        while not (self.data / "kubeconfig").exists():
            assert self.server.poll() is None, (self.data / "server.log").read_text()
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def start_agent(self) -> None:
        self.agent = self._start(AGENT, "agent", str(self.data), str(self.rootfs))

    def _start(self, program: str, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        with (self.data / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-c", textwrap.dedent(program), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def kill_agent(self) -> None:
        """kill -9."""
        assert self.agent is not None
        self.agent.kill()
        self.agent.wait(10)

    def stop(self) -> None:
        for process in (self.agent, self.server):
            if process is not None:
                process.kill()
                process.wait(10)

    def kubectl(self, *arguments: str, stdin: str = "", check: bool = True) -> subprocess.CompletedProcess[str]:
        """The real kubectl."""
        if shutil.which("kubectl") is None:
            pytest.skip("no kubectl on this machine")
        done = subprocess.run(
            ["kubectl", "--kubeconfig", str(self.data / "kubeconfig"), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert not check or done.returncode == 0, (done.stdout, done.stderr, (self.data / "agent.log").read_text())
        return done

    def record(self, uid: str, container: str = "main") -> ContainerRecord:
        found = records.load(records.container_file(Paths.of(self.data).pod(uid).container(container)), ContainerRecord)
        assert found is not None
        return found


@dataclass
class Api:
    """What a test does to pods."""

    cluster: Cluster
    client: Client
    namespace: str
    made: list[str] = field(default_factory=list)

    async def pod(self, name: str = "p", **spec: Any) -> dict[str, Any]:
        """Create a pod bound to a node; `main` is its container unless `containers` are given."""
        annotations = spec.pop("annotations", {})
        if "containers" not in spec:
            own = {key: spec.pop(key) for key in list(spec) if key not in POD_FIELDS}
            spec["containers"] = [{"name": "main", "image": "busybox", **own}]
        body = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"nodeName": "local-0", "terminationGracePeriodSeconds": 5, **spec},
        }
        made = await self.client.create(PODS.raw(), body, self.namespace)
        self.made.append(name)
        return made.content()

    async def until(self, name: str, wanted: Callable[[dict[str, Any]], Any], seconds: float = 60) -> dict[str, Any]:
        """The pod, once it is as wanted."""
        try:
            async with asyncio.timeout(seconds):
                return await self._until(name, wanted)
        except TimeoutError:
            now = (await self.client.get(PODS.raw(), name, self.namespace)).content()
            log = (self.cluster.data / "agent.log").read_text()[-3000:]
            raise AssertionError(
                f"not within {seconds} s: {msgspec.json.format(msgspec.json.encode(now['status'])).decode()}\n{log}"
            ) from None

    async def _until(self, name: str, wanted: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
        found = await self.client.list(PODS.raw(), self.namespace, field_selector=f"metadata.name={name}")
        for pod in found.items:
            if wanted(pod.content()):
                return pod.content()
        events = self.client.watch(
            PODS.raw(),
            self.namespace,
            resource_version=found.resource_version,
            field_selector=f"metadata.name={name}",
        )
        async with aclosing(events):
            async for event in events:
                if isinstance(event, Changed) and wanted(event.object.content()):
                    return event.object.content()
        raise AssertionError("the watch ended")

    async def gone(self, name: str, seconds: float = 60) -> dict[str, Any]:
        """Delete a pod and wait until it has gone; answers it as it was last."""
        found = await self.client.list(PODS.raw(), self.namespace, field_selector=f"metadata.name={name}")
        await self.client.delete(PODS, name, self.namespace)
        async with asyncio.timeout(seconds):
            events = self.client.watch(
                PODS.raw(),
                self.namespace,
                resource_version=found.resource_version,
                field_selector=f"metadata.name={name}",
            )
            async with aclosing(events):
                async for event in events:
                    if isinstance(event, Deleted):
                        self.made.remove(name)
                        return event.object.content()
        raise AssertionError("the watch ended")

    async def ready(self, name: str = "p", **spec: Any) -> dict[str, Any]:
        """Create a pod and wait until it is ready."""
        await self.pod(name, **spec)
        return await self.until(name, is_ready)

    async def run(self, name: str, *command: str, container: str = "") -> str:
        """What a command prints in a container."""
        ran = await self.client.run(self.namespace, name, command, container=container)
        assert ran.code == 0, (ran.stdout, ran.stderr)
        said: str = ran.stdout.decode()
        return said

    async def log(self, name: str, **options: Any) -> list[str]:
        return [line async for line in self.client.logs(self.namespace, name, **options)]

    async def put(self, kind: Any, name: str, data: Mapping[str, str]) -> None:
        """Create or replace a ConfigMap or Secret."""
        encoded = {key: base64.b64encode(value.encode()).decode() for key, value in data.items()}
        body = {"metadata": {"name": name}, "data": encoded if kind is SECRETS else dict(data)}
        await self.client.apply(kind, name, body, self.namespace, field_manager="test")

    async def events(self, name: str) -> set[tuple[str, str]]:
        found = (await self.client.list(EVENTS, self.namespace)).items
        return {(event.reason, event.note) for event in found if event.regarding.name == name}

    async def event(self, name: str, reason: str, text: str = "", seconds: float = 30) -> None:
        """Wait for an event about a pod."""
        async with asyncio.timeout(seconds):
            while not any(reason == each and text in note for each, note in await self.events(name)):
                await asyncio.sleep(0.05)


POD_FIELDS = {
    "nodeName", "initContainers", "volumes", "restartPolicy", "terminationGracePeriodSeconds",
    "hostname", "subdomain", "dnsConfig", "dnsPolicy", "hostAliases", "hostNetwork", "activeDeadlineSeconds",
    "readinessGates",
}  # fmt: skip


def sh(script: str) -> list[str]:
    return ["sh", "-c", script]


def is_ready(pod: dict[str, Any]) -> bool:
    return condition(pod, "Ready") == "True"


def condition(pod: dict[str, Any], kind: str) -> str:
    found = {one["type"]: one["status"] for one in pod.get("status", {}).get("conditions") or ()}
    return str(found.get(kind, ""))


def state(pod: dict[str, Any], name: str = "main") -> dict[str, Any]:
    status = pod.get("status") or {}
    every = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    return next((one for one in every if one["name"] == name), {})


def has_phase(phase: str) -> Callable[[dict[str, Any]], bool]:
    return lambda pod: bool(pod.get("status", {}).get("phase") == phase)


async def goodbyes() -> None:
    """TLS says goodbye in the background; a loop that ends before leaves sockets that count as forgotten."""
    loop = asyncio.get_running_loop()
    selector: selectors.BaseSelector = vars(loop)["_selector"]
    deadline = loop.time() + 5
    # One is left at the end: the loop's own wake-up pipe.
    while len(selector.get_map()) > 1 and loop.time() < deadline:
        await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def rootfs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("image") / "root"
    for folder in ("bin", "etc", "proc", "sys", "dev", "run", "home"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0::/:/bin/sh\nslurm:x:401:401::/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nslurm:x:401:\nextra:x:77:slurm\n")
    busybox = shutil.which("busybox") or ""
    shutil.copy(busybox, root / "bin/busybox")
    for name in subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name != "busybox":
            (root / "bin" / name).symlink_to("busybox")
    return root


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, rootfs: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("cluster"), rootfs)
    try:
        made.start_server()
        made.start_agent()
        yield made
    finally:
        made.stop()
        remove_everything(made.data)


@pytest.fixture
async def api(cluster: Cluster, request: pytest.FixtureRequest) -> AsyncIterator[Api]:
    async with Client.to(kubeconfig.find(path=str(cluster.data / "kubeconfig"))) as client:
        made = Api(cluster, client, "default")
        try:
            yield made
        finally:
            for name in made.made:
                try:
                    await client.delete(PODS, name, made.namespace, grace_seconds=0)
                except NotFound:
                    continue
    await goodbyes()


# --- nodes and networks -------------------------------------------------------------------------------------------


async def test_the_virtual_nodes_are_ready_and_say_what_they_have(api: Api) -> None:
    async with asyncio.timeout(30):
        while not await _is_node_ready(api, "local-1"):
            await asyncio.sleep(0.05)
    node = await api.client.get(NODES.raw(), "local-1")
    found = node.content()
    assert found["metadata"]["labels"]["kubernetes.io/hostname"] == "local-1"
    assert int(found["status"]["allocatable"]["cpu"]) >= 1


async def _is_node_ready(api: Api, name: str) -> bool:
    found = [node for node in (await api.client.list(NODES)).items if node.metadata.name == name]
    return any(one.type == "Ready" and one.status == "True" for node in found for one in node.status.conditions)


async def test_a_pod_gets_an_address_a_name_and_the_cluster_s_name_server(api: Api) -> None:
    pod = await api.ready(command=sh(STAY), hostname="worker-7", subdomain="workers", dnsConfig={"searches": ["x.y"]})
    address = pod["status"]["podIP"]
    assert (await api.run("p", "hostname")).strip() == "worker-7"
    assert f"{address}\tworker-7.workers.default.svc.cluster.local\tworker-7" in await api.run("p", "cat", "/etc/hosts")
    names = await api.run("p", "cat", "/etc/resolv.conf")
    assert f"nameserver {pod['status']['hostIP']}" in names
    assert "search default.svc.cluster.local svc.cluster.local cluster.local x.y" in names
    assert address in await api.run("p", "ip", "addr")


async def test_pods_reach_each_other_and_the_host_reaches_them(api: Api) -> None:
    page = sh(f"echo hello > /tmp/index.html; httpd -p 80 -h /tmp; {STAY}")
    one = await api.ready("one", command=page, readinessProbe={"tcpSocket": {"port": 80}})
    await api.ready("two", command=sh(STAY), nodeName="local-1")
    url = f"http://{one['status']['podIP']}/"
    assert await api.run("two", "wget", "-q", "-O", "-", url) == "hello\n"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        assert await answer.text() == "hello\n"


async def test_a_pod_may_use_the_hosts_network(api: Api) -> None:
    pod = await api.ready(command=sh(STAY), hostNetwork=True)
    assert pod["status"]["podIP"] == pod["status"]["hostIP"]
    assert Paths.of(api.cluster.data).bridge in await api.run("p", "ip", "link")


async def test_containers_of_a_pod_share_network_ipc_and_shared_memory_but_not_processes(api: Api) -> None:
    both = [{"name": name, "image": "busybox", "command": sh(STAY)} for name in ("main", "other")]
    await api.ready(containers=both)
    await api.run("p", "sh", "-c", "echo x > /dev/shm/seen", container="main")
    assert await api.run("p", "cat", "/dev/shm/seen", container="other") == "x\n"
    assert "1 root" in (await api.run("p", "ps", container="other")).replace("    ", " ").replace("  ", " ")
    links = {await api.run("p", "readlink", "/proc/self/ns/net", container=name) for name in ("main", "other")}
    assert len(links) == 1


# --- containers ---------------------------------------------------------------------------------------------------


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
        containers=[main], initContainers=inits, volumes=[{"name": "v", "hostPath": _host_folder(api, "order")}]
    )
    assert condition(pod, "Initialized") == "True"
    assert state(pod, "one")["state"]["terminated"]["exitCode"] == 0
    assert state(pod, "side")["ready"] is True
    await api.gone("p")
    order = (api.cluster.data / "order" / "order").read_text().split()
    assert order == ["one", "side", "two", "main", "main-ends", "side-ends"]


def _host_folder(api: Api, name: str) -> dict[str, str]:
    return {"path": str(api.cluster.data / name), "type": "DirectoryOrCreate"}


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


# --- security -----------------------------------------------------------------------------------------------------


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


# --- volumes ------------------------------------------------------------------------------------------------------


def projected(name: str, *sources: dict[str, Any], mode: int = 0o600) -> dict[str, Any]:
    return {"name": name, "projected": {"defaultMode": mode, "sources": list(sources)}}


async def test_volumes_have_the_modes_and_owners_that_a_kubelet_gives(api: Api) -> None:
    await api.put(CONFIG_MAPS, "conf", {"a": "A", "b": "B"})
    await api.put(SECRETS, "key", {"slurm.key": "K"})
    mounts = [
        {"name": "etc", "mountPath": "/etc/slurm", "readOnly": True},
        {"name": "mem", "mountPath": "/mem"},
        {"name": "mem", "mountPath": "/mem/inner"},
        {"name": "etc", "mountPath": "/one", "subPath": "slurm.key"},
        {"name": "scratch", "mountPath": "/own", "subPath": "made/here"},
    ]
    items = [{"key": "a", "path": "deep/a", "mode": 0o444}]
    await api.ready(
        containers=[{"name": "main", "image": "busybox", "command": sh(STAY), "volumeMounts": mounts}],
        securityContext={"fsGroup": 401, "runAsUser": 401, "runAsGroup": 401},
        volumes=[
            projected("etc", {"configMap": {"name": "conf", "items": items}}, {"secret": {"name": "key"}}),
            {"name": "mem", "emptyDir": {"medium": "Memory", "sizeLimit": "4Mi"}},
            {"name": "scratch", "emptyDir": {}},
        ],
    )
    listed = await api.run("p", "stat", "-L", "-c", "%n %a %u:%g", "/etc/slurm/slurm.key", "/etc/slurm/deep/a", "/mem")
    assert listed.splitlines() == ["/etc/slurm/slurm.key 640 0:401", "/etc/slurm/deep/a 444 0:401", "/mem 2777 0:401"]
    assert await api.run("p", "cat", "/one") == "K"
    assert "4096" in (await api.run("p", "df", "-k", "/mem")).split()
    await api.run("p", "touch", "/own/file", "/mem/file")
    assert "slurm.key -> ..data/slurm.key" in await api.run("p", "ls", "-l", "/etc/slurm")


async def test_a_changed_config_map_is_seen_at_once_after_a_nudge_and_all_files_change_as_one(api: Api) -> None:
    await api.put(CONFIG_MAPS, "live", {"a": "1", "b": "1", "old": "x"})
    volume = {"name": "v", "configMap": {"name": "live"}}
    loop = "while :; do echo $(cat /v/..data/a)$(cat /v/..data/b); done | uniq"
    await api.ready(command=sh(loop), volumeMounts=[{"name": "v", "mountPath": "/v"}], volumes=[volume])
    await api.put(CONFIG_MAPS, "live", {"a": "2", "b": "2", "new": "y"})
    patch = {"metadata": {"annotations": {"nudge": "1"}}}
    started = time.monotonic()
    await api.client.merge_patch(PODS, "p", patch, "default")
    file = next(Paths.of(api.cluster.data).pods.glob("*/memory/v/a"))
    while file.read_text() != "2":
        await asyncio.sleep(0.002)
        assert time.monotonic() - started < 30
    print(f"nudge to file: {time.monotonic() - started:.3f} s")
    assert sorted(name for name in (await api.run("p", "ls", "/v")).split()) == ["a", "b", "new"]


async def test_a_volume_waits_for_its_config_map(api: Api) -> None:
    volumes = [
        {"name": "v", "configMap": {"name": "coming"}},
        {"name": "w", "secret": {"secretName": "no", "optional": True}},
    ]
    await api.pod(command=sh(STAY), volumes=volumes, volumeMounts=[{"name": "v", "mountPath": "/v"}])
    await api.event("p", "FailedMount", 'configmap "coming" not found')
    await api.put(CONFIG_MAPS, "coming", {"k": "v"})
    await api.until("p", is_ready)


async def test_a_volume_that_local_mode_cannot_mount_is_named(api: Api) -> None:
    await api.pod(command=sh(STAY), volumes=[{"name": "share", "nfs": {"server": "s", "path": "/"}}])
    await api.event("p", "FailedMount", "'share' is of type nfs, which local mode cannot mount")
    await api.gone("p")


async def test_a_claim_s_folder_keeps_its_files_over_pods(api: Api) -> None:
    folder = api.cluster.data / "claimed"
    folder.mkdir(exist_ok=True)
    size = {"storage": "1Mi"}
    volume = {"capacity": size, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": str(folder)}}
    await api.client.create(
        PERSISTENT_VOLUMES, {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv"}, "spec": volume}
    )
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": size}, "volumeName": "pv"}
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": claim}
    await api.client.create(CLAIMS, body, "default")
    mount = {
        "volumeMounts": [{"name": "v", "mountPath": "/v"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}],
    }
    await api.pod("first", command=sh(f"echo kept > /v/file; {STAY}"), **mount)
    await api.event("first", "FailedMount", '"data" is not bound')
    await api.client.merge_patch(CLAIMS, "data", {"status": {"phase": "Bound"}}, "default", subresource="status")
    await api.until("first", is_ready)
    await api.gone("first")
    await api.ready("second", command=sh(STAY), **mount)
    assert await api.run("second", "cat", "/v/file") == "kept\n"


# --- probes and hooks ---------------------------------------------------------------------------------------------


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
        volumes=[{"name": "v", "hostPath": _host_folder(api, "asked")}],
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
        volumes=[{"name": "v", "hostPath": _host_folder(api, "hooked")}],
        volumeMounts=[{"name": "v", "mountPath": "/v"}],
    )
    await api.gone("p")
    assert (api.cluster.data / "hooked" / "hooks").read_text().split() == ["up", "down", "term"]


# --- the end ------------------------------------------------------------------------------------------------------


async def test_a_container_that_ignores_term_is_killed_after_its_grace(api: Api) -> None:
    await api.ready(command=sh("trap '' TERM; while :; do sleep 0.1; done"), terminationGracePeriodSeconds=1)
    last = await api.gone("p")
    assert state(last)["state"]["terminated"]["exitCode"] == 137


async def test_a_deleted_pod_leaves_nothing(api: Api) -> None:
    pod = await api.ready(command=sh(STAY), volumes=[{"name": "m", "emptyDir": {"medium": "Memory"}}])
    uid = pod["metadata"]["uid"]
    last = await api.gone("p")
    assert state(last)["state"]["terminated"]["exitCode"] == 0
    async with asyncio.timeout(10):
        while (Paths.of(api.cluster.data).pods / uid).exists():
            await asyncio.sleep(0.02)
    assert uid not in Path("/proc/self/mountinfo").read_text()
    assert uid not in host.run_now(["ip", "netns", "list"]).out.decode()
    assert not [path for root in host.cgroup_roots() for path in root.glob(f"slk*/{uid}")]
    await api.event("p", "Killing", "Stopping container main")


async def test_a_pod_that_is_forced_away_is_ended_on_the_machine_too(api: Api) -> None:
    pod = await api.ready(command=sh("trap '' TERM; while :; do sleep 0.1; done"), terminationGracePeriodSeconds=300)
    record = api.cluster.record(pod["metadata"]["uid"])
    await api.client.delete(PODS, "p", "default", grace_seconds=0)
    api.made.remove("p")
    async with asyncio.timeout(20):
        await host.ended(record.pid)


async def test_a_condition_that_somebody_else_turned_is_set_right(api: Api) -> None:
    pod = await api.ready(command=sh(STAY))
    lost = [{**one, "status": "False"} if one["type"] == "Ready" else one for one in pod["status"]["conditions"]]
    await api.client.merge_patch(PODS, "p", {"status": {"conditions": lost}}, "default", subresource="status")
    await api.until("p", is_ready)


async def test_a_container_whose_monitor_was_killed_is_started_again(api: Api) -> None:
    pod = await api.ready(command=sh(STAY))
    record = api.cluster.record(pod["metadata"]["uid"])
    os.kill(record.monitor, signal.SIGKILL)
    back = await api.until("p", lambda pod: state(pod).get("restartCount") == 1 and is_ready(pod))
    assert state(back)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert not host.is_alive(record.pid, record.pid_start)


async def test_a_monitor_that_hangs_after_the_end_of_its_container_does_not_keep_the_pod(api: Api) -> None:
    side = {"name": "side", "image": "busybox", "restartPolicy": "Always", "command": sh(STAY)}
    pod = await api.ready(command=sh(STAY), initContainers=[side])
    record = api.cluster.record(pod["metadata"]["uid"])
    os.kill(record.monitor, signal.SIGSTOP)
    os.kill(record.pid, signal.SIGKILL)
    # What the monitor would have written before it began to hang.
    (Paths.of(api.cluster.data).exits / record.container_id).write_text("137")
    last = await api.gone("p")
    assert state(last)["state"]["terminated"]["exitCode"] == 137
    assert state(last, "side")["state"]["terminated"]["exitCode"] == 0
    assert not host.is_alive(record.monitor, record.monitor_start)


async def test_an_end_that_failed_is_tried_again(api: Api) -> None:
    pod = await api.ready(command=sh(STAY))
    in_the_way = Paths.of(api.cluster.data).exits / f"{pod['metadata']['uid']}.in-the-way"
    in_the_way.mkdir()
    await api.client.delete(PODS, "p", "default")
    await api.event("p", "FailedKillPod", "in-the-way")
    in_the_way.rmdir()
    async with asyncio.timeout(30):
        while (Paths.of(api.cluster.data).pods / pod["metadata"]["uid"]).exists():
            await asyncio.sleep(0.02)
    with pytest.raises(NotFound):
        await api.client.get(PODS, "p", "default")
    api.made.remove("p")


# --- a killed agent -----------------------------------------------------------------------------------------------


async def test_a_killed_agent_finds_its_containers_again_and_leaves_them_alone(api: Api) -> None:
    first = await api.ready("keeps", command=sh(STAY), readinessProbe={"exec": {"command": ["true"]}})
    ends = await api.ready("ends", command=sh(STAY))
    goes = await api.ready("goes", command=sh(STAY))
    before = api.cluster.record(first["metadata"]["uid"])
    api.cluster.kill_agent()
    os.kill(api.cluster.record(ends["metadata"]["uid"]).pid, signal.SIGKILL)
    await api.client.delete(PODS, "goes", "default", grace_seconds=0)
    api.made.remove("goes")
    half_removed = Paths.of(api.cluster.data).pods / "half-removed"
    (half_removed / "memory").mkdir(parents=True)
    api.cluster.start_agent()
    ended = await api.until("ends", lambda pod: state(pod).get("restartCount") == 1 and is_ready(pod))
    assert state(ended)["lastState"]["terminated"]["exitCode"] == 137
    async with asyncio.timeout(20):
        while (Paths.of(api.cluster.data).pods / goes["metadata"]["uid"]).exists() or half_removed.exists():
            await asyncio.sleep(0.02)
    after = api.cluster.record(first["metadata"]["uid"])
    assert (after.pid, after.restarts) == (before.pid, 0)
    now = (await api.client.get(PODS.raw(), "keeps", "default")).content()
    assert is_ready(now)
    assert now["status"]["conditions"] == first["status"]["conditions"]
    assert host.is_alive(after.pid, after.pid_start)
    assert await api.run("keeps", "echo", "well") == "well\n"
    await api.gone("keeps")


async def test_after_a_reboot_of_the_machine_pods_come_back(api: Api) -> None:
    init = {"name": "one", "image": "busybox", "command": sh("echo again")}
    pod = await api.ready(command=sh(STAY), initContainers=[init])
    paths = Paths.of(api.cluster.data).pod(pod["metadata"]["uid"])
    api.cluster.kill_agent()
    _pretend_reboot(api.cluster, paths.folder)
    api.cluster.start_agent()
    back = await api.until("p", lambda pod: state(pod).get("restartCount") == 1 and is_ready(pod))
    assert back["status"]["podIP"] == pod["status"]["podIP"]
    assert state(back)["lastState"]["terminated"]["reason"] == "ContainerStatusUnknown"
    assert (await api.run("p", "hostname")).strip() == "p"


def _pretend_reboot(cluster: Cluster, folder: Path) -> None:
    """Processes, mounts and namespaces are gone, and the machine has another boot id."""
    for file in folder.glob("containers/*/container.json"):
        record = records.load(file, ContainerRecord)
        assert record is not None
        for pid in (record.pid, record.monitor):
            if pid:
                os.kill(pid, signal.SIGKILL)
        records.save(file, msgspec.structs.replace(record, boot="earlier", pid_start="1", monitor_start="1"))
    found = records.load(records.pod_file(folder), PodRecord)
    assert found is not None
    records.save(records.pod_file(folder), msgspec.structs.replace(found, boot="earlier"))
    for point in host.mounts_under(folder):
        host.unmount(point)
    host.run_now(["ip", "netns", "del", Paths.of(cluster.data).pod(found.uid).netns])


# --- access -------------------------------------------------------------------------------------------------------


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
    refused = api.cluster.kubectl("attach", "p", check=False)
    assert refused.returncode == 1
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


async def test_kubectl_attach_reads_and_writes(api: Api) -> None:
    await api.ready(command=sh("while read line; do echo heard $line; done"), stdin=True)
    command = ["kubectl", "--kubeconfig", str(api.cluster.data / "kubeconfig"), "attach", "-i", "p"]
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on this machine")
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"me\n")
    await process.stdin.drain()
    assert await asyncio.wait_for(process.stdout.readline(), 20) == b"heard me\n"
    process.kill()
    await process.wait()


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


# --- many ---------------------------------------------------------------------------------------------------------


async def test_sixteen_pods_at_once_all_become_ready(api: Api) -> None:
    started = time.monotonic()
    names = [f"many-{number}" for number in range(16)]
    await asyncio.gather(
        *(api.pod(name, command=sh(STAY), nodeName=f"local-{index % 2}") for index, name in enumerate(names))
    )
    pods = await asyncio.gather(*(api.until(name, is_ready) for name in names))
    print(f"16 pods ready: {time.monotonic() - started:.2f} s")
    assert len({pod["status"]["podIP"] for pod in pods}) == 16


def test_cleaning_up_leaves_nothing_on_the_machine(tmp_path: Path, rootfs: Path) -> None:
    made = Cluster(tmp_path, rootfs)
    prefix = Paths.of(tmp_path).prefix
    try:
        made.start_server()
        made.start_agent()
        asyncio.run(_one_pod(made))
    finally:
        made.stop()
    assert _traces(tmp_path, prefix)
    remove_everything(tmp_path)
    assert _traces(tmp_path, prefix) == []
    assert not {path.name for path in tmp_path.iterdir()} & {"pods", "runc", "exits", "network.json", "node.sock"}


async def _one_pod(made: Cluster) -> None:
    async with Client.to(kubeconfig.find(path=str(made.data / "kubeconfig"))) as client:
        await Api(made, client, "default").ready(command=sh(STAY))
    await goodbyes()


def _traces(data: Path, prefix: str) -> list[str]:
    """Everything on the machine whose name comes from a data folder."""
    seen = [
        line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(data) in line or prefix in line
    ]
    for command in (["ip", "-o", "link"], ["ip", "netns", "list"]):
        seen += [line for line in host.run_now(command).out.decode().splitlines() if prefix in line]
    seen += [str(path) for root in host.cgroup_roots() for path in root.glob(f"{prefix}*")]
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if str(data).encode() in entry.read_bytes():
                seen.append(str(entry))
        except OSError:
            continue
    return seen
