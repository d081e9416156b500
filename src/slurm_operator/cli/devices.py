"""Devices that gres.conf names and no worker asks for: slurmd waits for such a file, and does not start.

In: a Controller with its files and NodeSets. Out: findings of the linter's form, each at the record. They are warnings:
files do not tell what a container runtime gives its pods by itself. In a running cluster, a trial by slurmd sees it.
Called by `cli/check.py`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from kube_runtime.text import first_few
from slurm_operator.api.controller import Controller
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.build import hostnames, nodeset, worker_trial
from slurm_operator.build.errors import BuildError
from slurm_operator.build.refs import Refs
from slurm_operator.slurm import conf, hostlist
from slurm_operator.slurm.conf import Entry, Finding

FILE = "gres.conf"
FOLDER = "/dev/"
# In every container.
COMMON = frozenset({"/dev/full", "/dev/null", "/dev/random", "/dev/tty", "/dev/urandom", "/dev/zero"})
MAX_FINDINGS = 20


def unasked(cr: Controller, refs: Refs, files: Mapping[str, str]) -> Iterator[Finding]:
    """Each record with a device that the workers it is for do not ask for."""
    if not conf.parse(files.get("slurm.conf", ""), includes=files).get("GresTypes"):
        return
    document = conf.parse(files.get(FILE, ""), file=FILE, records=worker_trial.RECORDS_BY_NODE)
    workers = [(each, plain) for each in refs.nodesets_of(cr) if (plain := _plain(each, cr, refs)) is not None]
    records = (entry for entry in document.entries if entry.key.lower() in ("name", "nodename"))
    for record in [*records][:MAX_FINDINGS] if workers else ():
        devices = _devices(record)
        lacking = [
            each.name
            for each, container in workers
            if _is_for(record, each) and any(not _mounts(container, device) for device in devices)
        ]
        if devices and lacking:
            yield _finding(record, devices, lacking)


def _plain(each: NodeSet, cr: Controller, refs: Refs) -> Mapping[str, Any] | None:
    """The container of a worker that has no devices but its own; None if it may have others."""
    if nodeset.is_privileged(each, refs):
        return None
    try:
        worker = nodeset.pod_template(each, cr, refs)["spec"]
    except BuildError:
        return None
    slurmd: Mapping[str, Any] = next(each for each in worker["containers"] if each["name"] == nodeset.SLURMD)
    may_have = worker_trial.asks_for_devices(slurmd) or worker.get("runtimeClassName")
    return None if may_have else slurmd


def _devices(record: Entry) -> list[str]:
    found = record.attribute("File") or record.attribute("MultipleFiles")
    try:
        paths = hostlist.expand(found.value) if found is not None else []
    except hostlist.HostListError:
        return []
    return [path for path in paths if path.startswith(FOLDER) and path not in COMMON]


def _is_for(record: Entry, each: NodeSet) -> bool:
    if record.key.lower() != "nodename":
        return True
    try:
        return any(hostnames.may_have(each, host) for host in hostlist.expand(record.value))
    except hostlist.HostListError:
        return False


def _mounts(container: Mapping[str, Any], device: str) -> bool:
    paths = (str(each.get("mountPath")).rstrip("/") for each in container.get("volumeMounts") or ())
    return any(device == path or device.startswith(f"{path}/") for path in paths)


def _finding(record: Entry, devices: list[str], lacking: list[str]) -> Finding:
    message = (
        f"workers of {first_few(lacking)} do not ask Kubernetes for a device: unless their container runtime gives "
        f"them {first_few(devices)}, slurmd waits for it and does not start; name the nodes that have it with NodeName"
    )
    return Finding(
        file=record.file, line=record.line, column=record.column, severity="warning", code="NoDevice", message=message
    )
