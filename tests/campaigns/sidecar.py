"""slurmctld's pods and their reconfigure sidecar, made small.

In: the StatefulSet and the ConfigMaps as they are stored. Out: one pod for each replica, and the verdicts of its
sidecar, which the API server hands out as its log. A candidate with `REFUSED` in it is refused; every other is read by
the small Slurm as soon as its pod has it: a kubelet looks at a ConfigMap when its pod changes, or once a minute.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.campaigns.slurm_model import SlurmModel

from kube_local.apiserver import ApiServer
from slurm_operator.build import labels, verdicts
from slurm_operator.build.controller import NOTE, PROTOCOL
from slurm_operator.plan.config import content_hash

# A key that the linter knows, with a value that only a trial would find wrong.
REFUSED = "JobSubmitPlugins=nosuch"
KUBELET_SECONDS = 60.0


def verdict(hash_: str, stage: str, reason: str, version: int) -> str:
    """A verdict line as a sidecar of that version prints it."""
    values = {"hash": hash_, "stage": stage, "ms": "1", "reason": reason}
    line = verdicts.FORMAT % tuple(values.get(each.name, "0") for each in verdicts.FIELDS)
    number = f"version={version} " if version > 1 else ""
    return line.replace(f"version={verdicts.VERSION} ", number, 1)


@dataclass
class Sidecar:
    """The sidecar of all controller pods of a world."""

    server: ApiServer
    slurm: SlurmModel
    ask: Callable[..., Awaitable[Any]]
    namespace: str = "hpc"
    lines: list[str] = field(default_factory=list)
    in_force: str = ""
    considered: str = ""
    # Whose log was read, and whether it says anything.
    readings: list[str] = field(default_factory=list)
    is_silent: bool = False
    # Of its verdicts.
    version: int = verdicts.VERSION
    # How many changes of its pod the kubelet answers with what it knew before.
    misses: int = 0
    # Candidates of which no pod was told in time.
    untold: list[str] = field(default_factory=list)
    # How many follow the log now.
    open_streams: int = 0
    _listeners: list[asyncio.Future[None]] = field(default_factory=list)
    _mounted: dict[str, str] = field(default_factory=dict)
    _pods: dict[str, str] = field(default_factory=dict)
    _awaited: str = ""

    def look(self) -> None:
        """slurmctld is up: start with the last good one, then consider the candidate."""
        if self.is_silent:
            return
        self._mount()
        good, candidate = self._files("slurm-config"), self._mounted
        if not self.in_force and good:
            self._take(good)
        hash_ = content_hash(candidate) if candidate else ""
        if not candidate or hash_ == self.considered:
            return
        self.considered = hash_
        if REFUSED in candidate["slurm.conf"]:
            self.say(hash_, verdicts.REFUSED, "no plugin job_submit/nosuch")
        else:
            self._take(candidate)

    def _mount(self) -> None:
        """What a kubelet does."""
        rows = [row.load()["metadata"] for row in self.server.store.rows("pods", self.namespace)]
        pods = {
            each["uid"]: each["annotations"].get(labels.CONFIG_CANDIDATE, "")
            for each in rows
            if each.get("annotations", {}).get(labels.CONFIG_PROTOCOL) == PROTOCOL
        }
        there = self._files("slurm-config-candidate")
        if pods != self._pods:
            self._pods = pods
            if not self.misses:
                self._mounted = there
            self.misses = max(self.misses - 1, 0)
        if pods and there != self._mounted and content_hash(there) != self._awaited:
            self._awaited = content_hash(there)
            self.slurm.clock.call_later(KUBELET_SECONDS, self._find_by_itself)

    def _find_by_itself(self) -> None:
        there, awaited, self._awaited = self._files("slurm-config-candidate"), self._awaited, ""
        if self._pods and there != self._mounted:
            # One that came since then is not late yet.
            self.untold += [awaited] if content_hash(there) == awaited else []
            self._mounted = there
            self.look()

    def _take(self, files: Mapping[str, str]) -> None:
        self.in_force = self.considered = content_hash(files)
        self.slurm.read_config(files["slurm.conf"])
        self.say(self.in_force, verdicts.APPLIED)

    def say(self, hash_: str, stage: str, reason: str = "", version: int = 0) -> None:
        """Print a verdict."""
        self.lines.append(verdict(hash_, stage, reason, version or self.version))
        for spoken in self._listeners:
            if not spoken.done():
                spoken.set_result(None)
        self._listeners.clear()

    def _files(self, name: str) -> dict[str, str]:
        row = self.server.store.get("configmaps", self.namespace, name)
        data: dict[str, str] = (row.load().get("data") or {}) if row is not None else {}
        return {key: text for key, text in data.items() if key != NOTE}

    async def pods_of(self, workload: Mapping[str, Any]) -> None:
        """One pod for each replica, of the newest template."""
        meta, template = workload["metadata"], workload["spec"]["template"]
        owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": meta["name"], "uid": meta["uid"]}
        for ordinal in range(workload["spec"].get("replicas", 1)):
            name = f"{meta['name']}-{ordinal}"
            made = {**template["metadata"], "name": name, "ownerReferences": [{**owner, "controller": True}]}
            path = f"/api/v1/namespaces/{meta['namespace']}/pods"
            there = self.server.store.get("pods", meta["namespace"], name)
            if there is not None and json.dumps(template["metadata"]["annotations"]) in there.load()["metadata"][
                "annotations"
            ].get("template", ""):
                continue
            if there is not None:
                await self.ask("DELETE", f"{path}/{name}", {"gracePeriodSeconds": 0})
            made["annotations"] = {
                **template["metadata"]["annotations"],
                "template": json.dumps(template["metadata"]["annotations"]),
            }
            await self.ask("POST", path, {"metadata": made, "spec": {**template["spec"], "hostname": name}})

    def logs(self, pod: Mapping[str, Any], options: Mapping[str, str]) -> AsyncIterator[bytes]:
        """What `pods/log` answers."""
        if options.get("follow") == "true":
            return self._follow(int(options.get("tailLines", len(self.lines))))
        self.readings.append(str(pod["metadata"]["name"]))
        return self._log()

    async def _follow(self, tail: int) -> AsyncIterator[bytes]:
        """The log as a stream, which stays open until its reader leaves."""
        shown, self.open_streams = max(len(self.lines) - tail, 0), self.open_streams + 1
        try:
            while True:
                for line in self.lines[shown:]:
                    yield f"{line}\n".encode()
                shown = len(self.lines)
                spoken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._listeners.append(spoken)
                await spoken
        finally:
            self.open_streams -= 1

    async def _log(self) -> AsyncIterator[bytes]:
        yield "".join(f"{line}\n" for line in self.lines).encode()

    async def connect(self, *_: Any) -> Any:
        """Nobody runs commands in these pods."""
        raise NotImplementedError
