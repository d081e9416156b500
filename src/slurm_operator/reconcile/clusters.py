"""The way to each cluster's Slurm: which slurmrestd, with which key, and its word in this turn.

In: a Controller and the RestApis and Secrets of its namespace. Out: a client, kept while its address stays the same,
and a `SlurmWorld`. What cannot be asked is Unknown with its reason, never an empty list.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from slurm_operator.api.controller import Controller
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import names
from slurm_operator.build.refs import Refs
from slurm_operator.plan.workers import SlurmWorld
from slurm_operator.slurm.client import Observation, SlurmClient
from slurm_operator.slurm.errors import SlurmError
from slurm_operator.slurm.model import Answer, Job, Node, Unchanged, Unknown
from slurm_operator.slurm.requests import NodeChange
from slurm_operator.slurm.token import TokenSource

Address = Callable[[RestApi], str]


def service_address(cr: RestApi) -> str:
    """slurmrestd through its Service."""
    port = cr.spec.service.port or names.SLURMRESTD_PORT
    return f"http://{names.short_host(names.restapi(cr), cr.namespace)}:{port}"


@dataclass(slots=True)
class Cluster:
    """One Slurm and what it last said."""

    client: SlurmClient
    address: str
    key: bytes
    nodes: Answer[Node] | None = None

    async def world(self) -> SlurmWorld:
        """Slurm's word now; an unchanged list is its word too."""
        return SlurmWorld(await self._nodes(), await self._jobs())

    async def _nodes(self) -> Answer[Node] | Unknown:
        since = self.nodes.last_update if self.nodes is not None and self.nodes.complete else None
        try:
            answer = await self.client.nodes(since)
        except SlurmError as error:
            self.nodes = None
            return Unknown(str(error))
        if isinstance(answer, Unchanged):
            return self.nodes if self.nodes is not None else Unknown("an unchanged list, but of nothing known")
        self.nodes = answer
        return answer

    async def _jobs(self) -> tuple[Job, ...] | Unknown:
        try:
            answer = await self.client.all_jobs()
        except SlurmError as error:
            return Unknown(str(error))
        return answer.items if answer.complete else Unknown("Slurm's list of jobs is incomplete")

    async def drain(self, hosts: tuple[str, ...], why: str) -> object:
        """Let nodes take no new jobs."""
        return await self.client.drain(hosts, why)

    async def undrain(self, hosts: tuple[str, ...]) -> object:
        """Let nodes take jobs again."""
        return await self.client.undrain(hosts)

    async def update_node(self, name: str, changes: Mapping[str, object]) -> object:
        """Change one node record."""
        return await self.client.update_nodes((name,), NodeChange(**changes))  # type: ignore[arg-type]  # same fields

    async def delete_node(self, name: str) -> object:
        """Delete one node record."""
        return await self.client.delete_node(name)


@dataclass(slots=True)
class Clusters:
    """Every Slurm that this operator talks to."""

    address: Address = service_address
    observe: Callable[[Observation], None] = lambda _: None
    _clusters: dict[tuple[str, str], Cluster] = field(default_factory=dict)

    async def find(self, controller: Controller, restapis: list[RestApi], refs: Refs) -> Cluster | Unknown:
        """The Slurm of a Controller, or why it cannot be asked."""
        serving = [each for each in restapis if each.spec.controller_ref.name == controller.name]
        if not serving:
            return Unknown(f"there is no RestApi for Controller {controller.name!r}")
        ref = controller.jwt_key_ref
        key = refs.secrets.get(ref.name, {}).get(ref.key) if ref else None
        if not key:
            return Unknown(f"the JWT key of Controller {controller.name!r} is missing")
        oldest = min(serving, key=lambda each: (each.metadata.creation_timestamp or "", each.name))
        return await self._client((controller.namespace, controller.name), self.address(oldest), key)

    async def _client(self, key: tuple[str, str], address: str, jwt_key: bytes) -> Cluster:
        known = self._clusters.get(key)
        if known is not None and known.address == address:
            known.key = jwt_key
            return known
        if known is not None:
            await known.client.close()
        holder: list[Cluster] = []
        client = SlurmClient(address, TokenSource(lambda: holder[0].key), observe=self.observe)
        holder.append(Cluster(client, address, jwt_key))
        self._clusters[key] = holder[0]
        return holder[0]

    async def close(self) -> None:
        """Give back all connections."""
        for cluster in self._clusters.values():
            await cluster.client.close()
        self._clusters.clear()
