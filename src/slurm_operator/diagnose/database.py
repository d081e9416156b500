"""Why accounting does not work: slurmdbd is asked about its database, and each step on the way to it is checked.

In: facts, and an Accounting. Out: a cause, or None. Used by `diagnose/resource.py`. A slurmdbd whose database went away
keeps running, and its pod stays ready; only sacctmgr reports the problem.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from slurm_operator.build import labels
from slurm_operator.diagnose import pod as pods
from slurm_operator.diagnose.cause import Cause, quoted
from slurm_operator.diagnose.facts import Facts, Object, Slurm, label_of, name_of, spec_of

SLURMDBD = labels.ACCOUNTING.daemon
# To print JSON, Slurm 24.11 asks the database for names.
NO_DATABASE = re.compile(r"(?i)slurmdb|unable to connect to database|slurmdbd")
# What a slurmdbd without a database looks like from outside; anything else that is wrong with its pod comes first.
OF_DATABASE = frozenset({"DatabaseUnreachable", "ContainerFails", "ProbeFails", "Starting", "NotAnswering"})


def why(facts: Facts, kind: str, resource: Object) -> Cause | None:
    """Why an Accounting does not work."""
    name = name_of(resource)
    mine = facts.pods_of(labels.ACCOUNTING, name) if kind == "Accounting" else []
    answer = facts.databases.get(name, "") if _is_conclusive(facts, name) else ""
    unwell = next((cause for pod in mine if (cause := pods.why(facts, name_of(pod))) is not None), None)
    if kind != "Accounting" or not (answer or unwell) or (unwell is not None and unwell.code not in OF_DATABASE):
        return None
    deeper = _server(facts, resource)
    if deeper is not None:
        return deeper.under(f"slurmdbd of Accounting {name} has no database" + (f": {answer}" if answer else ""))
    return None if unwell is not None else _silent(facts, name, mine, answer)


def _is_conclusive(facts: Facts, name: str) -> bool:
    """Whether sacctmgr's answer counts: it runs beside slurmctld, and fails with it."""
    users = [each for each in facts.every("Controller") if _accounting_of(each) == name]
    answers = [facts.slurm_of(name_of(each)) for each in users]
    return not answers or any(isinstance(each, Slurm) or NO_DATABASE.search(each.why) for each in answers)


def _accounting_of(controller: Object) -> str:
    return str((spec_of(controller).get("accountingRef") or {}).get("name", ""))


def behind(facts: Facts, controller: str, answer: str) -> Cause | None:
    """What is wrong with the database of a cluster, if Slurm's commands fail without it."""
    if not NO_DATABASE.search(answer):
        return None
    name = _accounting_of(facts.get("Controller", controller) or {})
    accounting = facts.get("Accounting", name)
    step = f"without its database, scontrol lists nothing of {controller!r}: {answer}"
    found = why(facts, "Accounting", accounting) if accounting is not None else None
    if found is not None:
        return found.under(step)
    return Cause(
        "DatabaseUnreachable",
        f"slurmdbd has no database, and without it scontrol lists nothing of {controller!r}: {answer}",
        f"kubectl slurm -n {facts.namespace} logs accounting/{name}",
    )


def kept_from_slurm(facts: Facts, controller: str) -> Cause | None:
    """What keeps the operator from changing a cluster: slurmrestd lists no partitions without a database."""
    accounting = facts.get("Accounting", _accounting_of(facts.get("Controller", controller) or {}))
    found = why(facts, "Accounting", accounting) if accounting is not None else None
    return found.under("slurmrestd needs the database to answer the operator") if found is not None else None


def _silent(facts: Facts, name: str, mine: list[Object], answer: str) -> Cause:
    pod = name_of(mine[0]) if mine else ""
    command = f"kubectl slurm -n {facts.namespace} logs accounting/{name}"
    known = pods.log_cause(mine[0], SLURMDBD, facts.logs.get((pod, SLURMDBD), ())) if mine else None
    if known is not None:
        return Cause(known[0], known[1], command, (f"slurmdbd of Accounting {name} does not answer: {answer}",))
    return Cause("AccountingSilent", f"slurmdbd of Accounting {name} does not answer sacctmgr: {answer}", command)


def _server(facts: Facts, resource: Object) -> Cause | None:
    """What is wrong with the database itself, if it runs in this namespace."""
    host = str((spec_of(resource).get("storageConfig") or {}).get("host", ""))
    name, _, rest = host.partition(".")
    if not host or (rest and rest.split(".")[0] != facts.namespace) or "Service" not in facts.objects:
        return None
    service = facts.get("Service", name)
    if service is None:
        return Cause(
            "DatabaseHostMissing",
            f"its database host {host!r} is no Service of namespace {facts.namespace}",
            f"kubectl -n {facts.namespace} get services",
        )
    selector = spec_of(service).get("selector") or {}
    behind = [pod for pod in facts.every("Pod") if selector and _matches(selector, label_of(pod))]
    for pod in behind:
        cause = pods.why(facts, name_of(pod))
        if cause is not None:
            return cause.under(f"the database is pod {name_of(pod)}")
    return None if behind or not selector else _no_pods_behind(facts, name, selector)


def _no_pods_behind(facts: Facts, service: str, selector: Mapping[str, Any]) -> Cause:
    for kind in ("StatefulSet", "Deployment"):
        for owner in facts.every(kind):
            template = ((spec_of(owner).get("template") or {}).get("metadata") or {}).get("labels") or {}
            if _matches(selector, template) and spec_of(owner).get("replicas") == 0:
                return Cause(
                    "DatabaseDown",
                    f"the database does not run: {kind} {name_of(owner)} is scaled to 0",
                    f"kubectl -n {facts.namespace} scale {kind.lower()} {name_of(owner)} --replicas=1",
                )
    chosen = ",".join(f"{key}={value}" for key, value in sorted(selector.items()))
    return Cause(
        "DatabaseDown",
        f"the database does not run: no pod is behind Service {service}",
        f"kubectl -n {facts.namespace} get pods,statefulsets,deployments -l {quoted(chosen)}",
    )


def _matches(selector: Mapping[str, Any], found: Mapping[str, str]) -> bool:
    return selector.items() <= dict(found).items()
