"""Asks the daemons of a cluster themselves: slurmdbd for its database, Slurm for limits, login pods for sssd.

In: a client, and the objects of a namespace. Out: answers for `Facts`. What cannot be read, or does not exist, is None
or left out, never an error. Called by `gather.py`. No value of a Secret leaves this module: only its fingerprint.
"""

from __future__ import annotations

import asyncio
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import replace

from kube_runtime.client.client import Client
from kube_runtime.client.errors import KubeError
from kube_runtime.client.objects import SECRETS
from kube_runtime.text import printable
from slurm_operator.build import labels
from slurm_operator.diagnose import limits, scontrol
from slurm_operator.diagnose.facts import Facts, Object, Silence, Slurm, fingerprint, is_ready, name_of, spec_of
from slurm_operator.diagnose.reasons import limit_of
from slurm_operator.diagnose.wording import code_of
from slurm_operator.slurm.errors import SlurmError

# sacctmgr by itself waits much longer for a slurmdbd that does not answer.
COMMAND_SECONDS = 8.0
MAX_BYTES = 16 * 1024 * 1024
SSSD = (
    "test -x /usr/sbin/sssd || exit 0; "
    "for p in /proc/[0-9]*/comm; do read -r n <$p && [ $n = sssd ] && exit 0; done; exit 3"
)
NOT_RUNNING_CODE = 3


class Parts:
    """The daemons of one namespace."""

    def __init__(self, client: Client, facts: Facts) -> None:
        self._client, self._facts = client, facts

    async def more(self, controller: str, slurm: Slurm | Silence) -> Slurm | Silence:
        """The same, with the limits, licenses and reservations that its pending jobs wait for."""
        pod = self._ready(labels.CONTROLLER, controller)
        if not isinstance(slurm, Slurm) or pod is None:
            return slurm
        codes = {code_of(job) for job in slurm.jobs.values() if job.state == "PENDING"}
        if any(limit_of(code) is not None for code in codes):
            slurm = await self._with_limits(pod, slurm)
        if "Licenses" in codes:
            body = await self._scontrol(pod, "licenses")
            slurm = replace(slurm, licenses=scontrol.licenses(body) if body is not None else None)
        if codes & {"Reservation", "ReqNodeNotAvail"} or any(node.reservation for node in slurm.nodes.values()):
            slurm = await self._with_reservations(pod, slurm)
        return slurm

    async def _with_limits(self, pod: str, slurm: Slurm) -> Slurm:
        answers = await asyncio.gather(
            *(self._run(pod, "slurmctld", *limits.arguments(what)) for what in limits.QUESTIONS)
        )
        if any(isinstance(answer, str) for answer in answers):
            return slurm
        qos, associations = (answer for answer in answers if isinstance(answer, bytes))
        return replace(slurm, limits=limits.read(qos, associations))

    async def _with_reservations(self, pod: str, slurm: Slurm) -> Slurm:
        body = await self._scontrol(pod, "reservations")
        try:
            return replace(slurm, reservations=scontrol.reservations(body)) if body is not None else slurm
        except SlurmError:
            return slurm

    async def _scontrol(self, pod: str, what: str) -> bytes | None:
        answer = await self._run(pod, "slurmctld", *scontrol.command(*scontrol.arguments(what)))
        return answer if isinstance(answer, bytes) else None

    async def databases(self) -> dict[str, str]:
        """For each Accounting that a Controller uses: why it did not answer; empty if it did."""
        users = {
            str((spec_of(each).get("accountingRef") or {}).get("name", "")): name_of(each)
            for each in self._facts.every("Controller")
        }
        mine = [
            (name_of(each), users[name_of(each)]) for each in self._facts.every("Accounting") if name_of(each) in users
        ]
        # Its pod tells what is wrong with one that does not run; sacctmgr would only wait for it.
        mine = [each for each in mine if not self._is_down(each[0])]
        answers = await asyncio.gather(*(self._database(controller) for _, controller in mine))
        return {name: answer for (name, _), answer in zip(mine, answers, strict=True) if answer is not None}

    def _is_down(self, accounting: str) -> bool:
        pods = self._facts.pods_of(labels.ACCOUNTING, accounting)
        return bool(pods) and not any(is_ready(pod) for pod in pods)

    async def _database(self, controller: str) -> str | None:
        pod = self._ready(labels.CONTROLLER, controller)
        if pod is None:
            return None
        answer = await self._run(pod, "slurmctld", "sacctmgr", "-n", "-P", "show", "cluster", "format=Cluster")
        return answer if isinstance(answer, str) else ""

    async def without_sssd(self) -> frozenset[str]:
        """The login pods in which sssd should run and does not."""
        pods = [
            name_of(pod)
            for each in self._facts.every("LoginSet")
            for pod in self._facts.pods_of(labels.LOGIN, name_of(each))
            if is_ready(pod)
        ]
        codes = await asyncio.gather(*(self._code(pod, "login", "sh", "-c", SSSD) for pod in pods))
        return frozenset(pod for pod, code in zip(pods, codes, strict=True) if code == NOT_RUNNING_CODE)

    async def secrets(self) -> dict[str, Mapping[str, str]] | None:
        """The keys of every Secret, with a fingerprint of each value."""
        try:
            listing = await self._client.list(SECRETS.raw(), self._facts.namespace)
        except KubeError:
            return None
        return {item.metadata.name: _fingerprints(item.content()) for item in listing.items}

    def _ready(self, component: labels.Component, instance: str) -> str | None:
        return next((name_of(pod) for pod in self._facts.pods_of(component, instance) if is_ready(pod)), None)

    async def _run(self, pod: str, container: str, *command: str) -> bytes | str:
        """Its output, or the message of its failure."""
        try:
            ran = await self._client.run(
                self._facts.namespace, pod, command, container=container, seconds=COMMAND_SECONDS, max_bytes=MAX_BYTES
            )
        except KubeError as error:
            return printable(str(error)) or f"{command[0]} could not be run"
        if ran.code == 0:
            return ran.stdout
        lines = ran.stderr.decode(errors="replace").strip().splitlines()
        return printable(lines[-1]) if lines else f"{command[0]} ended with exit code {ran.code}"

    async def _code(self, pod: str, container: str, *command: str) -> int | None:
        try:
            ran = await self._client.run(
                self._facts.namespace, pod, command, container=container, seconds=COMMAND_SECONDS
            )
        except KubeError:
            return None
        return ran.code


def _fingerprints(secret: Object) -> dict[str, str]:
    return {key: fingerprint(_decoded(value)) for key, value in (secret.get("data") or {}).items()}


def _decoded(value: object) -> bytes:
    try:
        return b64decode(str(value))
    except ValueError:
        return str(value).encode()
