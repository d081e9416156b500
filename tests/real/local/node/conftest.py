"""One cluster with a node agent for all tests of this folder."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from tests.real.local.node.rig import Api, Cluster

from kube_local.node.cleanup import remove_everything
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.client.errors import NotFound
from kube_runtime.client.objects import PODS


@pytest.fixture(scope="session")
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


@pytest.fixture(scope="session")
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
