"""The parts of a local cluster as processes: `python -m slurm_operator.local.parts PART DATA`.

In: the name of a part and the data folder. Out: the part, until SIGTERM. Started by `supervisor.py` alone. Every part
but the API server waits until the API answers, so they can all be started at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from kube_local.node import host, network
from kube_local.node.paths import Paths
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.errors import KubeError
from kube_runtime.client.objects import NAMESPACES, PODS
from kube_runtime.errors import OperatorError
from kube_runtime.loop.logs import setup_logging
from slurm_operator.local.home import Choices, Home, LocalError, write_whole
from slurm_operator.local.kubeconfig import with_user_settings

log = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
LOOK_SECONDS = 0.05
# Shorter than a kubelet's 10 s to 300 s, as newer ones can be told to be: people wait in front of this machine.
CRASH_PAUSE_SECONDS = (1.0, 60.0)
NAME_SERVICE = "passwd: files\ngroup: files\nshadow: files\nhosts: files dns\n"


async def apiserver(home: Home, choices: Choices) -> None:
    """The API server on its port."""
    from kube_local.apiserver import ApiServer  # noqa: PLC0415 - each process loads its own part only
    from kube_local.node.proxy import NodePodAccess  # noqa: PLC0415

    known = network.load(home.data)
    server = ApiServer(
        str(home.store), certificates_folder=home.certificates, service_network=known.services if known else None
    )
    server.plug_in(NodePodAccess(home.data))
    try:
        await server.start(LOOPBACK, choices.port)
    except OSError as error:
        raise LocalError(
            f"port {choices.port} of {LOOPBACK} cannot be taken ({error.strerror}): give another one with --port"
        ) from error
    write_kubeconfig(home, server.kubeconfig())
    log.info("listening on %s", server.url)
    try:
        await asyncio.Event().wait()
    finally:
        await server.stop()


def write_kubeconfig(home: Home, fresh: str) -> None:
    """How to reach this server; what the user set in the file stays, such as the namespace."""
    before = home.kubeconfig.read_text(errors="replace") if home.kubeconfig.exists() else ""
    text = with_user_settings(fresh, before)
    if text != before:
        write_whole(home.kubeconfig, text.encode())


async def controllers(home: Home, _: Choices) -> None:
    """StatefulSets, Deployments, Services, claims, the scheduler, and names."""
    from kube_local.controllers.run import run  # noqa: PLC0415
    from kube_local.controllers.settings import Settings  # noqa: PLC0415

    known = network.load(home.data)
    async with await connected(home) as client:
        settings = Settings(
            volumes=home.volumes,
            dns_address=known.gateway if known else "",
            service_network=known.services if known else None,
        )
        await run(client, settings)


async def node(home: Home, choices: Choices) -> None:
    """The node agent."""
    from kube_local.node.agent import NodeSettings, run  # noqa: PLC0415

    async with await connected(home) as client:
        await forget_stopped(client, home)
        await run(client, NodeSettings(home.data, _images(home, choices), choices.nodes, backoff=CRASH_PAUSE_SECONDS))


def operator(home: Home, _: Choices) -> None:
    """The operator, the same program as anywhere, in a view of the file system where names resolve as in a pod."""
    _let_go_of_mounts(home)
    known = network.load(home.data)
    _show_as("/etc/resolv.conf", home.data / "resolv.conf", resolv_conf(known.gateway if known else LOOPBACK))
    _show_as("/etc/nsswitch.conf", home.data / "nsswitch.conf", NAME_SERVICE)
    asyncio.run(_wait_for_api(home))
    arguments = ["run", "--kubeconfig", str(home.kubeconfig), "--health-addr=0", "--metrics-addr=0"]
    # One machine, one user: whoever runs it is root on it already.
    arguments += ["--allow-pod-features=all"]
    os.execv(sys.executable, [sys.executable, "-m", "slurm_operator.cli.main", *arguments])  # noqa: S606


def resolv_conf(name_server: str) -> str:
    """How the operator finds `service.namespace`."""
    return f"nameserver {name_server}\nsearch svc.cluster.local cluster.local\noptions ndots:5 timeout:1 attempts:2\n"


def _show_as(target: str, source: Path, text: str) -> None:
    """Lay a file of ours over one of the machine's, in this process's view alone."""
    source.write_text(text)
    if Path(target).exists():
        host.mount(str(source), Path(target), flags=host.MS_BIND)


def _let_go_of_mounts(home: Home) -> None:
    """A copied view would hold pods' file systems and networks after their end."""
    names = Paths.of(home.data)
    spaces = [point for point in host.mounts_under(Path("/run/netns")) if point.name.startswith(names.prefix)]
    for point in [*host.mounts_under(home.data), *spaces]:
        host.unmount(point)


async def connected(home: Home) -> Client:
    """A client, once the API server answers."""
    await _wait_for_api(home)
    return client_of(home)


def client_of(home: Home) -> Client:
    """A client of this cluster's API server."""
    return Client.to(kubeconfig.find(path=str(home.kubeconfig), context=""))


async def _wait_for_api(home: Home) -> None:
    while not await answers(home):  # noqa: ASYNC110 - another process says so
        await asyncio.sleep(LOOK_SECONDS)


async def answers(home: Home) -> bool:
    """Whether the API server answers."""
    if not home.kubeconfig.exists():
        return False
    try:
        async with client_of(home) as client:
            client.retries = type(client.retries)(attempts=1)
            await client.get(NAMESPACES, "default")
    except (KubeError, OSError):
        return False
    return True


async def forget_stopped(client: Client, home: Home) -> None:
    """Pods whose containers were stopped by `down` still say that they are ready: take that back first."""
    folder = Paths.of(home.data).pods
    for pod in (await client.list(PODS.raw())).items:
        body = pod.content()
        conditions = (body.get("status") or {}).get("conditions") or []
        if (folder / pod.metadata.uid).exists() or not any(_is_ready(one) for one in conditions):
            continue
        stopped = {"status": "False", "reason": "LocalClusterStopped"}
        changed = [{**one, **stopped} if _is_ready(one) else one for one in conditions]
        patch: dict[str, Any] = {"status": {"conditions": changed}}
        await client.merge_patch(
            PODS.raw(), pod.metadata.name, patch, pod.metadata.namespace, subresource="status", field_manager="kubelet"
        )


def _is_ready(condition: dict[str, Any]) -> bool:
    return condition.get("type") in {"Ready", "ContainersReady"} and condition.get("status") == "True"


def _images(home: Home, choices: Choices) -> Callable[[str], Any]:
    from kube_local.node.errors import ImageMissing  # noqa: PLC0415
    from slurm_operator.local.image import rules  # noqa: PLC0415
    from slurm_operator.local.image.errors import ImageError  # noqa: PLC0415

    cache = Path(choices.cache)

    def resolve(image: str) -> rules.ResolvedImage:
        # Read each time: a person may have changed the rules or built another image.
        try:
            return rules.resolve(image, rules.load(home.rules), rules.built_images(cache))
        except ImageError as error:
            raise ImageMissing(str(error)) from error

    return resolve


RUNNERS: dict[str, Callable[[Home, Choices], Awaitable[None]]] = {
    "apiserver": apiserver,
    "controllers": controllers,
    "node": node,
}


async def _until_asked(work: Awaitable[None]) -> None:
    task = asyncio.ensure_future(work)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, task.cancel)
    await asyncio.wait([task])
    if not task.cancelled():
        task.result()


def main(part: str, data: str) -> int:
    """One part, to its end."""
    setup_logging("info", "console")
    home = Home(Path(data))
    try:
        choices = home.require()
        if part == "operator":
            operator(home, choices)
        else:
            asyncio.run(_until_asked(RUNNERS[part](home, choices)))
    except OperatorError as error:
        log.error("%s", error)  # noqa: TRY400 - for people: the traceback says nothing more
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
