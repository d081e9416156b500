"""The flags of the long-running commands, `run` and `webhook`: names as the Go operator has them, files, environment.

In: click's context. Out: decorators, and values in the forms that `Settings` wants. A flag wins over the environment
(`SLURM_OPERATOR_<FLAG>`), which wins over the file given by `--config`, which wins over the default. As in Go, a flag
may have one dash or two. Every command imports this, also for its help: what only some flags need is imported there.
"""

from __future__ import annotations

import ipaddress
import logging
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from slurm_operator.api.pod_features import FEATURES
from slurm_operator.build.images import TRUSTED

Command = TypeVar("Command", bound=Callable[..., Any])

log = logging.getLogger(__name__)

CONTEXT: dict[str, Any] = {"auto_envvar_prefix": "SLURM_OPERATOR"}
# The library that the Go operator logs with calls them so.
LEVELS = {"panic": "critical", "dpanic": "critical", "fatal": "critical", "warn": "warning"}
OWN_LEVELS = ("debug", "info", "warning", "error", "critical")
KINDS = ("accounting", "controller", "loginset", "nodeset", "partition", "restapi", "token")


# Flags of the Go operator that have no effect here, and why.
WITHOUT_EFFECT = {
    "--zap-stacktrace-level": "an unexpected error always has its traceback in the log",
    "--zap-time-encoding": "times are written as in 2026-01-31T22:00:00.000+00:00",
}


class ServerCommand(click.Command):
    """A command whose long flags may be written with one dash."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, after giving known flags two dashes."""
        known = {option for each in self.get_params(ctx) for option in each.opts if option.startswith("--")}
        return super().parse_args(ctx, list(_with_two_dashes(args, known)))


def _with_two_dashes(args: list[str], known: set[str]) -> Iterator[str]:
    for index, each in enumerate(args):
        if each == "--":
            yield from args[index:]
            return
        yield f"-{each}" if f"-{each.partition('=')[0]}" in known else each


def set_up_logging(given: Mapping[str, Any]) -> None:
    """Set up logging by the flags, and warn about flags that have no effect."""
    from kube_runtime.loop.logs import setup_logging

    source = click.get_current_context().get_parameter_source
    devel = {"log_level": "debug", "log_format": "console"} if given["zap_devel"] else {}
    unset = {name for name in devel if source(name) is click.core.ParameterSource.DEFAULT}
    chosen = {**given, **{name: value for name, value in devel.items() if name in unset}}
    setup_logging(level(chosen["log_level"]), chosen["log_format"])
    for flag, why in WITHOUT_EFFECT.items():
        if given[flag.lstrip("-").replace("-", "_")]:
            log.warning("the flag %s of the Go operator is accepted, but has no effect: %s", flag, why)


def switch(name: str, default: bool = False, **options: Any) -> Callable[[Command], Command]:
    """A yes-or-no flag as Go has it: `--name`, `--name=true` or `--name=false`."""
    return click.option(
        name, type=click.BOOL, is_flag=False, flag_value="true", default=default, show_default=True, **options
    )


def servers(health: str, metrics: str) -> Callable[[Command], Command]:
    """The flags that both servers have."""

    def decorate(command: Command) -> Command:
        for option in reversed(_shared(health, metrics)):
            command = option(command)
        return command

    return decorate


def _shared(health: str, metrics: str) -> list[Callable[[Any], Any]]:
    return [
        click.option(
            "--config",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            is_eager=True,
            expose_value=False,
            callback=from_file,
            help="YAML file with the flags below as keys.",
        ),
        click.option(
            "--kubeconfig", default="", help="Kubeconfig file; by default KUBECONFIG, the pod's own, ~/.kube/config."
        ),
        click.option("--context", default="", help="Context within the kubeconfig."),
        click.option("--namespaces", default="", metavar="A,B", help="Watch only these namespaces."),
        click.option(
            "--health-addr", default=health, show_default=True, help="Address of /healthz and /readyz; 0 turns it off."
        ),
        click.option("--metrics-addr", default=metrics, show_default=True, help="Address of /metrics; 0 turns it off."),
        switch("--metrics-secure", help="Serve /metrics over TLS, only to clients that Kubernetes authorizes."),
        switch("--enable-http2", help="Accepted for compatibility with the Go operator; these servers speak HTTP/1.1."),
        click.option(
            "--allow-pod-features",
            default="",
            metavar="A,B|all",
            help=f"What pod templates of users may ask for: {', '.join(FEATURES)}; none of it by default.",
        ),
        worker_images,
        switch("--leader-elect", help="Elect a leader: of several replicas only one writes."),
        click.option("--leader-elect-namespace", default="", help="Namespace of the Lease."),
        click.option("--log-level", "--zap-log-level", "log_level", default="info", show_default=True),
        click.option(
            "--log-format",
            "--zap-encoder",
            "log_format",
            type=click.Choice(["auto", "json", "console"]),
            default="auto",
            show_default=True,
        ),
        switch("--zap-devel", help="Same as --log-level=debug --log-format=console, unless those are given."),
        *(
            click.option(flag, default="", help=f"Accepted for compatibility with the Go operator; {why}.")
            for flag, why in WITHOUT_EFFECT.items()
        ),
    ]


def worker_images(command: Command) -> Command:
    """Which images a privileged worker may run."""
    return click.option(
        "--worker-images",
        default=",".join(TRUSTED),
        show_default=True,
        metavar="A,B",
        help="Images that a privileged worker may run: repositories, or prefixes that end in a slash.",
    )(command)


def workers(command: Command) -> Command:
    """How many resources of each kind are worked on at once."""
    for kind in reversed(KINDS):
        command = click.option(
            f"--{kind}-workers", default=4, show_default=True, type=click.IntRange(1, 256), help=f"Of kind {kind}."
        )(command)
    return command


def from_file(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """Take flags from a file, where nothing else sets them."""
    if path is None:
        return
    from slurm_operator.api.problem import did_you_mean
    from slurm_operator.cli.manifests import read_mapping
    from slurm_operator.cli.places import Problem

    content = read_mapping(path)
    if isinstance(content, Problem):
        raise click.BadParameter(str(content), context, parameter)
    known = {option.lstrip("-"): each.name or "" for each in context.command.params for option in each.opts}
    for key, value in content.items():
        if key not in known:
            raise click.BadParameter(f"{path}: unknown flag {key!r}{did_you_mean(key, known)}", context, parameter)
        if any(isinstance(each, dict | list) for each in (value if isinstance(value, list) else [value])):
            message = f"{path}: {key} must be text, a number, true or false, or a list of these"
            raise click.BadParameter(message, context, parameter)
    context.default_map = {known[key]: _plain(value) for key, value in content.items()}


def _plain(value: object) -> object:
    return ",".join(str(item) for item in value) if isinstance(value, list) else value


def names(text: str) -> tuple[str, ...]:
    """The names in a comma-separated list."""
    return tuple(name.strip() for name in text.split(",") if name.strip())


def namespaces(text: str) -> tuple[str, ...]:
    """The namespaces to watch; one that cannot exist would be waited for without end."""
    from slurm_operator.api.text import dns_label

    for name in (found := names(text)):
        if problem := dns_label(name):
            raise click.BadParameter(f"--namespaces: {problem}")
    return found


def address(text: str, flag: str) -> tuple[str, int]:
    """Host and port of `host:port`, `:port` or `0`, which is off."""
    from kube_runtime.text import shown, whole_number

    if text == "0":
        return "", 0
    host, colon, digits = text.rpartition(":")
    port = whole_number(digits) or 0
    if not colon or not 0 < port <= 65535:
        raise click.BadParameter(f"{flag}: {shown(text)} is not an address; write :8080, 127.0.0.1:8080 or 0")
    return _host(host.strip("[]"), flag), port


def restapi_address(text: str) -> str:
    """How slurmrestd is reached, with a place for what differs between clusters."""
    from slurm_operator.slurm.errors import SlurmRejected
    from slurm_operator.slurm.transport import Endpoint

    try:
        made = text.format(service="service", namespace="namespace", port=6820)
    except (LookupError, ValueError, AttributeError) as error:
        raise click.BadParameter(
            f"--restapi-address: {text!r} may hold {{service}}, {{namespace}} and {{port}}, and no other braces"
        ) from error
    try:
        Endpoint.parse(made)
    except SlurmRejected as error:
        raise click.BadParameter(f"--restapi-address: {text!r}: {error}") from error
    return text


def _host(host: str, flag: str) -> str:
    if not host:
        return "0.0.0.0"  # noqa: S104  # a pod's probes come from outside of it
    if host == "localhost":
        return "127.0.0.1"
    try:
        return str(ipaddress.ip_address(host))
    except ValueError as error:
        raise click.BadParameter(f"{flag}: {host!r} is not an IP address or localhost") from error


def pod_features(text: str) -> frozenset[str] | None:
    """What pod templates may ask for; None is anything."""
    chosen = names(text)
    if "all" in chosen:
        return None
    for name in chosen:
        if name not in FEATURES:
            known = ", ".join((*FEATURES, "all"))
            raise click.BadParameter(f"--allow-pod-features: unknown feature {name!r}; it is one of {known}")
    return frozenset(chosen)


def level(text: str) -> str:
    """A level of the log by the name that either operator has for it; numbers are how much the Go operator debugs."""
    name = "debug" if text.isdecimal() else LEVELS.get(text.lower(), text.lower())
    if name not in OWN_LEVELS:
        raise click.BadParameter(f"--log-level: unknown level {text!r}; it is one of {', '.join(OWN_LEVELS)}")
    return name


def slurm_version(context: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    """A version of Slurm as people write it."""
    from slurm_operator.slurm.conf_values import parse_version

    if text is not None and parse_version(text) is None:
        raise click.BadParameter(f"{text!r} is not a Slurm version such as 25.11", context, parameter)
    return text


def workers_of(values: Mapping[str, Any]) -> dict[str, int]:
    """The worker flags by kind."""
    return {kind: int(values[f"{kind}_workers"]) for kind in KINDS}
