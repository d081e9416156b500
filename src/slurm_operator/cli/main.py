"""The command line's front: commands and options, nothing else.

In: arguments. Out: an exit code; 0 is well, 1 is findings, 2 is wrong usage. Each command imports what it needs when it
runs.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from slurm_operator import __version__
from slurm_operator.cli import flags
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
    help="Manifests to read: files, folders, or - for standard input. May be repeated.",
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
    found = [*world.findings, *result.findings]
    if not found and (nothing := rendering.nothing_to_show(result, kinds, slurm_conf)):
        raise click.ClickException(nothing)
    if slurm_conf:
        _print_slurm_confs(result.slurm_confs)
    elif output == "json":
        click.echo(rendering.as_json(result.of_kinds(kinds)), nl=False)
    else:
        for text in rendering.as_yaml(result.of_kinds(kinds), () if kinds else result.notes):
            click.echo(text, nl=False)
    _finish(found)


def _print_slurm_confs(confs: dict[str, str]) -> None:
    for name, text in confs.items():
        if len(confs) > 1:
            click.echo(f"# Controller {name}")
        click.echo(text, nl=False)


@main.command()
@FILES
@click.option("--strict", is_flag=True, help="Fail on warnings too.")
@click.option(
    "--slurm",
    "version",
    metavar="VERSION",
    callback=flags.slurm_version,
    help="Slurm version, such as 25.11; taken from the images by default.",
)
@click.option(
    "--allow-pod-features",
    "features",
    default="",
    metavar="A,B|all",
    help="Pod features that your operator allows; others get a warning.",
)
@flags.worker_images
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def check(
    paths: tuple[str, ...], strict: bool, version: str | None, features: str, worker_images: str, output: str
) -> None:
    """Check manifests: fields, rules, references and the slurm.conf that they become; no cluster is needed.

    The exit code is 1 if there is an error, or no manifest to check.
    """
    from slurm_operator.cli.check import check as checking
    from slurm_operator.cli.world import load

    world = load(paths, partial=True)
    found = checking(world, version, flags.pod_features(features), flags.names(worker_images))
    if output == "text":
        _print_findings(found)
        click.echo(_summary(world.documents, found, paths), err=True)
    else:
        _print_data([finding.as_json() for finding in found], output)
    failed = any(strict or finding.severity == "error" for finding in found)
    # A wrong path or an empty pipe in a CI job must not look like manifests that are right.
    sys.exit(1 if failed or not world.documents else 0)


def _print_findings(found: list[Finding]) -> None:
    for finding in found:
        click.secho(str(finding), fg="red" if finding.severity == "error" else "yellow")


def _summary(documents: int, found: list[Finding], paths: tuple[str, ...]) -> str:
    from slurm_operator.api.plural import counted
    from slurm_operator.cli.findings import errors

    if not documents and not found:
        return f"nothing was checked: there is no manifest in {', '.join(paths)}"
    wrong = errors(found)
    warnings = counted(len(found) - wrong, "warning")
    return f"{counted(documents, 'document')} checked: {counted(wrong, 'error')}, {warnings}"


def _print_data(data: object, output: str) -> None:
    if output == "json":
        import json

        click.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        import yaml

        click.echo(yaml.safe_dump(data, sort_keys=False, allow_unicode=True), nl=False)


@main.command("migrate-check")
@click.option("--kubeconfig", default="", help="Kubeconfig file; by default KUBECONFIG, then ~/.kube/config.")
@click.option("--context", "kube_context", default="", help="Context within the kubeconfig.")
@click.option("-n", "--namespace", default="", help="Look at the clusters of this namespace only; all by default.")
@click.option(
    "--operator-namespace",
    default="",
    help="Namespace of the Go operator; by default the one whose webhook the API server calls, or the only one.",
)
@click.option(
    "--values",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Values of the Go operator's chart; by default those of its release in the cluster.",
)
@click.option("-o", "--output", type=click.Choice(["text", "json", "yaml"]), default="text", show_default=True)
def migrate_check(
    kubeconfig: str,
    kube_context: str,
    namespace: str,
    operator_namespace: str,
    values: tuple[Path, ...],
    output: str,
) -> None:
    """Show what a switch from the Go operator would change, what it needs, and the steps in order; changes nothing.

    The exit code is 1 if something needs a decision, or if there is no resource to look at.
    """
    from slurm_operator.cli import migrate_check as checking
    from slurm_operator.cli.kubectl.command import Where, answered, connected
    from slurm_operator.diagnose.migration import Installation, migration

    known = frozenset(
        option.lstrip("-") for command in (run, webhook) for each in command.params for option in each.opts
    )

    async def look() -> Installation:
        async with connected(Where(kubeconfig, kube_context, namespace)) as (client, _):
            return await checking.read(client, namespace, values, known, operator_namespace)

    found = migration(answered(look()))
    if output == "text":
        click.echo(checking.text(found), nl=False)
    else:
        _print_data(found.as_json(), output)
    sys.exit(1 if found.decisions else 0)


@main.command(cls=flags.ServerCommand, context_settings=flags.CONTEXT)
@flags.servers(health=":8081", metrics=":8080")
@flags.workers
@click.option(
    "--propagated-node-conditions",
    default="",
    metavar="A,B",
    help="Kubernetes node conditions to use as drain reasons.",
)
@flags.switch("--profile", help="Serve stacks and profiles, to this machine only.")
@click.option("--profile-addr", default="localhost:6060", show_default=True, help="Address of /debug.")
@click.option(
    "--slurmclient-workers",
    default=2,
    help="Accepted for compatibility with the Go operator; Slurm is asked once per cluster.",
)
@click.option(
    "--restapi-address",
    default="http://{service}.{namespace}:{port}",
    show_default=True,
    help="How to reach slurmrestd.",
)
def run(**given: Any) -> None:
    """Run the operator.

    Each flag can be set in the environment as SLURM_OPERATOR_<FLAG>, or in the file of --config.
    """
    from slurm_operator.cli.run import run_operator
    from slurm_operator.settings import Settings

    flags.set_up_logging(given)
    settings = Settings(
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        namespaces=flags.namespaces(given["namespaces"]),
        leader_elect=given["leader_elect"],
        leader_elect_namespace=given["leader_elect_namespace"],
        propagated_node_conditions=flags.names(given["propagated_node_conditions"]),
        health=flags.address(given["health_addr"], "--health-addr"),
        metrics=flags.address(given["metrics_addr"], "--metrics-addr"),
        metrics_secure=given["metrics_secure"],
        allowed_pod_features=flags.pod_features(given["allow_pod_features"]),
        worker_images=flags.names(given["worker_images"]),
        profile=flags.address(given["profile_addr"], "--profile-addr") if given["profile"] else ("", 0),
        workers=flags.workers_of(given),
        restapi_address=flags.restapi_address(given["restapi_address"]),
    )
    sys.exit(run_operator(settings))


@main.command(cls=flags.ServerCommand, context_settings=flags.CONTEXT)
@flags.servers(health=":8081", metrics="0")
@click.option("--server-addr", default=":9443", show_default=True, help="Address that API servers call.")
@click.option(
    "--cert-dir",
    default="",
    metavar="DIR",
    help="Serve the tls.crt and tls.key in this folder, such as a mounted Secret of cert-manager, and follow it.",
)
@click.option(
    "--cert-secret",
    default="slurm-operator-webhook-ca",
    show_default=True,
    help="Secret for the certificate that the server makes itself.",
)
@click.option("--cert-namespace", default="", help="Namespace of that Secret and of the Service; our own by default.")
@click.option("--cert-hosts", default="", metavar="A,B", help="Additional host names and addresses of the server.")
@click.option("--service", default="slurm-operator-webhook", show_default=True, help="Service that API servers call.")
@click.option(
    "--webhook-configuration",
    default="slurm-operator-webhook",
    show_default=True,
    help="ValidatingWebhookConfiguration to write the CA into.",
)
def webhook(**given: Any) -> None:
    """Run the admission server.

    Without --cert-dir it makes its own certificate, renews it with overlap, and publishes its CA.
    """
    from slurm_operator.cli.webhook import Certificates, run_webhook
    from slurm_operator.settings import Settings

    flags.set_up_logging(given)
    settings = Settings(
        kubeconfig=given["kubeconfig"],
        context=given["context"],
        namespaces=flags.namespaces(given["namespaces"]),
        health=flags.address(given["health_addr"], "--health-addr"),
        metrics=flags.address(given["metrics_addr"], "--metrics-addr"),
        metrics_secure=given["metrics_secure"],
        allowed_pod_features=flags.pod_features(given["allow_pod_features"]),
        worker_images=flags.names(given["worker_images"]),
    )
    chosen = Certificates(
        folder=given["cert_dir"],
        secret=given["cert_secret"],
        namespace=given["cert_namespace"],
        service=given["service"],
        configuration=given["webhook_configuration"],
        hosts=flags.names(given["cert_hosts"]),
    )
    sys.exit(run_webhook(settings, flags.address(given["server_addr"], "--server-addr"), chosen))


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
