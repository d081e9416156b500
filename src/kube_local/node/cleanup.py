"""Takes away whatever a cluster's node agent has left on the machine: for `local reset` and for tests.

In: the data folder. Out: no container, namespace, link, mount or cgroup whose name comes from it, and no file of the
agent's in it. The agent must not run any more. Each step finds things by name, so half a cluster is cleaned up as well.
"""

from __future__ import annotations

import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

from kube_local.node import host, network, records
from kube_local.node.paths import Paths
from kube_local.node.records import ContainerRecord


def remove_everything(data: Path) -> None:
    """Leave nothing of the agent's."""
    paths = Paths.of(data)
    _end_containers(paths)
    _end_monitors(paths)
    _remove_networks(paths)
    for folder in (paths.pods, paths.runc, paths.exits):
        host.remove_tree(folder)
    host.remove_cgroups(paths.prefix)
    network.remove(data)
    paths.socket.unlink(missing_ok=True)


def _end_containers(paths: Paths) -> None:
    runc = shutil.which("runc", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if runc is None or not paths.runc.is_dir():
        return
    for entry in paths.runc.iterdir():
        host.run_now([runc, f"--root={paths.runc}", "delete", "--force", entry.name])


def _end_monitors(paths: Paths) -> None:
    for file in paths.pods.glob("*/containers/*/container.json"):
        record = records.load(file, ContainerRecord)
        if record is None or record.boot != host.boot_id():
            continue
        for pid, started in ((record.pid, record.pid_start), (record.monitor, record.monitor_start)):
            if host.is_alive(pid, started):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


def _remove_networks(paths: Paths) -> None:
    listed = host.run_now(["ip", "netns", "list"]).out.decode().splitlines()
    for name in (line.split()[0] for line in listed if line.startswith(f"{paths.prefix}-")):
        host.run_now(["ip", "netns", "del", name])
    links = host.run_now(["ip", "-o", "link", "show", "type", "veth"]).out.decode().splitlines()
    for name in (line.split()[1].partition("@")[0].rstrip(":") for line in links):
        if name.startswith(f"{paths.prefix}p"):
            host.run_now(["ip", "link", "del", name])
