"""The programs of the Go operator: which Deployments run them, which of these are meant, and what their flags say.

In: Deployments and webhook configurations whose types fit (`shapes.py`). Out: the programs that a report is about, the
others, and values of this chart. Pure; called by `diagnose/migration.py`. Whoever may create a Deployment can make one
that looks like the operator, with any label: only an object of the whole cluster, or the person, says which is meant.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from kube_runtime.text import printable, whole_number
from slurm_operator.build import images

Object = Mapping[str, Any]
Value = str | int | bool

PROGRAMS: Final = {"slurm-operator": "operator", "slurm-operator-webhook": "webhook"}
# Flags of the Go manager and the value of this chart that says the same.
VALUE_OF_FLAG: Final = {
    "namespaces": "namespaces",
    "zap-log-level": "logLevel",
    "leader-elect": "leaderElection",
    "metrics-secure": "metricsSecure",
    "health-addr": "healthPort",
    "metrics-addr": "metricsPort",
    "server-addr": "serverPort",
    "accounting-workers": "accountingWorkers",
    "controller-workers": "controllerWorkers",
    "loginset-workers": "loginsetWorkers",
    "nodeset-workers": "nodesetWorkers",
    "restapi-workers": "restapiWorkers",
    "token-workers": "tokenWorkers",
}
CONDITIONS: Final = "propagated-node-conditions"
SWITCHES: Final = ("leader-elect", "metrics-secure")
# As Go reads them.
_BOOLEANS: Final = {
    **dict.fromkeys(("1", "t", "T", "TRUE", "true", "True"), True),
    **dict.fromkeys(("0", "f", "F", "FALSE", "false", "False"), False),
}
MAX_PORT: Final = 65535
MAX_FLAG_CHARACTERS: Final = 8192


@dataclass(frozen=True, slots=True)
class Programs:
    """Deployments that run a program of the Go project."""

    # Those that the report is about: all of one namespace.
    chosen: Sequence[Object] = ()
    # Those that it is not about.
    others: Sequence[Object] = ()

    @property
    def doubled(self) -> dict[str, list[Object]]:
        """Components that several Deployments run, with these."""
        by_component = {name: [each for each in self.chosen if component(each) == name] for name in PROGRAMS.values()}
        return {name: found for name, found in by_component.items() if len(found) > 1}


def find(deployments: Sequence[Object], configurations: Sequence[Object], namespace: str = "") -> Programs:
    """The programs, of a namespace if one is named, and of the one that the cluster itself points at otherwise."""
    every = [each for each in deployments if component(each)]
    wanted = namespace or _pointed_at(every, configurations)
    return Programs(
        [each for each in every if namespace_of(each) == wanted],
        [each for each in every if namespace_of(each) != wanted],
    )


def _pointed_at(programs: Sequence[Object], configurations: Sequence[Object]) -> str:
    """The namespace whose webhook the API server calls; without a webhook, the only one. Empty: it is not clear."""
    found = {namespace_of(each) for each in programs}
    called = {
        str(service["namespace"])
        for each in configurations
        for hook in hooks(each)
        if is_of_go(hook) and (service := (hook.get("clientConfig") or {}).get("service"))
    }
    meant = found & called if called else found
    return next(iter(meant)) if len(meant) == 1 else ""


def namespace_of(value: Object) -> str:
    """The namespace of an object."""
    return str(value["metadata"].get("namespace") or "")


def hooks(configuration: Object) -> Sequence[Object]:
    """The webhooks in a configuration."""
    return configuration.get("webhooks") or ()


def is_of_go(hook: Object) -> bool:
    """Whether a webhook is of the kind that the Go operator has."""
    if not str(hook.get("name")).endswith(".kb.io"):
        return False
    groups = [group for rule in hook.get("rules") or () for group in rule.get("apiGroups") or ()]
    return "slinky.slurm.net" in groups or is_binding(hook)


def is_binding(hook: Object) -> bool:
    """Whether a webhook is the one of the Go operator for workers that get a node."""
    return "podsbinding" in str(hook.get("name"))


def component(deployment: Object) -> str:
    """`operator` or `webhook` if the Go project's program runs in it; empty otherwise."""
    return next((name for name, _ in _running(deployment)), "")


def flags(deployment: Object) -> dict[str, str]:
    """The flags of a program by name; those of containers beside it are not its own."""
    result: dict[str, str] = {}
    for _, container in _running(deployment):
        last = ""
        for argument in (*(container.get("command") or ())[1:], *(container.get("args") or ())):
            if argument.startswith("-"):
                last, _, value = argument.lstrip("-").partition("=")
                result[last] = value
            elif last and not result[last]:
                result[last] = argument
    return result


def _running(deployment: Object) -> Iterator[tuple[str, Object]]:
    for container in pod(deployment).get("containers") or ():
        name = images.repository(str(container.get("image"))).rpartition("/")[2]
        if name in PROGRAMS and "slurm-operator" not in (container.get("command") or ()):
            yield PROGRAMS[name], container


def pod(workload: Object) -> Object:
    """The spec of a workload's pods."""
    found: Object = ((workload.get("spec") or {}).get("template") or {}).get("spec") or {}
    return found


def values(programs: Programs) -> dict[str, Any]:
    """Values of this chart that match the flags; none for a component that several Deployments run."""
    made: dict[str, Any] = {}
    for each in programs.chosen:
        name, given = component(each), flags(each)
        if name in programs.doubled:
            continue
        part: dict[str, Value] = {
            VALUE_OF_FLAG[flag]: value
            for flag in given
            if flag in VALUE_OF_FLAG and (value := _value(given, flag)) != ""
        }
        replicas = (each.get("spec") or {}).get("replicas")
        if replicas not in (None, 0, 1):
            part["replicas"] = replicas
        if conditions := _value(given, CONDITIONS):
            made["propagatedNodeConditions"] = str(conditions).split(",")
        if part:
            made[name] = part
    return made


def unusable(deployment: Object) -> Iterator[tuple[str, str]]:
    """Flags that have a value in this chart, but hold none that it takes."""
    given = flags(deployment)
    for name in (*VALUE_OF_FLAG, CONDITIONS):
        if given.get(name) and _value(given, name) == "":
            yield name, given[name]


def _value(given: Mapping[str, str], name: str) -> Value:
    """The value that a flag stands for; empty for a flag that is not given, or not of its type."""
    text = given.get(name, "")
    found: Value | None
    if len(text) > MAX_FLAG_CHARACTERS:
        return ""
    if name.endswith("-addr"):
        port = whole_number(text.rpartition(":")[2])
        found = port if port is not None and port <= MAX_PORT else None
    elif name.endswith("-workers"):
        found = whole_number(text)
    elif name in SWITCHES:
        found = _BOOLEANS.get(text)
    else:
        # Never cut: half a list of namespaces would be another list.
        found = printable(text, len(text) + 1)
    return "" if found is None else found
