"""A namespace of resources, and configurations of it that were kept: for history and rollback."""

from __future__ import annotations

from typing import Any

from slurm_operator.api.controller import Controller
from slurm_operator.api.validate import decode
from slurm_operator.build.config_revision import inputs
from slurm_operator.build.refs import Refs
from slurm_operator.cli.kubectl.rollback import Now
from slurm_operator.plan.config_history import Revision

API = "slinky.slurm.net/v1beta1"

KEYS = {"slurmKeyRef": {"name": "k", "key": "slurm.key"}, "jwtKeyRef": {"name": "j", "key": "jwt.key"}}


def resource(kind: str, name: str, spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "hpc", "uid": name, "resourceVersion": "7", **metadata}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}


def config_map(name: str, data: dict[str, str], **fields: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "hpc", "resourceVersion": "9"}, "data": data, **fields}


def namespace(*objects: dict[str, Any], files: dict[str, dict[str, Any]] | None = None, extra: str = "A=1") -> Now:
    """A cluster that has a file beside slurm.conf."""
    spec = {**KEYS, "extraConf": extra, "configFileRefs": [{"name": "files"}]}
    found: dict[str, dict[str, Any]] = {"Controller": {"slurm": resource("Controller", "slurm", spec)}}
    found["ConfigMap"] = files if files is not None else {"files": config_map("files", {"gres.conf": "Name=gpu\n"})}
    for each in objects:
        found.setdefault(each["kind"], {})[each["metadata"]["name"]] = each
    return Now("slurm", found)


def kept(now: Now, number: int = 1, hash_: str = "aaa") -> Revision:
    """What would be kept of a namespace."""
    controller = decode(now.objects["Controller"]["slurm"]).resource
    assert isinstance(controller, Controller)
    read = [decode(each).resource for kind in ("NodeSet", "Partition") for each in now.objects.get(kind, {}).values()]
    maps = {name: dict(each["data"]) for name, each in now.objects["ConfigMap"].items()}
    refs = Refs(
        nodesets=tuple(each for each in read if type(each).__name__ == "NodeSet"),  # type: ignore[misc]
        partitions=tuple(each for each in read if type(each).__name__ == "Partition"),  # type: ignore[misc]
        config_maps=maps,
    )
    files = {
        "slurm.conf": "ClusterName=slurm\n",
        **{file: text for data in maps.values() for file, text in data.items()},
    }
    return Revision(number, hash_, "2026-01-09T10:00:05Z", "", "", files, inputs(controller, refs))
