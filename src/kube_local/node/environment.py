"""The environment and the command line of a container. Pure.

In: pod, container, image and lookups. Out: `(name, value)` pairs in order, and arguments with `$(VAR)` replaced.
`container` calls it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kube_local.node import sources
from kube_local.node.sources import Lookup, Object, Place

_NAME = re.compile(r"^[-._a-zA-Z][-._a-zA-Z0-9]*$")
_REFERENCE = re.compile(r"\$\$|\$\(([^)]*)\)")
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace `$(NAME)`; `$$(NAME)` stays `$(NAME)`, and an unknown name stays as it is."""

    def one(match: re.Match[str]) -> str:
        if match[0] == "$$":
            return "$"
        return values.get(match[1], match[0])

    return _REFERENCE.sub(one, text)


def expand_all(args: Iterable[str], values: Mapping[str, str]) -> tuple[str, ...]:
    """Replace references in every word."""
    return tuple(expand(arg, values) for arg in args)


def build(
    pod: Object, container: Object, lookup: Lookup, place: Place, image: Mapping[str, str], hostname: str
) -> dict[str, str]:
    """Every variable of a container: the image's, then `envFrom`, then `env`, the later ones win."""
    namespace = str((pod.get("metadata") or {}).get("namespace", ""))
    result = {"PATH": PATH, "HOSTNAME": hostname, **image}
    for source in container.get("envFrom") or ():
        result.update(_bulk(source, lookup))
    for variable in container.get("env") or ():
        value = _value(variable, pod, container, lookup, place, namespace)
        if value is not None:
            result[str(variable["name"])] = expand(value, result) if "value" in variable else value
    return result


def _bulk(source: Object, lookup: Lookup) -> Iterator[tuple[str, str]]:
    kind = "configMap" if source.get("configMapRef") else "secret"
    ref = source.get("configMapRef") or source.get("secretRef") or {}
    name = str(ref.get("name", ""))
    files = lookup.config_map(name) if kind == "configMap" else lookup.secret(name)
    if files is None:
        if ref.get("optional"):
            return
        raise sources.missing(kind, name)
    prefix = str(source.get("prefix") or "")
    for key in sorted(files):
        # The rest of them a kubelet leaves out as well.
        if _NAME.match(prefix + key):
            yield prefix + key, files[key].decode("utf-8", "replace")


def _value(
    variable: Object, pod: Object, container: Object, lookup: Lookup, place: Place, namespace: str
) -> str | None:
    origin = variable.get("valueFrom")
    if not origin:
        return str(variable.get("value") or "")
    if "fieldRef" in origin:
        return sources.of_pod(pod, place, str(origin["fieldRef"].get("fieldPath", "")))
    if "resourceFieldRef" in origin:
        return sources.of_resources(pod, container, place, origin["resourceFieldRef"])
    kind = "configMap" if "configMapKeyRef" in origin else "secret"
    found = sources.key_of(lookup, kind, origin.get(f"{kind}KeyRef") or {}, namespace)
    return None if found is None else found.decode("utf-8", "replace")


def arguments(
    container: Object, entrypoint: Sequence[str], command: Sequence[str], values: Mapping[str, str]
) -> tuple[str, ...]:
    """The command line: the pod's `command` replaces all of the image's, its `args` the image's arguments alone."""
    args = container.get("args") or ()
    args = [*container["command"], *args] if container.get("command") else [*entrypoint, *(args or command)]
    return expand_all((str(arg) for arg in args), values)
