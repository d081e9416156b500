"""`make demo`: a Slurm cluster on this machine, a job on it, and what can be done while the job runs.

In: examples/demo and a root shell on Linux. Out: the commands as a person would type them, with what they print; exit
code 0 only when the accounting says that the job has COMPLETED. Everything is done with `slurm-operator local` and
kubectl, so each step can be repeated by hand.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from kube_runtime.errors import OperatorError
from slurm_operator.local import machine
from slurm_operator.local.home import Home
from slurm_operator.local.image.progress import show

EXAMPLES = Path(__file__).parent.parent / "examples" / "demo"
KINDS = "controllers,accountings,restapis,loginsets,nodesets,partitions,tokens"
CORDON = "nodeset.slinky.slurm.net/pod-cordon"
JOB = "srun hostname; sleep 10; echo done"
STEP_SECONDS = 120.0
DONE = "COMPLETED"


class DemoFailed(OperatorError):
    """A step did not come to its end."""


class Demo:
    """The steps, with the clock that they share."""

    def __init__(self, home: Home, kubectl: str) -> None:
        self.start = time.monotonic()
        self.kubectl_program = kubectl
        self.environment = {**os.environ, "KUBECONFIG": str(home.kubeconfig)}

    def say(self, text: str) -> None:
        """A heading."""
        click.secho(f"\n[{time.monotonic() - self.start:5.1f} s] {text}", fg="cyan", bold=True)

    def kubectl(self, line: str, *, quiet: bool = False) -> str:
        """Run kubectl and show what it says."""
        return self._run([self.kubectl_program, *shlex.split(line)], f"kubectl {line}", quiet=quiet)

    def alice(self, line: str, *, quiet: bool = False) -> str:
        """Run a command as alice in the login pod."""
        where = ["exec", "-n", "slurm", "deploy/login", "-c", "login", "--"]
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

    def wait(self, what: str, is_so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        began, deadline = time.monotonic(), time.monotonic() + STEP_SECONDS
        while not is_so():
            if time.monotonic() > deadline:
                raise DemoFailed(f"{what} did not happen within {STEP_SECONDS:g} s: see slurm-operator local status")
            time.sleep(0.3)
        click.echo(f"  {what} ({time.monotonic() - began:.1f} s)")

    def partition_states(self) -> dict[str, str]:
        """Slurm's word on its partitions: the state of their nodes, where they have one in common."""
        words = (line.split() for line in self.alice("sinfo -h -o '%P %T'", quiet=True).splitlines())
        return {each[0]: each[1] for each in words if len(each) == 2}

    def node_state(self, name: str) -> str:
        """Slurm's word on a node."""
        return self.alice(f"sinfo -h -n {name} -o %T", quiet=True).strip()


def run(home: Home, kubectl: str) -> None:
    """All steps."""
    demo = Demo(home, kubectl)
    demo.say("What runs")
    demo.kubectl(f"get {KINDS} -n slurm")
    demo.kubectl("get pods -n slurm -o wide")
    demo.wait(
        "Slurm has both partitions, and their nodes are idle",
        lambda: demo.partition_states() == {"compute*": "idle", "debug": "idle"},
    )
    demo.alice("sinfo")
    demo.say("A job on two nodes, as an ordinary user")
    job = demo.alice(f"sbatch --parsable -N2 -J demo --wrap {shlex.quote(JOB)}").strip()
    demo.wait("the job runs", lambda: demo.alice(f"squeue -h -j {job} -o %T", quiet=True).strip() != "PENDING")
    demo.alice("squeue")
    demo.say("One worker more while it runs")
    demo.kubectl("scale nodeset -n slurm compute --replicas=3")
    demo.wait("Slurm has compute-2", lambda: demo.node_state("compute-2") == "idle")
    demo.say("A node is drained by an annotation, and taken back")
    demo.kubectl(f"annotate pod -n slurm debug-0 {CORDON}=true --overwrite")
    demo.wait("Slurm drains debug-0", lambda: demo.node_state("debug-0").startswith("drain"))
    demo.alice("sinfo -R")
    demo.kubectl(f"annotate pod -n slurm debug-0 {CORDON}-")
    demo.wait("Slurm takes debug-0 back", lambda: demo.node_state("debug-0") == "idle")
    demo.alice("sinfo")
    finish(demo, job)


def finish(demo: Demo, job: str) -> None:
    """Wait for the job's end in the accounting."""
    demo.say("What the accounting says of the job")

    def state() -> str:
        return demo.alice(f"sacct -n -X -P -j {job} -o State", quiet=True).strip()

    demo.wait("the job has ended", lambda: state() not in {"", "PENDING", "RUNNING", "COMPLETING"})
    demo.alice(f"sacct -j {job} -o JobID,JobName,Partition,NodeList,State,ExitCode,Elapsed")
    if state() != DONE:
        raise DemoFailed(f"the job has not {DONE}: it is {state()}")


def up(arguments: list[str]) -> None:
    """The cluster, with what is missing on this machine installed."""
    command = [sys.executable, "-m", "slurm_operator.cli.main", "local", "up", "-f", str(EXAMPLES), *arguments]
    click.secho("$ sudo slurm-operator local up -f examples/demo", bold=True)
    if subprocess.run(command, check=False).returncode != 0:  # noqa: S603 - our own program
        raise DemoFailed("the cluster did not come up; the reason stands above")


@click.command()
@click.option("--name", default="demo", show_default=True, help="Name of the cluster.")
@click.option("--data", type=click.Path(path_type=Path), help="Data folder of the cluster.")
def main(name: str, data: Path | None) -> None:
    """Bring up a Slurm cluster on this machine and show what it can do."""
    began = time.monotonic()
    try:
        home = Home.of(name, data)
        machine.require_root()
        up(["--name", name, *(["--data", str(data)] if data else [])])
        with show() as progress:
            kubectl = machine.kubectl(Path(home.require().cache), progress)
        run(home, kubectl)
    except OperatorError as error:
        click.secho(f"Error: {error}", fg="red", err=True)
        sys.exit(1)
    click.secho(f"\nAll of it took {time.monotonic() - began:.0f} s. Go on:", fg="green", bold=True)
    click.echo("  slurm-operator local shell               a shell as alice: sbatch, srun, squeue, sinfo, sacct")
    click.echo("  slurm-operator local kubectl get pods -A  kubectl on this cluster")
    click.echo("  slurm-operator local status              how it is")
    click.echo("  make down                                stop it; its data stay for the next make demo")
    click.echo("  slurm-operator local reset               remove everything")


if __name__ == "__main__":
    main()
