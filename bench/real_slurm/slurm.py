"""A real Slurm for a benchmark: slurmctld, slurmrestd as the operator's pod starts it, node records without slurmds.

In: a root file system of `tests/real/slurm/rootfs.py`, the names of the cluster and of its NodeSets. Out: a `RealSlurm`
whose workers come and go. Called by `slurmrestd_memory.py` and by `scale.py --slurm real`.

A thousand slurmds are more than two cores carry, so most workers are a record alone. 26.05 has State=EXTERNAL for that:
IDLE without a slurmd, drained and put back like any other. In 24.11 each is registered by a slurmd that ends at once,
and SlurmdTimeout=0 keeps slurmctld from asking after it; once drained and put back, such a record does not respond.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.real.slurm.cluster import SLURM_CONF, Cluster, require_namespaces, wait_for
from tests.real.slurm.rootfs import CannotProvision, provide

from slurm_operator.api.controller import Controller
from slurm_operator.api.restapi import RestApi
from slurm_operator.api.validate import decode
from slurm_operator.build import restapi
from slurm_operator.build.refs import Refs
from slurm_operator.slurm import hostlist

Json = dict[str, Any]

EXTERNAL_SINCE = "26.05"
# Of slurmds with a process of their own, and of those that only register.
FIRST_PORT, FIRST_BRIEF_PORT, BRIEF_AT_ONCE = 17100, 21000, 40
CPUS, MEMORY_MB = 2, 1000
# What the test clusters have and this one has otherwise.
REPLACED = ("ClusterName", "MaxNodeCount", "NodeSet", "PartitionName", "SelectTypeParameters")


def require_real_slurm(version: str = EXTERNAL_SINCE) -> Path:
    """The root file system of that version; raises CannotProvision where this machine cannot run it."""
    if os.geteuid() != 0:
        raise CannotProvision("it needs root")
    require_namespaces()
    return provide(version)


def slurm_conf(cluster_name: str, node_sets: Sequence[str], max_nodes: int, more: Sequence[str] = ()) -> str:
    """slurm.conf of the test clusters with other nodes: a node set for each NodeSet, its partition, one over all."""
    kept = [line for line in SLURM_CONF.splitlines() if line.partition("=")[0] not in REPLACED]
    own = [
        f"ClusterName={cluster_name}",
        f"MaxNodeCount={max_nodes}",
        "SelectTypeParameters=CR_CPU",
        "ReconfigFlags=KeepPartInfo",
        *more,
        *(f"NodeSet={name} Feature={name}" for name in node_sets),
        *(f"PartitionName={name} Nodes={name} State=UP MaxTime=UNLIMITED" for name in node_sets),
    ]
    return "\n".join([*kept, *own, ""])


@dataclass(frozen=True, slots=True)
class RestCommand:
    """How the operator's pod starts slurmrestd: its options and its environment."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str]


def rest_command(controller_body: Json, restapi_body: Json) -> RestCommand:
    """The same options and environment as in the Deployment of a RestApi, but for the address."""
    controller, cr = decode(controller_body).resource, decode(restapi_body).resource
    if not isinstance(controller, Controller) or not isinstance(cr, RestApi):
        raise TypeError("the benchmark's own objects are not valid")
    made = restapi.deployment(cr, controller, Refs(controllers={controller.name: controller}))
    container = made["spec"]["template"]["spec"]["containers"][0]
    environment = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    # The last argument is where it listens.
    return RestCommand(tuple(container["args"][:-1]), environment)


@dataclass
class RealSlurm(Cluster):
    """A running Slurm; workers are named as their pods are, and have their NodeSet as feature."""

    conf: str = ""
    rest: RestCommand = RestCommand(("-s", "openapi/slurmctld"), {})
    brief_started: int = 0

    def _prepare(self) -> None:
        super()._prepare()
        (self.folder / "io" / "etc" / "slurm.conf").write_text(self.conf)

    @property
    def has_external(self) -> bool:
        """Whether a record may be without a slurmd for good."""
        return self.version >= EXTERNAL_SINCE

    def start_rest(self) -> None:
        """Start slurmrestd on the shared socket, as the operator's pod does."""
        environment = shlex.join(
            f"{name}={value}" for name, value in {"SLURM_JWT": "daemon", **self.rest.environment}.items()
        )
        options = shlex.join(["-a", "rest_auth/jwt", *self.rest.arguments])
        self.shell(
            f"cd /tmp; rm -f /shared/rest.sock; setsid setpriv --reuid=restd --regid=restd --clear-groups"
            f" env {environment} slurmrestd {options} unix:/shared/rest.sock"
            " </dev/null >/run/rest.log 2>&1 & echo $! > /run/rest.pid"
        )
        wait_for(self.socket.exists, 20, "slurmrestd", lambda: self.run("cat", "/run/rest.log", check=False))

    # Workers

    def start_worker(self, name: str) -> None:
        """A worker with a slurmd."""
        node_set, _, number = name.rpartition("-")
        self.start_node(name, FIRST_PORT + int(number), f"Feature={node_set}")

    def make_records(self, names: Iterable[str]) -> None:
        """Workers of which there is a record alone."""
        by_set: dict[str, list[str]] = {}
        for name in names:
            by_set.setdefault(name.rpartition("-")[0], []).append(name)
        for node_set, members in by_set.items():
            if self.has_external:
                self._create(node_set, members)
            else:
                self._register_briefly(node_set, members)

    def _create(self, node_set: str, names: Sequence[str]) -> None:
        record = f"nodeaddr=127.0.0.1 cpus={CPUS} realmemory={MEMORY_MB} feature={node_set} state=EXTERNAL"
        self.run("scontrol", "create", f"nodename={hostlist.compress(names)}", *record.split(), timeout=60)

    def _register_briefly(self, node_set: str, names: Sequence[str]) -> None:
        for start in range(0, len(names), BRIEF_AT_ONCE):
            some = names[start : start + BRIEF_AT_ONCE]
            for number, name in enumerate(some):
                self.start_node(name, FIRST_BRIEF_PORT + number, f"Feature={node_set}")
            wait_for(lambda some=some: self._idle() >= set(some), 60, f"{some[0]} and others idle")  # type: ignore[misc]
            pids = " ".join(f"/run/slurm/slurmd-{name}.pid" for name in some)
            self.shell(f"kill $(cat {pids}); while kill -0 $(cat {pids}) 2>/dev/null; do sleep 0.05; done")

    def node_names(self) -> set[str]:
        """All records."""
        return set(self.run("sinfo", "-h", "-N", "-o", "%N", check=False).split())

    # What the kernel says

    def host_pid(self, pid_file: str) -> int:
        """The process of a pid file inside, as this machine numbers it; 0 when there is none."""
        inside = self.run("cat", pid_file, check=False).strip()
        space = Path(f"/proc/{self._pid}/ns/pid").readlink()
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                found = re.search(r"^NSpid:.*\s(\d+)$", (folder / "status").read_text(), re.MULTILINE)
                if found is not None and found[1] == inside and (folder / "ns" / "pid").readlink() == space:
                    return int(folder.name)
            except OSError:
                continue
        return 0
