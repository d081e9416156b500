"""A configuration that was in force, kept: the files, and what of each resource they were made from.

In: a Controller, `Refs`, and files that Slurm runs with. Out: the inputs by resource, and a ControllerRevision. What is
kept holds no Secret: only slurm.conf, the files beside it and fields of resources. Called by `plan/config_history.py`
and, to see what has changed since, by `cli/kubectl/rollback.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import Part
from slurm_operator.build import labels, metadata, names
from slurm_operator.build.controller import component_labels, extra_names
from slurm_operator.build.hashes import short_hash
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs

# Of a Controller's spec: what becomes text of a file.
CONTROLLER_FIELDS = (
    "extraConf",
    "configFileRefs",
    "prologScriptRefs",
    "epilogScriptRefs",
    "prologSlurmctldScriptRefs",
    "epilogSlurmctldScriptRefs",
)
NODESET_FIELD = "partition"
NOT_OF_A_PARTITION = frozenset({"controllerRef"})

# By `Kind/name`: the fields that a configuration was made from; of a ConfigMap, the hash of each file.
Inputs = Mapping[str, Mapping[str, object]]


def inputs(cr: Controller, refs: Refs) -> dict[str, Object]:
    """What the configuration of a cluster is made from now."""
    spec = _written(cr.spec)
    found: dict[str, Object] = {
        f"Controller/{cr.name}": {key: spec[key] for key in CONTROLLER_FIELDS if spec.get(key)},
    }
    for name in extra_names(cr):
        files = refs.config_maps.get(name, {})
        found[f"ConfigMap/{name}"] = {file: file_hash(text) for file, text in sorted(files.items())}
    for nodeset in refs.nodesets_of(cr):
        partition = _written(nodeset.spec.partition)
        found[f"NodeSet/{nodeset.name}"] = {NODESET_FIELD: partition} if partition else {}
    for each in refs.partitions_of(cr):
        if not each.metadata.deletion_timestamp:
            kept = _written(each.spec)
            found[f"Partition/{each.name}"] = {key: kept[key] for key in sorted(kept.keys() - NOT_OF_A_PARTITION)}
    return found


def _written(part: Part) -> Object:
    """A part of a resource as it comes back out of the API: lists, and no defaults."""
    written: Object = msgspec.json.decode(msgspec.json.encode(part))
    return written


def file_hash(text: str) -> str:
    """Enough of a file's hash to tell whether it is another one."""
    return short_hash(sha256(text.encode()).hexdigest())


def controller_revision(
    cr: Controller, number: int, hash_: str, files: Mapping[str, str], made_from: Inputs, annotations: Mapping[str, str]
) -> Object:
    """What is kept of a configuration; `said` is when it came into force, what changed, and by whose hand."""
    mine = {**component_labels(cr), labels.CONFIG_REVISION: short_hash(hash_)}
    return {
        "apiVersion": "apps/v1",
        "kind": "ControllerRevision",
        "metadata": metadata.child(cr, names.config_revision(cr, number), mine),
        "revision": number,
        "data": {"hash": hash_, **annotations, "inputs": dict(made_from), "files": dict(files)},
    }
