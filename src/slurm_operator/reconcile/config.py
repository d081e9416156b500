"""What the sidecars of slurmctld pods say of a configuration: their logs, read no more often than needed.

In: the slurmctld pods, and the poll of the reconcile before. Out: a `VerdictPoll`. A sidecar can only speak of what
was handed over, so the log is read while that is undecided, or its verdict stands against it. Called by
`reconcile/cluster_world.py`.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any

from kube_runtime.client.errors import Forbidden, KubeError
from kube_runtime.client.objects import Pod
from kube_runtime.clock import Clock
from kube_runtime.text import whole_number
from slurm_operator.api.controller import Controller
from slurm_operator.build import controller, labels
from slurm_operator.plan.cluster_world import ConfigMaps
from slurm_operator.plan.config import ControllerPod, Verdict, content_hash, last_verdict
from slurm_operator.plan.verdict_poll import VerdictPoll, poll_of, reporting
from slurm_operator.reconcile.verdict_streams import VerdictStreams, follower

log = logging.getLogger(__name__)

SIDECAR = "reconfigure"
LOG_TAIL_LINES = 40
# A verdict is a few hundred bytes; an image that prints more than this is not listened to.
LOG_TAIL_BYTES = 256 * 1024

# (namespace, pod, container, how many lines) -> the last lines that a container printed.
Logs = Callable[[str, str, str, int], Awaitable[list[str]]]


def open_poll(
    cr: Controller, maps: ConfigMaps, pods: tuple[ControllerPod, ...], before: VerdictPoll | None, now: float
) -> VerdictPoll | None:
    """The poll that this reconcile has to take part in: the one before, or one for a candidate that is undecided."""
    candidate = maps.candidate_files
    applied = cr.status.config.hash if cr.status.config else None
    hash_ = before.hash if before is not None else content_hash(candidate) if candidate else applied
    mine = reporting(pods)
    if not mine or not hash_ or (before is None and hash_ == applied):
        return None
    return poll_of(hash_, mine, before, now)


async def sidecar_verdicts(
    poll: VerdictPoll, namespace: str, pods: Iterable[ControllerPod], logs: Logs, now: float, heard_at: float
) -> VerdictPoll:
    """The poll with what each sidecar says; the logs are read only when their time has come, or one has spoken."""
    if not poll.is_due(now, heard_at):
        return poll
    verdicts: dict[str, Verdict | None] = {}
    denied = ""
    for pod in (pod for pod in pods if pod.reports_verdicts):
        try:
            verdicts[pod.uid] = last_verdict(await logs(namespace, pod.name, SIDECAR, LOG_TAIL_LINES))
        except KubeError as error:
            # A container that has not started has no log.
            log.debug("log of %s/%s: %s", namespace, pod.name, error)
            denied = str(error) if isinstance(error, Forbidden) else denied
            verdicts[pod.uid] = None
    return replace(poll, verdicts=verdicts, denied=denied, read_at=now)


def is_running(pod: Pod) -> bool:
    """One that is going has nothing to say any more, one that has not started nothing yet."""
    return not pod.metadata.deletion_timestamp and pod.status.phase == "Running"


def controller_pod(pod: Pod) -> ControllerPod:
    """A slurmctld pod, and which candidate it was last nudged to read."""
    annotations = pod.metadata.annotations
    nudged, _, times = annotations.get(labels.CONFIG_CANDIDATE, "").partition("/")
    return ControllerPod(
        pod.metadata.name,
        pod.metadata.uid,
        annotations.get(labels.CONFIG_PROTOCOL) == controller.PROTOCOL,
        nudged,
        1 if (nudges := whole_number(times)) is None else nudges,
        seen=pod.metadata,
    )


def streams(client: Any, clock: Clock) -> VerdictStreams:
    """Follows the logs of sidecars through a client, within the bounds of a reading."""
    return VerdictStreams(follower(client, SIDECAR, LOG_TAIL_BYTES), clock)


def reader(client: Any) -> Logs:
    """Reads logs through a client."""

    async def read(namespace: str, pod: str, container: str, lines: int) -> list[str]:
        limits = {"tail": lines, "limit_bytes": LOG_TAIL_BYTES}
        return [line async for line in client.logs(namespace, pod, container=container, seconds=10.0, **limits)]

    return read
