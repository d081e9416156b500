"""`slurm-operator local`: a Slurm cluster on this machine, without a Kubernetes.

In: arguments. Out: text for people, JSON for machines, and exit codes: 0 is well, 1 is not, 2 is wrong usage. Every
command takes `--name` or `--data`; the work is done by `local/cluster.py`.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys
import sysconfig
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from slurm_operator.cli.invocation import Typed
    from slurm_operator.cli.manifests import Manifest
    from slurm_operator.cli.places import Problem
    from slurm_operator.local.home import Home

F = TypeVar("F", bound=Callable[..., Any])
DEFAULT_NAME = "demo"
# `local kubectl get pods -w` is kubectl's business, down to its -h.
PASSED_ON = {"ignore_unknown_options": True, "allow_interspersed_args": False, "help_option_names": []}


def of_cluster(command: F) -> F:
    """Which cluster is meant."""
    command = click.option("--data", type=click.Path(path_type=Path), help="Data folder of the cluster.")(command)
    return click.option("--name", default=DEFAULT_NAME, show_default=True, help="Name of the cluster.")(command)


def with_plain_errors(command: F) -> F:
    """Turns an error of ours into one sentence and exit code 1, never a traceback."""

    @functools.wraps(command)
    def wrapped(*arguments: Any, **options: Any) -> Any:
        from kube_runtime.errors import OperatorError

        try:
            return command(*arguments, **options)
        except OperatorError as error:
            typed = _typed(options.get("name", DEFAULT_NAME), options.get("data"))
            click.secho(f"Error: {typed.text(str(error))}", fg="red", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("stopped waiting; what was started keeps running", err=True)
            sys.exit(130)

    return wrapped  # type: ignore[return-value]  # same signature


def _typed(name: str, data: Path | None) -> Typed:
    from slurm_operator.cli.invocation import Typed

    return Typed(name, data)


def _home(name: str, data: Path | None) -> Home:
    from slurm_operator.local.home import Home

    return Home.of(name, data)


@click.group()
def local() -> None:
    """Run a Slurm cluster on this machine, without a Kubernetes (Linux, root)."""
    if importlib.util.find_spec("slurm_operator.local") is None:
        raise click.ClickException("local mode is not installed here; run pip install 'slurm-operator[local]'")


@local.command()
@click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    metavar="FILE|DIR|-",
    help="Manifests to apply: files, folders, or - for standard input. May be repeated.",
)
@click.option("--slurm", metavar="VERSION", help="Slurm version, such as 24.11 or 26.05.")
@click.option("--nodes", type=click.IntRange(1, 256), help="How many (virtual) Kubernetes nodes.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port of the API server; any free one by default."
)
@click.option(
    "--wait/--no-wait", default=True, help="Wait until everything is ready; with -f, everything in the manifests."
)
@click.option(
    "--timeout", type=click.IntRange(1), default=300, show_default=True, help="Maximum number of seconds to wait."
)
@of_cluster
@with_plain_errors
def up(
    paths: tuple[str, ...],
    slurm: str | None,
    nodes: int | None,
    port: int,
    wait: bool,
    timeout: int,
    name: str,
    data: Path | None,
) -> None:
    """Start the cluster, apply manifests and wait until everything is ready. Doing it again changes nothing."""
    import asyncio

    from slurm_operator.cli import local_view, local_wait
    from slurm_operator.local import cluster
    from slurm_operator.local.home import Choices
    from slurm_operator.local.image.progress import show

    objects = _manifests(paths)
    home = _home(name, data)
    before = home.choices() or Choices(name=name)
    choices = Choices(
        name=name, slurm=slurm or before.slurm, nodes=nodes or before.nodes, port=port, cache=before.cache
    )
    with show() as progress:
        chosen = cluster.prepare(home, choices, progress)
        asyncio.run(cluster.start(home, progress))
    if before.nodes != chosen.nodes or before.slurm != chosen.slurm:
        cluster.restart_part(home, "node")
    typed = _typed(name, data)
    local_wait.until_gone(home, objects, typed, timeout)
    applied = asyncio.run(cluster.apply(home, objects))
    if objects:
        click.echo(local_view.applied(applied), err=True)
    if wait:
        local_wait.until_ready(home, cluster.keys_of(objects) if objects else None, typed, timeout)
    click.echo(f"The cluster {name!r} is up. Next: {_next_steps(typed)}", err=True)


def _next_steps(typed: Typed) -> str:
    """The commands that come next, each with the options that name this very cluster."""
    return ", ".join(typed.local(verb) for verb in ("status", "kubectl", "shell", "down"))


def _manifests(paths: tuple[str, ...]) -> list[dict[str, Any]]:
    from slurm_operator.cli.manifests import read
    from slurm_operator.cli.places import Problem
    from slurm_operator.local.home import LocalError

    found = list(read(paths)) if paths else []
    problems = [problem for item in found for problem in ([item] if isinstance(item, Problem) else _misshapen(item))]
    if problems:
        raise LocalError("\n".join(str(problem) for problem in problems))
    return [item.value for item in found if not isinstance(item, Problem)]


def _misshapen(item: Manifest) -> Iterator[Problem]:
    """What an API server could not even be asked about."""
    from slurm_operator.api.problem import format_path
    from slurm_operator.cli.places import Problem

    for path in (("apiVersion",), ("kind",), ("metadata", "name")):
        value: Any = item.value
        for step in path:
            value = value.get(step) if isinstance(value, dict) else None
        if not isinstance(value, str) or not value:
            place = item.places.at(path)
            yield Problem(item.source, place.line, place.column, f"{format_path(path)}: is required, and is text")


@local.command()
@of_cluster
@with_plain_errors
def down(name: str, data: Path | None) -> None:
    """Stop everything; objects, job records and volumes stay for the next `up`."""
    from slurm_operator.local import cluster
    from slurm_operator.local.image.progress import show

    home = _home(name, data)
    if home.choices() is None:
        click.echo(f"There is no cluster in {home.data}: nothing to stop.", err=True)
        return
    with show() as progress:
        ran = cluster.down(home, progress)
    click.echo(f"The cluster {name!r} {'is stopped' if ran else 'did not run'}; its data is kept.", err=True)


@local.command()
@of_cluster
@with_plain_errors
def reset(name: str, data: Path | None) -> None:
    """Remove the cluster with all its data; images stay in the cache."""
    from slurm_operator.local import cluster
    from slurm_operator.local.image.progress import show

    with show() as progress:
        was = cluster.reset(home := _home(name, data), progress)
    click.echo(f"{'Nothing is left of the cluster' if was else 'There is no cluster'} in {home.data}.", err=True)


@local.command()
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text", show_default=True)
@of_cluster
@with_plain_errors
def status(output: str, name: str, data: Path | None) -> None:
    """Show the state of the cluster; exit code 1 when it is not healthy."""
    import asyncio

    from slurm_operator.cli import local_view
    from slurm_operator.local import cluster

    health = asyncio.run(cluster.health(_home(name, data)))
    text = local_view.as_json(health) if output == "json" else _typed(name, data).text(local_view.as_text(health))
    click.echo(text, nl=False)
    sys.exit(0 if health.healthy else 1)


@local.command()
@click.argument("part", required=False)
@click.option("-f", "--follow", is_flag=True, help="Follow the log.")
@click.option("--tail", type=click.IntRange(0), default=50, show_default=True, help="Lines from the end.")
@of_cluster
@with_plain_errors
def logs(part: str | None, follow: bool, tail: int, name: str, data: Path | None) -> None:
    """Show the log of a part: apiserver, node, controllers, operator or supervisor; all by default."""
    from slurm_operator.local import cluster
    from slurm_operator.local.home import LocalError

    home = _home(name, data)
    home.require()
    names = cluster.part_names()
    if part is not None and part not in names:
        raise LocalError(f"there is no part {part!r}: {', '.join(names)}; pods have kubectl logs")
    files = [str(home.log(each)) for each in ([part] if part else names) if home.log(each).exists()]
    if not files:
        raise LocalError("nothing was written yet")
    os.execvp("tail", ["tail", "-n", str(tail), *(["-F"] if follow else []), *files])  # noqa: S606, S607


@local.command()
@click.option("--path", is_flag=True, help="Print the file's path only.")
@of_cluster
@with_plain_errors
def kubeconfig(path: bool, name: str, data: Path | None) -> None:
    """Print the kubeconfig of the cluster."""
    home = _home(name, data)
    home.require()
    click.echo(str(home.kubeconfig) + "\n" if path else home.kubeconfig.read_text(), nl=False)


@local.command(context_settings=PASSED_ON, add_help_option=False)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@of_cluster
@with_plain_errors
def kubectl(arguments: tuple[str, ...], name: str, data: Path | None) -> None:
    """Run kubectl against the cluster; one is fetched if this machine has none."""
    from slurm_operator.cli.invocation import LOCAL_UP

    program, environment = _kubectl(_home(name, data))
    environment[LOCAL_UP] = _typed(name, data).local("up")
    os.execve(program, ["kubectl", *arguments], environment)  # noqa: S606


def _kubectl(home: Home) -> tuple[str, dict[str, str]]:
    from slurm_operator.local import machine
    from slurm_operator.local.image.progress import show

    choices = home.require()
    with show() as progress:
        program = machine.kubectl(Path(choices.cache), progress)
    # Plugins are looked for on the PATH; `kubectl slurm` stands beside this program, and asks which kubectl called it.
    path = f"{os.environ.get('PATH', os.defpath)}:{sysconfig.get_path('scripts')}"
    return program, {**os.environ, "KUBECONFIG": str(home.kubeconfig), "KUBECTL": program, "PATH": path}


@local.command()
@click.option("--user", default="alice", show_default=True, help="User to log in as: alice, bob or root.")
@click.option("-n", "--namespace", help="Namespace of the login pod, where there are several.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@of_cluster
@with_plain_errors
def shell(user: str, namespace: str | None, command: tuple[str, ...], name: str, data: Path | None) -> None:
    """Open a login shell with sbatch and squeue, or run a command there."""
    import asyncio
    import shlex

    from slurm_operator.local import cluster

    home = _home(name, data)
    pod = asyncio.run(cluster.login_pod(home, namespace))
    program, environment = _kubectl(home)
    argv = ["su", "-", user, *(["-c", shlex.join(command)] if command else [])]
    terminal = ["-it"] if sys.stdin.isatty() and not command else ["-i"]
    where = ["-n", pod.namespace, pod.name, "-c", pod.container]
    os.execve(program, ["kubectl", "exec", *terminal, *where, "--", *argv], environment)  # noqa: S606


@local.group()
def image() -> None:
    """Images: Debian root file systems with Slurm, built here."""


@image.command("build")
@click.option("--slurm", metavar="VERSION", help="Slurm version, such as 24.11 or 26.05.")
@click.option("--refresh", is_flag=True, help="Ask the mirror for newer packages.")
@with_plain_errors
def image_build(slurm: str | None, refresh: bool) -> None:
    """Build the image of a Slurm version, if it is not there yet."""
    from slurm_operator.local.image import build, recipe, store
    from slurm_operator.local.image.progress import show

    with show() as progress:
        built = build.build(slurm or recipe.DEFAULT_VERSION, store.default_cache(), progress, refresh=refresh)
    click.echo(f"Slurm {built.version} of Debian {built.suite}: {built.path} ({built.bytes / 1e6:.0f} MB)")


@image.command("list")
@with_plain_errors
def image_list() -> None:
    """List the images that were built."""
    from slurm_operator.local.image import store

    for each in store.list_images(store.default_cache()):
        old = "" if each.current else "  (outdated: it would be built differently today)"
        click.echo(f"{each.version}  {each.suite:8}  {each.bytes / 1e6:5.0f} MB  {each.built}  {each.path}{old}")


@local.command()
@of_cluster
@with_plain_errors
def images(name: str, data: Path | None) -> None:
    """Show what image names in manifests stand for; the first line names the file to change."""
    from slurm_operator.local.image import rules

    home = _home(name, data)
    click.echo(f"# {home.rules}")
    click.echo(rules.dump(rules.load(home.rules)), nl=False)
