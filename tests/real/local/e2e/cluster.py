"""One local cluster as a test, or a soak, sees it: kubectl, a login shell, Slurm's own word, and its accounting.

In: a data folder and a Slurm version. Out: `LocalCluster`, whose methods are the commands that people type. Used by the
tests of this folder and by `tests/real/local/soak.py`. Nothing here goes round the API server or round Slurm.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shlex
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_runtime.errors import OperatorError
from slurm_operator.local import machine
from slurm_operator.local.home import PARTS, SUPERVISOR, Home
from slurm_operator.local.image import build, store
from slurm_operator.local.image.progress import Lines

MANIFEST = Path(__file__).parent / "cluster.yaml"
NAMESPACE = "slurm"
# The newest REST version that each Slurm speaks.
REST = {"24.11": "v0.0.42", "26.05": "v0.0.45"}
CORDON = "nodeset.slinky.slurm.net/pod-cordon"
REASON = "nodeset.slinky.slurm.net/node-cordon-reason"
STEP_SECONDS = 60.0
LOOK_SECONDS = 0.1

Json = dict[str, Any]


class CannotRun(Exception):
    """This machine cannot run a local cluster; the text says why."""


@dataclass(frozen=True, slots=True)
class SlurmNode:
    """A node as `scontrol show node` prints it."""

    states: frozenset[str]
    reason: str


class LocalCluster:
    """`slurm-operator local` on one data folder."""

    def __init__(self, data: Path, version: str) -> None:
        self.home, self.version, self.name = Home(data), version, f"e2e-{version.replace('.', '-')}"
        self.measured: dict[str, float] = {}

    # the cluster

    def prepare(self) -> None:
        """Have what a cluster needs on this machine, or say why it cannot be had."""
        progress = Lines(sys.stderr)
        try:
            machine.require(self.home.data, progress)
            build.build(self.version, store.default_cache(), progress)
            self._kubectl = machine.kubectl(store.default_cache(), progress)
        except OperatorError as error:
            raise CannotRun(str(error)) from error

    def up(self, manifest: Path = MANIFEST, timeout: int = 180) -> None:
        """Bring it up, and wait until everything in the manifest is ready."""
        self.home.data.parent.mkdir(parents=True, exist_ok=True)
        rendered = self.home.data.parent / "cluster.yaml"
        rendered.write_text(manifest.read_text().replace("VERSION", self.version))
        self.local("up", "--slurm", self.version, "-f", str(rendered), "--timeout", str(timeout))

    def last_words(self, lines: int = 60) -> str:
        """The end of every part's log, for whoever has to find out why a test failed."""
        logs = ((part, self.home.log(part)) for part in (*PARTS, SUPERVISOR))
        ends = ((part, path.read_text(errors="replace").splitlines()[-lines:]) for part, path in logs if path.exists())
        return "\n".join(f"--- {part}\n" + "\n".join(line[:400] for line in end) for part, end in ends)

    def reset(self) -> None:
        """Leave nothing behind."""
        self.local("reset", check=False)

    def local(self, verb: str, *arguments: str, check: bool = True) -> str:
        """A `slurm-operator local` command."""
        where = ["--data", str(self.home.data), "--name", self.name]
        command = [sys.executable, "-m", "slurm_operator.cli.main", "local", verb, *where, *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        assert not check or done.returncode == 0, f"{shlex.join(command)}:\n{done.stdout}{done.stderr}"
        return done.stdout

    # Kubernetes

    def attempt(self, *arguments: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """One kubectl command, whatever becomes of it."""
        environment = {**os.environ, "KUBECONFIG": str(self.home.kubeconfig)}
        command = [self._kubectl, "-n", NAMESPACE, *arguments]
        # What a job is called may be no text at all.
        return subprocess.run(
            command,
            env=environment,
            input=stdin,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=120,
            check=False,
        )

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        """One kubectl command that must succeed."""
        done = self.attempt(*arguments, stdin=stdin)
        assert done.returncode == 0, f"kubectl {shlex.join(arguments)}: {done.stderr}"
        return done.stdout

    def get(self, kind: str, name: str) -> Json:
        """One object; empty when there is none."""
        said = self.kubectl("get", kind, name, "-o", "json", "--ignore-not-found")
        return json.loads(said) if said.strip() else {}

    def objects(self, kinds: str, *arguments: str) -> list[Json]:
        """All objects of some kinds in the namespace."""
        found: list[Json] = json.loads(self.kubectl("get", kinds, "-o", "json", *arguments))["items"]
        return found

    def pods(self) -> dict[str, str]:
        """The uid of every pod, by name."""
        return {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.objects("pods")}

    def pod_states(self, name: str) -> set[str]:
        """Slurm's word in a pod's conditions, such as {"Idle", "Drain"}."""
        conditions = self.get("pod", name).get("status", {}).get("conditions", [])
        return {one["type"].removeprefix("SlurmNodeState") for one in conditions if "SlurmNodeState" in one["type"]}

    def condition(self, kind: str, name: str, which: str = "Ready") -> str:
        """The status of one condition."""
        found = self.get(kind, name).get("status", {}).get("conditions", [])
        return next((one["status"] for one in found if one["type"] == which), "")

    def set_secret(self, name: str, key: str, value: str) -> None:
        """Change one key of a Secret."""
        patch = {"data": {key: base64.b64encode(value.encode()).decode()}}
        self.kubectl("patch", "secret", name, "--type=merge", "-p", json.dumps(patch))

    def secret(self, name: str, key: str) -> str:
        """One key of a Secret."""
        return base64.b64decode(self.get("secret", name).get("data", {}).get(key, "")).decode()

    # Slurm

    def as_alice(self, command: str) -> subprocess.CompletedProcess[str]:
        """A command of an ordinary user in the login pod, whatever becomes of it."""
        return self.attempt("exec", "deploy/login", "-c", "login", "--", "su", "-", "alice", "-c", command)

    def alice(self, command: str) -> str:
        """A command of an ordinary user that must succeed."""
        done = self.as_alice(command)
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout.strip()

    def admin(self, command: str) -> str:
        """A command of Slurm's administrator."""
        where = ("exec", "slurm-controller-0", "-c", "slurmctld", "--")
        return self.kubectl(*where, "sh", "-c", command).strip()

    def node(self, name: str) -> SlurmNode:
        """Slurm's own word on a node."""
        said = self.alice(f"scontrol -o show node {name} 2>&1 || true")
        state, reason = re.search(r"State=(\S+)", said), re.search(r" Reason=(.*?) \[[^]]*@[^]]*\]", said)
        return SlurmNode(
            frozenset(state[1].rstrip("*").split("+")) if state else frozenset(), reason[1] if reason else ""
        )

    def submit(self, script: str, *options: str) -> str:
        """A job from the login pod."""
        return self.alice(shlex.join(["sbatch", "--parsable", "-o", "/dev/null", *options, "--wrap", script]))

    def rest_submit(self, script: str, token: str) -> str:
        """A job through slurmrestd, with somebody's token."""
        job = {"name": "rest", "current_working_directory": "/tmp", "environment": ["PATH=/usr/bin:/bin"]}  # noqa: S108
        job |= {"standard_output": "/dev/null"}
        answer = self.rest("job/submit", token, {"script": f"#!/bin/sh\n{script}\n", "job": job})
        return str(answer["job_id"])

    def rest(self, path: str, token: str, body: Json | None = None) -> Json:
        """One call to slurmrestd."""
        pods = self.objects("pods", "-l", "app.kubernetes.io/name=slurmrestd", "--field-selector=status.phase=Running")
        url = f"http://{pods[-1]['status']['podIP']}:6820/slurm/{REST[self.version]}/{path}"
        headers = {"X-SLURM-USER-TOKEN": token, "Content-Type": "application/json"}
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(url, data, headers)
        with urllib.request.urlopen(request, timeout=20) as answer:  # noqa: S310 - http
            found: Json = json.load(answer)
        assert not found.get("errors"), found["errors"]
        return found

    def accepts(self, token: str) -> bool:
        """Whether slurmrestd reads that token."""
        try:
            self.rest("nodes/", token)
        except (urllib.error.URLError, OSError, IndexError, AssertionError):
            return False
        return True

    def job_state(self, job: str) -> str:
        """The state of a job as slurmctld knows it."""
        return self.alice(f"squeue -h -j {job} -o %T 2>/dev/null || true")

    def accounted(self, job: str) -> list[str]:
        """`STATE|RESTARTS` of every record of a job, also of runs before a requeue."""
        return self.alice(f"sacct -nXPD -j {job} -o State,Restarts").splitlines()

    def wait_running(self, *jobs: str) -> None:
        """Wait until jobs run."""
        for job in jobs:
            self.until(f"job {job} runs", lambda job=job: self.job_state(job) == "RUNNING")  # type: ignore[misc]

    def expect_completed(self, *jobs: str) -> None:
        """Every job has to come to its own end, at its first try."""
        for job in jobs:
            self.until(f"job {job} is over", lambda job=job: _are_over(self.accounted(job)))  # type: ignore[misc]
            assert self.accounted(job) == ["COMPLETED|0"], f"job {job}"

    # time

    def until(self, what: str, is_so: Callable[[], object], seconds: float = STEP_SECONDS) -> float:
        """Wait for something; the time that it took."""
        began = time.monotonic()
        while not is_so():
            assert time.monotonic() - began < seconds, f"not within {seconds:g} s: {what}"
            time.sleep(LOOK_SECONDS)
        return time.monotonic() - began


def _are_over(records: list[str]) -> bool:
    return bool(records) and not any(one.startswith(("PENDING", "RUNNING", "COMPLETING")) for one in records)
