"""The polls of each cluster's Slurm, which has no watch: one for all resources of a cluster that are at rest.

In: the key of a Controller whose Slurm can be asked. Out: one look: nodes, if any has changed, the states of all jobs,
records of those that need one, and all partitions, once a Controller has asked for them. What has changed wakes the
resources that it concerns (`Cluster.changed`). Whoever waits for something asks by itself, and then no poll is needed.
Run by the controller that `reconcile/operator.py` starts, as every reconcile is, so that no cluster keeps another
waiting.
"""

from __future__ import annotations

from dataclasses import dataclass

from kube_runtime.clock import Clock
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key
from slurm_operator.reconcile.clusters import Clusters

KIND = "SlurmPoll"
# A change that nobody waits for, such as one by scontrol, is seen after so many seconds.
POLL_SECONDS = 5.0
# With many clusters it is later, so that all polls together cost about the same.
POLL_SECONDS_PER_CLUSTER = 0.2


@dataclass(frozen=True, slots=True)
class SlurmPolls:
    """Polls the Slurm of one Controller."""

    clusters: Clusters
    clock: Clock

    async def __call__(self, key: Key) -> Result:
        """One poll, unless somebody has asked a moment ago."""
        cluster = self.clusters.polled(key)
        if cluster is None:
            return Result()
        interval = interval_seconds(self.clusters.polled_count)
        wait = interval - cluster.seconds_since_list()
        if wait > 0:
            return Result(wait)
        silence = self.clock.call_later(cluster.patience_seconds, cluster.report_silence)
        try:
            await cluster.poll()
        finally:
            silence.cancel()
        return Result(interval)


def interval_seconds(clusters: int) -> float:
    """The time between two polls of one of so many clusters."""
    return max(POLL_SECONDS, POLL_SECONDS_PER_CLUSTER * clusters)
