"""The command line's front: commands and options, nothing else.

In: arguments. Out: an exit code; 0 is well, 1 is findings, 2 is wrong usage. Each command imports what it needs when it
runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Literal

import click

from slurm_operator import __version__
from slurm_operator.cli.local import local

if TYPE_CHECKING:
    from slurm_operator.cli.findings import Finding

FILES = click.option(
    "-f",
    "--filename",
    "paths",
    multiple=True,
    required=True,
    metavar="FILE|DIR|-",
    help="Manifests to read; a folder is read whole, - is standard input. May be given again.",
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="slurm-operator")
def main() -> None:
    """Run Slurm on Kubernetes."""


main.add_command(local)


@main.command()
@FILES
@click.option("--kind", "kinds", multiple=True, metavar="KIND", help="Show only objects of this kind, or made by it.")
@click.option("--slurm-conf", is_flag=True, help="Show only the text of slurm.conf.")
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def render(paths: tuple[str, ...], kinds: tuple[str, ...], slurm_conf: bool, output: str) -> None:
    """Print every object and file that custom resources become; no cluster is needed."""
    from slurm_operator.cli import render as rendering
    from slurm_operator.cli.world import load

    world = load(paths)
    result = rendering.render(world)
    if slurm_conf:
        _print_slurm_confs(result.slurm_confs)
    elif output == "json":
        click.echo(rendering.as_json(result.of_kinds(kinds)), nl=False)
    else:
        for text in rendering.as_yaml(result.of_kinds(kinds), () if kinds else result.notes):
            click.echo(text, nl=False)
    _finish([*world.findings, *result.findings])


def _print_slurm_confs(confs: dict[str, str]) -> None:
    for name, text in confs.items():
        if len(confs) > 1:
            click.echo(f"# Controller {name}")
        click.echo(text, nl=False)


@main.command()
@FILES
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.option(
    "--slurm", "version", metavar="VERSION", help="Slurm version, such as 25.11; told from images by default."
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def check(paths: tuple[str, ...], strict: bool, version: str | None, output: str) -> None:
    """Check manifests: fields, rules, references and the slurm.conf that they become; no cluster is needed."""
    from slurm_operator.cli.check import check as checking
    from slurm_operator.cli.world import load

    world = load(paths)
    found = checking(world, version)
    if output == "text":
        _print_findings(found)
        click.echo(_summary(world.documents, found), err=True)
    else:
        _print_data([finding.as_json() for finding in found], output)
    failed = any(strict or finding.severity == "error" for finding in found)
    sys.exit(1 if failed else 0)


def _print_findings(found: list[Finding]) -> None:
    for finding in found:
        click.secho(str(finding), fg="red" if finding.severity == "error" else "yellow")


def _summary(documents: int, found: list[Finding]) -> str:
    from slurm_operator.cli.findings import errors

    wrong = errors(found)
    return f"{documents} documents checked: {wrong} errors, {len(found) - wrong} warnings"


def _print_data(data: object, output: str) -> None:
    if output == "json":
        import json

        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        import yaml

        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


@main.command()
@click.option("--kubeconfig", default="", help="Kubeconfig file; by default KUBECONFIG, the pod's own, ~/.kube/config.")
@click.option("--context", default="", help="Context within the kubeconfig.")
@click.option("--namespaces", default="", metavar="A,B", help="Watch only these namespaces.")
@click.option("--leader-elect", is_flag=True, help="Let only one of several operators write.")
@click.option("--leader-elect-namespace", default="", help="Namespace of the Lease.")
@click.option(
    "--propagated-node-conditions",
    default="",
    metavar="A,B",
    help="Conditions of Kubernetes nodes that become the reason of a drain.",
)
@click.option("--health-port", default=8081, show_default=True, help="Port of /healthz and /readyz; 0 turns it off.")
@click.option("--metrics-port", default=8080, show_default=True, help="Port of /metrics; 0 turns it off.")
@click.option("--bind", default="0.0.0.0", show_default=True, help="Address of both.")  # noqa: S104
@click.option("--restapi-address", default="http://{service}.{namespace}:{port}", show_default=True)
@click.option("--log-level", default="info", show_default=True)
@click.option("--log-format", type=click.Choice(["auto", "json", "console"]), default="auto", show_default=True)
def run(
    kubeconfig: str,
    context: str,
    namespaces: str,
    leader_elect: bool,
    leader_elect_namespace: str,
    propagated_node_conditions: str,
    health_port: int,
    metrics_port: int,
    bind: str,
    restapi_address: str,
    log_level: str,
    log_format: Literal["auto", "json", "console"],
) -> None:
    """Run the operator."""
    from slurm_operator.cli.run import run_operator
    from slurm_operator.loop.logs import setup_logging
    from slurm_operator.settings import Settings

    setup_logging(log_level, log_format)
    settings = Settings(
        kubeconfig=kubeconfig,
        context=context,
        namespaces=tuple(name for name in namespaces.split(",") if name),
        leader_elect=leader_elect,
        leader_elect_namespace=leader_elect_namespace,
        propagated_node_conditions=tuple(name for name in propagated_node_conditions.split(",") if name),
        health_port=health_port,
        metrics_port=metrics_port,
        bind=bind,
        restapi_address=restapi_address,
    )
    sys.exit(run_operator(settings))


@main.command()
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", show_default=True)
def crds(output: str) -> None:
    """Print the CustomResourceDefinitions."""
    from slurm_operator.api.crd import definitions
    from slurm_operator.cli.render import as_json, as_yaml

    texts = [as_json(definitions())] if output == "json" else as_yaml(definitions())
    for text in texts:
        click.echo(text, nl=False)


def _finish(found: list[Finding]) -> None:
    for finding in found:
        click.secho(str(finding), fg="red", err=True)
    if found:
        sys.exit(1)


if __name__ == "__main__":
    main()
