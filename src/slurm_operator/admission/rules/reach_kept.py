"""Whether a changed NodeSet still runs the code that its pod features were granted to.

In: a NodeSet, the one that its workers were built from before, and the images that the administrator trusts. Out: yes
or no. Called by `reach.py`, which ensures that nothing reaches further than before. A feature was granted to code: to
containers with their images, commands and system folders. Somebody who may only write a NodeSet must not put other code
next to it. So only what is listed here as harmless may change, and parts may be removed; an image may get another tag,
or be replaced by a trusted one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from slurm_operator.admission.rules import privileged_worker
from slurm_operator.api.meta import Metadata, PodTemplate
from slurm_operator.api.nodeset import NodeSet, Ssh
from slurm_operator.build import images
from slurm_operator.build.revision import REPLACE, meaning

Fields = Mapping[str, Any]

# Where pods run, and how many of them; nothing that runs in them.
HARMLESS_IN_POD: Final = frozenset(
    {
        "affinity",
        "hostname",
        "imagePullSecrets",
        "nodeSelector",
        "priorityClassName",
        "readinessGates",
        "resources",
        "schedulerName",
        "schedulingGates",
        "terminationGracePeriodSeconds",
        "tolerations",
        "topologySpreadConstraints",
    }
)
HARMLESS_IN_CONTAINER: Final = frozenset({"imagePullPolicy", "name", "ports", "resources"})
# Fields that confine a container; all others may be removed.
CONFINING: Final = frozenset({"hostUsers", "runtimeClassName", "securityContext"})
# Volume sources whose content is not run unless it is mounted over code.
FREE_SOURCES: Final = frozenset(
    {"configMap", "downwardAPI", "emptyDir", "ephemeral", "nfs", "persistentVolumeClaim", "secret"}
)
_LISTS = ("containers", "initContainers", "ephemeralContainers")
_OURS = ("slurmd", "logfile")
# Stands for a null, which removes a value that the operator set.
_NULL = "\0null"


def runs_the_same(new: NodeSet, before: NodeSet, trusted: tuple[str, ...]) -> bool:
    """Whether only harmless parts differ, or are gone."""
    pod, old = new.spec.template.spec, before.spec.template.spec
    if not (_has_one_of_each(pod) and _has_one_of_each(old)):
        return False
    others = (key for key in pod if key not in HARMLESS_IN_POD and key not in (*_LISTS, "volumes"))
    if not all(_same(pod, old, key) for key in (*others, *(CONFINING & old.keys()))):
        return False
    # An untrusted image may load code from any folder, and act on any variable.
    ours = (container for (_, name), container in _containers(new) if name in _OURS)
    is_known = all(_is_trusted(container.get("image"), trusted) for container in ours)
    code = _Code(trusted, is_known, frozenset(_free(new)), frozenset(_changed_volumes(pod, old)))
    if not code.changed <= code.free:
        return False
    there = dict(_containers(before))
    return all(place in there and code.is_same(place, container, there[place]) for place, container in _containers(new))


def held_by(cr: NodeSet, held: Fields) -> NodeSet | None:
    """The NodeSet as a ControllerRevision holds it; None if that cannot be decoded."""
    try:
        spec = meaning(held.get("spec") or {})
        template = _part(spec, "template")
        meta = msgspec.convert(template.get("metadata") or {}, Metadata)
        found = msgspec.structs.replace(
            cr.spec,
            template=PodTemplate(metadata=meta, spec=dict(template.get("spec") or {})),
            slurmd=_part(spec, "slurmd"),
            logfile=_part(spec, "logfile"),
            ssh=msgspec.convert(_part(spec, "ssh"), Ssh),
            volume_claim_templates=None,
        )
    except (msgspec.ValidationError, AttributeError, TypeError, ValueError):
        return None
    return msgspec.structs.replace(cr, spec=found)


def _part(spec: Fields, name: str) -> dict[str, Any]:
    return {key: value for key, value in (spec.get(name) or {}).items() if key not in REPLACE}


class _Code:
    """What runs in the containers of a worker."""

    def __init__(self, trusted: tuple[str, ...], is_known: bool, free: frozenset[str], changed: frozenset[str]) -> None:
        # Whether slurmd and its log run trusted images.
        self.trusted, self.is_known = trusted, is_known
        # Volumes that may be mounted additionally, and those that have changed.
        self.free, self.changed = free, changed

    def is_same(self, place: tuple[str, str], new: Fields, old: Fields) -> bool:
        """Whether a container runs what it ran."""
        given = (key for key in new if key not in HARMLESS_IN_CONTAINER)
        return all(self._is_same(key, place, new, old) for key in (*given, *(CONFINING & old.keys())))

    def _is_same(self, key: str, place: tuple[str, str], new: Fields, old: Fields) -> bool:
        is_ours = place[1] in _OURS and self.is_known
        match key:
            case "image":
                return _is_trusted(new[key], self.trusted) or _repository(new) == _repository(old)
            case "env" if is_ours:
                return all(_is_plain(entry) for entry in _added(new, old, key))
            case "volumeMounts":
                added, mounts = _added(new, old, key), _items(new, key)
                return all(is_ours and self._is_beside_code(mount) for mount in added) and not any(
                    self._is_over_code(mount, is_ours) for mount in mounts
                )
            case "securityContext":
                return bool(_context(new, key) == _context(old, key))
            case "livenessProbe" | "readinessProbe" | "startupProbe":
                return _same(new, old, key) or "exec" not in (new[key] or {})
        return _same(new, old, key)

    def _is_beside_code(self, mount: Fields) -> bool:
        folder = mount.get("mountPath")
        return bool(folder) and not _is_directive(mount) and mount.get("name") in self.free and not _is_system(mount)

    def _is_over_code(self, mount: Fields, is_ours: bool) -> bool:
        return mount.get("name") in self.changed and (not is_ours or _is_system(mount))


def _is_trusted(image: Any, trusted: tuple[str, ...]) -> bool:
    return not image or images.is_trusted(str(image), trusted)


def _repository(container: Fields) -> str:
    return images.repository(str(container.get("image") or ""))


def _is_system(mount: Fields) -> bool:
    return privileged_worker.is_system_folder(str(mount.get("mountPath")))


def _is_plain(entry: Fields) -> bool:
    return not _is_directive(entry) and not privileged_worker.is_loader_name(str(entry.get("name")))


def _is_directive(item: Fields) -> bool:
    return any(str(key).startswith("$") for key in item)


def _context(container: Fields, key: str) -> Any:
    """A security context without the fields that rows of the table check."""
    value = container.get(key)
    if not isinstance(value, Mapping):
        return _value_at(container, key)
    added = value.get("capabilities")
    kept = {name: item for name, item in added.items() if name != "add"} if isinstance(added, Mapping) else added
    others = {name: item for name, item in value.items() if name not in ("privileged", "capabilities")}
    return _value_at({key: {**others, **({"capabilities": kept} if "capabilities" in value else {})}}, key)


def _same(new: Fields, old: Fields, key: str) -> bool:
    return bool(_value_at(new, key) == _value_at(old, key))


def _value_at(value: Fields, key: str) -> Any:
    """The value of a key, normalized: a missing key and an empty mapping are equal, a null is different."""
    found = meaning(_marked(value.get(key))) if key in value else None
    is_nothing = found in ({}, [], "") or (found is False and key not in CONFINING)
    return None if is_nothing else found


def _marked(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _marked(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_marked(item) for item in value]
    return _NULL if value is None else value


def _added(new: Fields, old: Fields, key: str) -> list[Fields]:
    there = [meaning(item) for item in _items(old, key)]
    return [item for item in _items(new, key) if meaning(item) not in there]


def _items(value: Fields, key: str) -> list[Fields]:
    return [item for item in value.get(key) or () if isinstance(item, Mapping)]


def _changed_volumes(pod: Fields, old: Fields) -> Iterator[str]:
    return (str(volume.get("name")) for volume in _added(pod, old, "volumes"))


def _free(cr: NodeSet) -> Iterator[str]:
    """Volumes that reach nowhere outside the pod and are not the operator's."""
    for volume in _items(cr.spec.template.spec, "volumes"):
        if volume.keys() - {"name"} <= FREE_SOURCES and volume.get("name") not in privileged_worker.OWN_VOLUMES:
            yield str(volume.get("name"))
    for claim in cr.spec.volume_claim_templates or ():
        name = (claim.get("metadata") or {}).get("name")
        if name not in privileged_worker.OWN_VOLUMES:
            yield str(name)


def _containers(cr: NodeSet) -> Iterator[tuple[tuple[str, str], Fields]]:
    yield ("", "slurmd"), cr.spec.slurmd
    yield ("", "logfile"), cr.spec.logfile
    for among in _LISTS:
        yield from (((among, str(each.get("name"))), each) for each in _items(cr.spec.template.spec, among))


def _has_one_of_each(pod: Fields) -> bool:
    """Whether names are unique: two items with one name would be merged, and could not be compared."""
    named = (_names(pod, among) for among in (*_LISTS, "volumes"))
    return all(None not in names and len(names) == len(set(names)) for names in named)


def _names(pod: Fields, among: str) -> list[str | None]:
    return [item.get("name") if isinstance(item, Mapping) else None for item in pod.get(among) or ()]
