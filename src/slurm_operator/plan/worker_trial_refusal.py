"""Whether a refusal by a trial pod counts: what slurmd misses may be something that only workers have.

In: a kind of worker, slurmd's reason, and the files that it refused. Out: what the trial pod lacks, in words, if the
refusal may be about that; empty if the refusal counts. Called by `plan/worker_trial.py`. Accepts any text. Pure.

A refusal is doubted if it names something that was left out; or if slurmd misses something, does not say where it
should be, and anything was left out. It counts if slurmd misses nothing (an unknown key, a wrong value), if what it
misses belongs to a place that the trial pod has, or if nothing was left out.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kube_runtime.text import first_few
from slurm_operator.build.worker_trial import VARIABLE, WorkerKind
from slurm_operator.slurm import conf
from slurm_operator.slurm.conf_of_slurmd import FILE

# How Slurm, its plugins and the dynamic linker report that something is not there. "open/read/parse" is what Slurm says
# of a file of its own with an unknown key.
_MISSING = re.compile(
    r"(?:can ?not|can't|could not|couldn't|unable to|failed to) (?:access|find|locate|open(?!/)|read|stat)\b"
    r"|failed to load plugin|no such (?:file|directory|environment)|not found|(?:does|do) not exist|doesn't exist"
    r"|missing (?:directory|environment|file|folder|library|path|plugin|variable)\b"
    r"|\b(?:directory|file|folder|library|plugin|variable)(?: \S+)? is missing"
    r"|\b(?:environment|variable)\b.* not set|(?-i:\b[A-Z][A-Z0-9_]+) (?:is )?(?:not set|unset)",
    re.IGNORECASE,
)
# All that Slurm 26.05 says of a plugin that it does not find; with any other line, that one tells what is wrong.
_NO_CONTEXT = re.compile(r"cannot create \S+ context for ")
_NO_START = re.compile(r"(?:unable|failed) to initialize ", re.IGNORECASE)
# The plugin that the linker was loading is there; what it reports after that is not.
_LOADED = re.compile(r"dlopen\([^)]*\)")
_PATH = re.compile(r"(?<![\w./-])/[\w.]")
# Slurm looks for its own files beside slurm.conf.
_OWN_FILE = re.compile(r"\b\w+\.(?:conf|yaml)\b")
_LIBRARY = re.compile(r"\.so\b")
_ABOUT_PLUGINS = re.compile(r"plugin|dlopen|context", re.IGNORECASE)


def lacking(kind: WorkerKind, reason: str, wanted: Mapping[str, str]) -> str:
    """What the trial pod lacks, if the refusal may be about that."""
    named = [each for each in kind.left_out if _is_named(each, reason)]
    if not named and _ABOUT_PLUGINS.search(reason):
        named = [each for each in kind.left_out if _has_plugins(each, wanted)]
    if not named:
        lines = _lines_that_miss_something(reason)
        named = [each for each in kind.left_out if any(_may_hold(each, line) for line in lines)]
    return first_few(named)


def _is_named(left_out: str, reason: str) -> bool:
    """Whether the reason names a variable, a path or what is beneath it, or misses a file of that name."""
    if not left_out.startswith("/"):
        return left_out.startswith(VARIABLE) and _has_word(reason, left_out.removeprefix(VARIABLE))
    name = left_out.rpartition("/")[2]
    # The name of a folder may be any word.
    is_missed = "." in name and (_MISSING.search(reason) or _ABOUT_PLUGINS.search(reason))
    return _has_word(reason, left_out) or bool(is_missed and _names_file(reason, name))


def _names_file(reason: str, name: str) -> bool:
    """Whether a file is named, or the plugin in it: task/site is in task_site.so."""
    return _has_word(reason, name) or _has_word(reason.replace("/", "_"), name.removesuffix(".so"))


def _may_hold(left_out: str, line: str) -> bool:
    """Whether something that a line misses may be there; of variables, only the linker's lead to a plugin."""
    is_variable = left_out.startswith(VARIABLE)
    return not is_variable or left_out.startswith(f"{VARIABLE}LD_") or not _ABOUT_PLUGINS.search(line)


def _has_word(reason: str, word: str) -> bool:
    return re.search(rf"(?<![\w.-]){re.escape(word)}(?![\w-]|\.\w)", reason) is not None


def _has_plugins(left_out: str, wanted: Mapping[str, str]) -> bool:
    """Whether a folder holds one of PluginDir's, or is beneath one."""
    folders = (conf.parse(wanted.get(FILE, ""), includes=wanted).get("PluginDir") or "").split(":")
    return any(_is_within(left_out, each) or _is_within(each, left_out) for each in folders if each.startswith("/"))


def _is_within(path: str, folder: str) -> bool:
    return f"{path.rstrip('/')}/".startswith(f"{folder.rstrip('/')}/")


def _lines_that_miss_something(reason: str) -> list[str]:
    """The lines that report something missing without its place."""
    lines = reason.split("; ")
    if _NO_CONTEXT.search(reason) and all(_NO_CONTEXT.search(each) or _NO_START.search(each) for each in lines):
        return lines
    return [each for each in lines if _misses_something_somewhere(each)]


def _misses_something_somewhere(line: str) -> bool:
    said = _LOADED.sub("", line)
    is_placed = _PATH.search(said) or (_OWN_FILE.search(said) and not _LIBRARY.search(said))
    return _MISSING.search(said) is not None and not is_placed
