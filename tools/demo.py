"""`make demo`: a Slurm cluster on this machine, a job on it, and what can be done while the job runs.

In: examples/demo and a root shell on Linux. Out: the commands as a person would type them, with what they print; exit
code 0 only when the accounting says that the job has COMPLETED. Everything is done with `slurm-operator local` and
kubectl, so each step can be repeated by hand. Each wait says what it waits for, and why. What was in the cluster before
stays: jobs of an earlier demo are cancelled, and where others hold the nodes, workers are added.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Collection, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import yaml

from kube_runtime.errors import OperatorError
from slurm_operator.api.plural import counted
from slurm_operator.cli.invocation import Typed
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.cli.kubectl.gather import gather
from slurm_operator.cli.local_wait import typed_reason
from slurm_operator.cli.waiting import Reason, Waited, reason_of, until
from slurm_operator.local import machine
from slurm_operator.local.home import Home
from slurm_operator.local.image.progress import show
from slurm_operator.local.parts import answers, client_of

EXAMPLES = Path(__file__).parent.parent / "examples" / "demo"
NAMESPACE = "slurm"
KINDS = "controllers,accountings,restapis,loginsets,nodesets,partitions,tokens"
CORDON = "nodeset.slinky.slurm.net/pod-cordon"
JOB = "srun hostname; sleep 10; echo done"
# In the job's comment: what bears it is the demo's, and nobody else's.
MARK = "slurm-operator-demo"
NODES = 2
STEP_SECONDS = 120.0
# A node that is held for so long is not about to become free.
PATIENCE_SECONDS = 10.0
MAX_ADDED = 6
# The NodeSets that the demo can do without.
DISPENSABLE = frozenset({"debug"})
DONE = "COMPLETED"
# KIND/NAME, or somebody who says why.
About = str | Callable[[], Awaitable[Reason]]


class DemoFailed(OperatorError):
    """A step did not finish."""


class Demo:
    """The steps, with the clock that they share."""

    def __init__(self, home: Home, kubectl: str, typed: Typed) -> None:
        self.start = time.monotonic()
        self.home, self.typed, self.kubectl_program = home, typed, kubectl
        self.environment = {**os.environ, "KUBECONFIG": str(home.kubeconfig)}

    def say(self, text: str) -> None:
        """A heading."""
        click.secho(f"\n[{time.monotonic() - self.start:5.1f} s] {text}", fg="cyan", bold=True)

    def kubectl(self, line: str, *, quiet: bool = False) -> str:
        """Run kubectl and show its output."""
        found = shutil.which("kubectl")
        shown = "kubectl" if found == self.kubectl_program else self.typed.local("kubectl")
        return self._run([self.kubectl_program, *shlex.split(line)], f"{shown} {line}", quiet=quiet)

    def alice(self, line: str, *, quiet: bool = False) -> str:
        """Run a command as alice in the login pod."""
        where = ["exec", "-n", NAMESPACE, "deploy/login", "-c", "login", "--"]
        return self._run([self.kubectl_program, *where, "su", "-", "alice", "-c", line], f"alice: {line}", quiet=quiet)

    def _run(self, command: list[str], shown: str, *, quiet: bool) -> str:
        if not quiet:
            click.secho(f"$ {shown}", bold=True)
        done = subprocess.run(  # noqa: S603 - the commands of this file
            command, env=self.environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        if not quiet:
            click.echo(done.stdout, nl=False)
        if done.returncode != 0 and not quiet:
            raise DemoFailed(f"{shown} failed: {done.stderr.strip()}")
        return done.stdout

    def wait(self, what: str, is_so: Callable[[], bool], about: About, since: float | None = None) -> None:
        """Wait until a check is true; meanwhile say why the object that it is `about`, as KIND/NAME, is not ready."""
        began = since or time.monotonic()
        waited = self.watch(what, is_so, about, STEP_SECONDS)
        if not waited.is_so:
            raise DemoFailed(f"gave up after {STEP_SECONDS:g} s, waiting until {what}: {waited.reason.text}")
        click.echo(f"  {what} ({time.monotonic() - began:.1f} s)")

    def watch(self, what: str, is_so: Callable[[], bool], about: About, seconds: float) -> Waited:
        """The same for a number of seconds, without failing."""

        async def asked() -> bool:
            return await asyncio.to_thread(is_so)

        why = about if callable(about) else lambda: self.why(about)
        return asyncio.run(until(what, asked, why, seconds))

    async def why(self, about: str) -> Reason:
        """What `kubectl slurm why` says."""
        async with client_of(self.home) as client:
            facts = await gather(client, NAMESPACE)
        return typed_reason(reason_of(explained(facts, about)), self.typed)

    def nodes(self, partition: str) -> dict[str, str]:
        """The states of the nodes of a partition; one that does not respond has a star."""
        lines = self.alice(f"sinfo -h -N -p {partition} -o '%N %t'", quiet=True).splitlines()
        words = (line.split() for line in lines)
        return {each[0]: each[1] for each in words if len(each) == 2}

    def node_state(self, name: str) -> str:
        """The state of a node."""
        return self.alice(f"sinfo -h -n {name} -o %T", quiet=True).strip()

    def job_state(self, job: str) -> str:
        """The state of a job."""
        return self.alice(f"squeue -h -j {job} -o %T", quiet=True).strip()

    def replicas(self) -> int:
        """How many workers compute should have."""
        return int(self.kubectl(f"get nodeset -n {NAMESPACE} compute -o jsonpath={{.spec.replicas}}", quiet=True) or 0)

    def scale(self, replicas: int) -> None:
        """Set the number of workers of compute."""
        self.kubectl(f"scale nodeset -n {NAMESPACE} compute --replicas={replicas}")


def idle(nodes: dict[str, str]) -> list[str]:
    """The nodes that a job could use at once."""
    return sorted(name for name, state in nodes.items() if state == "idle")


def held(nodes: dict[str, str]) -> list[str]:
    """The nodes that exist but are in use: with a job on them, planned for one (`-`), or drained."""
    taken = ("alloc", "mix", "down", "drain", "drng", "resv", "maint", "plnd")
    return sorted(name for name, state in nodes.items() if state in taken or state.endswith("-"))


def cancel_earlier(demo: Demo) -> None:
    """Cancel the jobs of an earlier demo that did not finish."""
    lines = demo.alice("squeue -h -u alice -o '%i %k'", quiet=True).splitlines()
    jobs = [line.split()[0] for line in lines if line.split()[1:] == [MARK]]
    if jobs:
        click.echo(f"An earlier demo has left {counted(len(jobs), 'job')} behind: {', '.join(jobs)}. Cancelled.")
        demo.alice(f"scancel {' '.join(jobs)}")


def make_room(demo: Demo) -> None:
    """Wait for two idle nodes; if others use them, add workers instead of waiting for their jobs."""
    what, began = f"{NODES} nodes of compute are idle", time.monotonic()

    def is_so() -> bool:
        return len(idle(demo.nodes("compute"))) >= NODES

    async def why() -> Reason:
        taken = await asyncio.to_thread(lambda: list(holders(demo, held(demo.nodes("compute")))))
        return Reason("; ".join(taken)) if taken else await demo.why("nodeset/compute")

    most = demo.replicas() + MAX_ADDED
    # Jobs that waited may take what is added: a few looks are not enough.
    for _ in range(int(STEP_SECONDS / PATIENCE_SECONDS)):
        if demo.watch(what, is_so, why, PATIENCE_SECONDS).is_so:
            break
        nodes = demo.nodes("compute")
        wanted = min(len(held(nodes)) + NODES, most)
        if held(nodes) and wanted > demo.replicas():
            add_workers(demo, nodes, wanted)
    demo.wait(what, is_so, why, began)


def add_workers(demo: Demo, nodes: dict[str, str], replicas: int) -> None:
    """Set the number of workers, and say why."""
    for line in holders(demo, held(nodes)):
        click.echo(f"  {line}")
    click.echo("  The demo leaves that as it is, and adds workers.")
    demo.scale(replicas)


def holders(demo: Demo, nodes: Collection[str]) -> Iterator[str]:
    """Who uses these nodes."""
    for name in nodes:
        jobs = demo.alice(f"squeue -h -w {name} -o 'job %i (%j) of %u'", quiet=True).splitlines()
        reason = demo.alice(f"sinfo -h -n {name} -o %E", quiet=True).strip()
        why = ", ".join(jobs) or (reason if reason not in ("", "none") else "")
        yield f"{name} is {demo.node_state(name)}" + (f": {why}" if why else "")


def submit(demo: Demo) -> str:
    """Submit the job, and add workers while other jobs come first."""
    script = shlex.quote(JOB)
    job = demo.alice(f"sbatch --parsable -p compute -N{NODES} -t 5 -J demo --comment={MARK} --wrap {script}").strip()
    what, about, began = "the job runs", f"job/{job}", time.monotonic()

    def is_so() -> bool:
        return demo.job_state(job) != "PENDING"

    for _ in range(MAX_ADDED // NODES):
        if demo.watch(what, is_so, about, PATIENCE_SECONDS).is_so:
            break
        add_workers(demo, demo.nodes("compute"), demo.replicas() + NODES)
    demo.wait(what, is_so, about, began)
    return job


def grow(demo: Demo) -> str:
    """Add one worker, and return its name."""
    before = set(demo.nodes("compute"))
    demo.scale(demo.replicas() + 1)
    new: list[str] = []

    def is_there() -> bool:
        new[:] = [name for name in idle(demo.nodes("compute")) if name not in before]
        return bool(new)

    demo.wait("Slurm has one more node", is_there, "nodeset/compute")
    return new[0]


def drain(demo: Demo, name: str) -> None:
    """A worker is cordoned by an annotation, and uncordoned."""
    demo.kubectl(f"annotate pod -n {NAMESPACE} {name} {CORDON}=true --overwrite")
    demo.wait(f"Slurm drains {name}", lambda: demo.node_state(name).startswith("drain"), f"node/{name}")
    demo.alice("sinfo -R")
    demo.kubectl(f"annotate pod -n {NAMESPACE} {name} {CORDON}-")
    demo.wait(f"Slurm takes {name} back", lambda: not demo.node_state(name).startswith("drain"), f"node/{name}")


def run(demo: Demo, without: Collection[str] = ()) -> None:
    """All steps."""
    demo.say("What runs")
    cancel_earlier(demo)
    click.secho(f"$ export KUBECONFIG={shlex.quote(str(demo.home.kubeconfig))}", bold=True)
    demo.kubectl(f"get {KINDS} -n {NAMESPACE}")
    demo.kubectl(f"get pods -n {NAMESPACE} -o wide")
    make_room(demo)
    if "debug" not in without:
        demo.wait("Slurm has both partitions", lambda: bool(demo.nodes("debug")), "nodeset/debug")
    demo.alice("sinfo")
    demo.say("A job on two nodes, as an ordinary user")
    job = submit(demo)
    demo.alice("squeue")
    demo.say("One more worker while it runs")
    added = grow(demo)
    demo.say("A node is drained with an annotation, and put back into service")
    drain(demo, "debug-0" if demo.node_state("debug-0") == "idle" else added)
    demo.alice("sinfo")
    finish(demo, job)


def finish(demo: Demo, job: str) -> None:
    """Wait until the job has ended in accounting."""
    demo.say("The job in accounting")

    def state() -> str:
        return demo.alice(f"sacct -n -X -P -j {job} -o State", quiet=True).strip()

    def is_over() -> bool:
        return state() not in {"", "PENDING", "RUNNING", "COMPLETING"}

    demo.wait("the job has ended", is_over, f"job/{job}")
    demo.alice(f"sacct -j {job} -o JobID,JobName,Partition,NodeList,State,ExitCode,Elapsed")
    if state() != DONE:
        raise DemoFailed(f"the job is {state()}, not {DONE}")


def stuck_nodesets(demo: Demo) -> list[str]:
    """The NodeSets of the demo that somebody deleted and that do not go: it can do without them."""

    def deleted() -> list[str]:
        said = demo.kubectl(f"get nodesets -n {NAMESPACE} -o json", quiet=True)
        items = (json.loads(said) if said else {}).get("items", [])
        names = [each["metadata"]["name"] for each in items if each["metadata"].get("deletionTimestamp")]
        return [name for name in names if name in DISPENSABLE]

    found = []
    for name in deleted():
        what = f"NodeSet {name} is gone, since it is being deleted"
        waited = demo.watch(what, lambda name=name: name not in deleted(), f"nodeset/{name}", PATIENCE_SECONDS)  # type: ignore[misc]
        if not waited.is_so:
            click.echo(f"  {waited.reason.text}\n  The demo leaves that as it is, and goes on without NodeSet {name}.")
            found.append(name)
    return found


def up(typed: Typed, without: Collection[str] = ()) -> None:
    """The cluster, with what is missing on this machine installed."""
    with TemporaryDirectory() as folder:
        manifests = reduced(Path(folder), without) if without else EXAMPLES
        here = Path.cwd()
        shown = manifests.relative_to(here) if manifests.is_relative_to(here) else manifests
        click.secho(f"$ {typed.local('up', '-f', str(shown))}", bold=True)
        command = [sys.executable, "-m", "slurm_operator.cli.main", "local", "up", "-f", str(manifests), *typed.options]
        if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 - our own program
            raise DemoFailed("the cluster did not come up; the reason is above")


def reduced(folder: Path, without: Collection[str]) -> Path:
    """The manifests of the demo, without some NodeSets."""
    for path in sorted(EXAMPLES.glob("*.yaml")):
        objects = (each for each in yaml.safe_load_all(path.read_text()) if each)
        kept = [each for each in objects if each["kind"] != "NodeSet" or each["metadata"]["name"] not in without]
        (folder / path.name).write_text(yaml.safe_dump_all(kept, sort_keys=False))
    return folder


def demo_of(home: Home, typed: Typed) -> Demo:
    """The steps, on a cluster that is up."""
    with show() as progress:
        kubectl = machine.kubectl(Path(home.require().cache), progress)
    return Demo(home, kubectl, typed)


@click.command()
@click.option("--name", default="demo", show_default=True, help="Name of the cluster.")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder of the cluster.")
def main(name: str, data: Path | None) -> None:
    """Bring up a Slurm cluster on this machine and show what it can do."""
    began, typed = time.monotonic(), Typed(name, data)
    try:
        home = Home.of(name, data)
        machine.require_root()
        without: list[str] = []
        if home.choices() is not None and asyncio.run(answers(home)):
            # They may keep one of the demo's own NodeSets from going, or from coming.
            cancel_earlier(demo_of(home, typed))
            without = stuck_nodesets(demo_of(home, typed))
        up(typed, without)
        run(demo_of(home, typed), without)
    except OperatorError as error:
        click.secho(f"Error: {typed.text(str(error))}", fg="red", err=True)
        sys.exit(1)
    click.secho(f"\nDone in {time.monotonic() - began:.0f} s. Next:", fg="green", bold=True)
    commands = (
        (typed.local("shell"), "a shell as alice: sbatch, srun, squeue, sinfo, sacct"),
        (f"{typed.local('kubectl')} get pods -A", "kubectl on this cluster"),
        (typed.local("status"), "its state"),
        (typed.local("down"), "stop it; the data is kept for the next make demo"),
        (typed.local("reset"), "remove everything"),
    )
    width = max(len(command) for command, _ in commands)
    for command, text in commands:
        click.echo(f"  {command:{width}}  {text}")


if __name__ == "__main__":
    main()
