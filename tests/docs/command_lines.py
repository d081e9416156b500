"""Is a command line of a page one that could be typed? Nothing is run.

In: a line, and the files that its page has made so far. Out: what is wrong with it, in words; nothing when all is
well. Our own commands are read by their own parsers, kubectl and helm by the tables below, so a misspelt flag, kind,
chart, value or file is found without a cluster. Used by `test_commands.py`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import click
import yaml
from tests.docs.pages import ROOT

from kube_local.apiserver.registry import builtin_kinds
from slurm_operator.cli.kubectl.main import main as kubectl_slurm
from slurm_operator.cli.main import main as slurm_operator

# What a reader replaces with something of their own.
OWN = re.compile(r"my-.*|NAME|HOSTS|KIND|-|[\w-]+\.(conf|key)")
PLACEHOLDER = re.compile(r"<[a-z][a-z ]*>")
ASSIGNMENT = re.compile(r"[A-Za-z_]+=.*")
INNER = re.compile(r"[$<]\(([^()]*)\)")
# Words that stand before a command.
BEFORE = {"sudo", "-E", "env", "time", "until", "while", "do"}
SEPARATORS = {"|", "||", "&&", ";", "&"}
# Programs of others that a page may use; Slurm's own, and those that every machine has.
ELSEWHERE = {
    *("sacct", "sacctmgr", "sbatch", "scancel", "scontrol", "sinfo", "squeue", "sreport", "srun", "slurmd"),
    *(".", "base64", "cat", "curl", "cut", "docker", "echo", "export", "grep", "head", "jq", "mkdir", "openssl", "pip"),
    *(
        "promtool",
        "python",
        "sed",
        "sort",
        "ssh",
        "ssh-keygen",
        "tail",
        "tr",
        "until",
        "while",
        "do",
        "done",
        "sleep",
        "timeout",
    ),
}
# Flags of kubectl with a value, and those without.
KUBECTL_VALUES = {
    *("-n", "--namespace", "--context", "--kubeconfig", "-f", "--filename", "-l", "--selector", "-o", "--output"),
    *("-p", "--patch", "--type", "-c", "--container", "--replicas", "--for", "--timeout", "--field-selector"),
    *("--from-file", "--from-literal", "--dry-run", "--tail", "--since", "--sort-by", "--subresource", "--as"),
    *("--cascade", "--grace-period", "--image", "--overrides", "--resource-version", "--verb", "--field-manager"),
}
KUBECTL_SWITCHES = {
    *("-A", "--all-namespaces", "-w", "--watch", "-it", "-i", "-t", "--stdin", "--tty", "--server-side", "--wait"),
    *("--overwrite", "--all", "--force", "--force-conflicts", "--previous", "--follow", "--ignore-not-found"),
    *("--no-headers", "--show-labels", "--list", "--current", "--minify", "--raw", "--recursive", "-k", "--prune"),
}
# What stands behind the verb: kinds, an object to look into, another verb, or nothing that is looked at here.
ON_KINDS = {"get", "describe", "delete", "patch", "annotate", "label", "edit", "scale", "wait", "explain", "events"}
ON_OBJECTS = {"logs", "exec", "port-forward", "cp", "attach", "debug"}
SUBVERBS = {
    "create": {"secret", "configmap", "namespace", "token", "job"},
    "rollout": {"status", "restart", "undo", "history"},
    "config": {"set-context", "view", "get-contexts", "use-context", "current-context"},
    "auth": {"can-i", "whoami"},
    "set": {"image", "env", "resources"},
    "certificate": {"approve", "deny"},
    "top": {"node", "pod", "nodes", "pods"},
}
FREE = {"apply", "replace", "diff", "version", "api-resources", "api-versions", "cordon", "uncordon", "drain", "taint"}
HELM = {"install", "upgrade", "template", "uninstall", "rollback", "lint", "status", "list", "history", "get", "test"}
HELM_VALUES = {"-n", "--namespace", "--values", "-f", "--set", "--set-string", "--timeout", "--version", "--set-file"}
HELM_SWITCHES = {
    "--create-namespace",
    "--reuse-values",
    "--install",
    "--wait",
    "--dry-run",
    "--reset-then-reuse-values",
}


@dataclass(slots=True)
class Files:
    """The files that a reader of the page has by now."""

    made: set[str] = field(default_factory=set)

    def has(self, name: str) -> bool:
        """Whether it is a file or folder of the project, of the page, or of the reader."""
        clean = name.rstrip("/")
        known = clean in self.made or any(each.startswith(f"{clean}/") for each in self.made)
        return known or OWN.fullmatch(clean) is not None or (ROOT / clean).exists()


def problems(line: str, files: Files) -> list[str]:
    """Everything that is wrong with a line."""
    line = PLACEHOLDER.sub("my-own", line)
    inner = [each for found in INNER.findall(_unquoted(line)) for each in problems(found, files)]
    return [*inner, *(each for words in _simple(INNER.sub("…", line)) for each in _command(words, files))]


def _unquoted(line: str) -> str:
    return re.sub(r"'[^']*'", "''", line)


def _simple(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in lexer:
        if word in SEPARATORS:
            yield words
            words = []
        else:
            words.append(word)
    yield words


def _command(words: list[str], files: Files) -> Iterator[str]:
    words, read, written = _redirected(words)
    yield from (f"there is no file {name}" for name in read if not files.has(name))
    files.made |= set(written)
    while words and (words[0] in BEFORE or ASSIGNMENT.fullmatch(words[0])):
        words = words[1:]
    if not words:
        return
    program, rest = words[0], words[1:]
    if program == "slurm-operator":
        yield from _ours(slurm_operator, rest, files, program)
    elif program == "kubectl":
        yield from _kubectl(rest, files)
    elif program == "helm":
        yield from _helm(rest, files)
    elif program == "make":
        yield from (f"make has no target {word}" for word in rest if word not in _targets() and "=" not in word)
    elif program not in ELSEWHERE and not program.startswith(".venv/bin/"):
        yield f"{program} is not a program that the pages use"


def _redirected(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    plain: list[str] = []
    read: list[str] = []
    written: list[str] = []
    into: list[str] = plain
    for word in words:
        if word in ("<", ">", ">>"):
            into = read if word == "<" else written
        else:
            into.append(word)
            into = plain
    return plain, read, written


def _ours(command: click.Command, words: list[str], files: Files, name: str) -> Iterator[str]:
    """Our own programs, by their own parsers, down to the last subcommand."""
    if "-h" in words or "--help" in words:
        return
    context = click.Context(command, info_name=name, **command.context_settings)
    try:
        values, rest, _ = command.make_parser(context).parse_args(list(words))
    except click.UsageError as error:
        yield f"{name}: {error.format_message()}"
        return
    if isinstance(command, click.Group):
        child = command.commands.get(rest[0]) if rest else None
        if child is None:
            yield f"{name} has no command {' '.join(rest[:1])}"
        else:
            yield from _ours(child, rest[1:], files, f"{name} {child.name}")
        return
    if name.endswith("local kubectl"):
        yield from _kubectl([*values.get("arguments", ()), *rest], files)
        return
    yield from _values(command, values, rest, files, name)


def _values(command: click.Command, values: dict[str, Any], rest: list[str], files: Files, name: str) -> Iterator[str]:
    if rest:
        yield f"{name} takes no {rest[0]}"
    for param in command.params:
        value = values.get(str(param.name))
        given = [each for each in (value if isinstance(value, (list, tuple)) else [value]) if isinstance(each, str)]
        if param.required and not given:
            yield f"{name} needs {param.human_readable_name}"
        if isinstance(param.type, click.Choice):
            allowed = param.type.choices
            yield from (f"{name}: {each} is not one of {allowed}" for each in given if each not in allowed)
        if param.name == "paths":
            yield from (f"there is no file {each}" for each in given if not files.has(each))


@cache
def kinds() -> frozenset[str]:
    """Every name by which kubectl knows a kind."""
    # The last is in clusters that the Go operator was in, and not in local mode.
    names = {"all", "mutatingwebhookconfiguration"}
    for kind in builtin_kinds():
        names |= {kind.plural, kind.singular, kind.kind.lower(), *kind.short_names}
    for path in (ROOT / "deploy/crds").glob("*.yaml"):
        given = yaml.safe_load(path.read_text())["spec"]["names"]
        names |= {given["plural"], given["singular"], given["kind"].lower(), *given.get("shortNames", ())}
    return frozenset(names)


def _kubectl(words: list[str], files: Files) -> Iterator[str]:
    if words[:1] == ["slurm"]:
        yield from _ours(kubectl_slurm, words[1:], files, "kubectl slurm")
        return
    before, behind = (words[: words.index("--")], words[words.index("--") + 1 :]) if "--" in words else (words, [])
    plain, values, unknown = _flags(before, KUBECTL_VALUES, KUBECTL_SWITCHES)
    yield from (f"kubectl: {flag} is not a flag that the pages use" for flag in unknown)
    for name in [*values.get("-f", ()), *values.get("--filename", ())]:
        if not files.has(name):
            yield f"there is no file {name}"
    for source in values.get("--from-file", ()):
        if not files.has(source.rpartition("=")[2]):
            yield f"there is no file {source}"
    if not plain:
        yield "kubectl needs a verb"
        return
    yield from _verb(plain[0], plain[1:], behind, has_file=bool(values.get("-f")))


def _verb(verb: str, plain: list[str], behind: list[str], *, has_file: bool) -> Iterator[str]:
    if verb == "slurm":
        yield "flags of kubectl slurm stand behind slurm"
    elif verb in SUBVERBS:
        named = plain[0] if plain else ""
        if not has_file and named not in SUBVERBS[verb]:
            yield f"kubectl {verb} has no {named}"
        if verb == "rollout":
            yield from _kinds(plain[1:])
    elif verb in ON_KINDS:
        if not has_file:
            yield from _kinds(plain)
    elif verb in ON_OBJECTS:
        yield from _kinds(["pods", *(word for word in plain[:1] if "/" in word and ":" not in word)])
        if verb == "exec" and not behind:
            yield "kubectl exec needs a command behind --"
    elif verb not in FREE:
        yield f"kubectl has no verb {verb}"


def _kinds(plain: list[str]) -> Iterator[str]:
    if not plain:
        yield "kubectl: the kind is missing"
        return
    # `key=value` sets a label or annotation, and `key-` takes it away.
    objects = [word for word in plain if "/" in word and "=" not in word and not word.endswith("-")]
    named = [word.partition("/")[0] for word in objects] or plain[0].split(",")
    for name in named:
        if name.lower().partition(".")[0] not in kinds() and OWN.fullmatch(name) is None:
            yield f"kubectl knows no kind {name}"


def _flags(
    words: list[str], with_value: Collection[str], switches: Collection[str]
) -> tuple[list[str], dict[str, list[str]], list[str]]:
    """Words that are no flags, the values of flags, and flags that are not known."""
    plain: list[str] = []
    values: dict[str, list[str]] = {}
    unknown: list[str] = []
    rest = iter(words)
    for word in rest:
        flag, has_value, value = word.partition("=")
        short = word[:2] if not word.startswith("--") and len(word) > 2 else ""
        if not word.startswith("-") or word == "-":
            plain.append(word)
        elif flag in with_value:
            values.setdefault(flag, []).append(value if has_value else next(rest, ""))
        elif word in switches or flag in switches:
            continue
        elif short in with_value:
            values.setdefault(short, []).append(word[2:])
        elif re.fullmatch(r"-[ABC]\d+", word) is None:
            unknown.append(word)
    return plain, values, unknown


def _helm(words: list[str], files: Files) -> Iterator[str]:
    plain, values, unknown = _flags(words, HELM_VALUES, HELM_SWITCHES)
    yield from (f"helm: {flag} is not a flag that the pages use" for flag in unknown)
    if not plain or plain[0] not in HELM:
        yield f"helm has no verb {' '.join(plain[:1])}"
        return
    charts = [word for word in plain[1:] if "/" in word]
    yield from (f"there is no chart {name}" for name in charts if not (ROOT / name / "Chart.yaml").is_file())
    for name in [*values.get("--values", ()), *values.get("-f", ())]:
        if not files.has(name):
            yield f"there is no file {name}"
    for setting in [*values.get("--set", ()), *values.get("--set-string", ())]:
        for chart in charts:
            if not _is_value(chart, setting.partition("=")[0]):
                yield f"{chart} has no value {setting}"


def _is_value(chart: str, path: str) -> bool:
    """Whether a chart has that value; what stands below one without fixed keys is free."""
    node: Any = yaml.safe_load((ROOT / chart / "values.yaml").read_text())
    for key in path.split("."):
        if not isinstance(node, dict) or not node:
            return True
        if key not in node:
            return False
        node = node[key]
    return True


@cache
def _targets() -> frozenset[str]:
    return frozenset(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
