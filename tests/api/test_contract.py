"""Every field of `slinky.slurm.net/v1beta1` is in our schema, with the type, the default and the bounds that it had."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from slurm_operator.api.validate import schema_of

CONTAINER = POD = "preserve"
STRING, INTEGER, BOOLEAN, LIST, MAP, INT_OR_STRING = "string", "integer", "boolean", "array", "object", "int-or-string"
PROMETHEUS = r"^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"

# path: type, then what is special; `*` behind a path says that the parent requires it.
KEY = {"key*": STRING, "name": (STRING, {"default": ""}), "optional": BOOLEAN}
META = {"labels": (MAP, {"nullable": True}), "annotations": (MAP, {"nullable": True})}
TEMPLATE = {"metadata": META, "spec": POD}
SERVICE = {"metadata": META, "spec": POD, "port": INTEGER, "nodePort": INTEGER}
EXTERNAL = {"host*": STRING, "port*": INTEGER}
REF = {"name": (STRING, {"default": ""})}
REFS = (LIST, {"nullable": True})
STATUS = {"conditions": LIST}
COUNT = (INTEGER, {"format": "int32"})
RETAIN = (STRING, {"default": "Retain"})
DURATION = (STRING, {"pattern": PROMETHEUS})

FIELDS: dict[str, Any] = {
    "Controller": {
        "spec": {
            "clusterName": STRING,
            "slurmKeyRef": KEY,
            "jwtHs256KeyRef": KEY,
            "jwtKeyRef": KEY,
            "jwksKeyRef": KEY,
            "accountingRef": REF,
            "external": (BOOLEAN, {"default": False}),
            "externalConfig": EXTERNAL,
            "ha": {
                "enabled*": (BOOLEAN, {"default": False}),
                "backups": (INTEGER, {"default": 1, "minimum": 1, "format": "int32"}),
            },
            "slurmctld": CONTAINER,
            # On by default here: a change of configuration must not restart slurmctld.
            "inplaceReconfigure": (BOOLEAN, {"default": True}),
            "reconfigure": CONTAINER,
            "logfile": CONTAINER,
            "template": TEMPLATE,
            "extraConf": STRING,
            "configFileRefs": REFS,
            "prologScriptRefs": REFS,
            "epilogScriptRefs": REFS,
            "prologSlurmctldScriptRefs": REFS,
            "epilogSlurmctldScriptRefs": REFS,
            "persistence": {
                "enabled*": (BOOLEAN, {"default": True}),
                "existingClaim": STRING,
                "accessModes": LIST,
                "dataSource": {"apiGroup": STRING, "kind*": STRING, "name*": STRING},
                "dataSourceRef": {"apiGroup": STRING, "kind*": STRING, "name*": STRING, "namespace": STRING},
                "resources": {"limits": MAP, "requests": MAP},
                "selector": {"matchLabels": MAP, "matchExpressions": LIST},
                "storageClassName": STRING,
                "volumeAttributesClassName": STRING,
                "volumeMode": STRING,
                "volumeName": STRING,
            },
            "service": SERVICE,
            "metrics": {
                "enabled": (BOOLEAN, {"default": False}),
                "serviceMonitor": {
                    "enabled": (BOOLEAN, {"default": False}),
                    **META,
                    "interval": DURATION,
                    "scrapeTimeout": DURATION,
                    "endpoints": (LIST, {"nullable": True}),
                },
            },
        },
        "status": STATUS,
    },
    "NodeSet": {
        "spec": {
            "controllerRef*": REF,
            "replicas": (INTEGER, {"default": 1, "format": "int32"}),
            "scalingMode": (STRING, {"default": "StatefulSet"}),
            "slurmd": CONTAINER,
            # Optional here: it is needed only when ssh is on, which a rule of admission says.
            "ssh": {"enabled*": (BOOLEAN, {"default": False}), "extraSshdConfig": STRING, "sssdConfRef": KEY},
            "logfile": CONTAINER,
            "template": TEMPLATE,
            "extraConf": STRING,
            "partition": {"enabled*": (BOOLEAN, {"default": False}), "config": (STRING, {"pattern": "^[^\\n]+$"})},
            "volumeClaimTemplates": (LIST, {"nullable": True}),
            "updateStrategy": {
                "type": (STRING, {"default": "RollingUpdate"}),
                "rollingUpdate": {"maxUnavailable": (INT_OR_STRING, {"default": "25%"})},
                "scheduledUpdate": {
                    "startTime": (STRING, {"format": "date-time"}),
                    "duration": (STRING, {"default": "30m"}),
                    "flags": (LIST, {"nullable": True}),
                },
            },
            "revisionHistoryLimit": (INTEGER, {"default": 0, "format": "int32"}),
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": RETAIN, "whenScaled": RETAIN},
            "minReadySeconds": COUNT,
            "ordinalPadding": (INTEGER, {"default": 0}),
            "pinToNode": (BOOLEAN, {"default": False}),
            "workloadDisruptionProtection": (BOOLEAN, {"default": True}),
            "pruneSlurmNodeRecords": (STRING, {"default": "Never"}),
            "oversubscribeNode": (BOOLEAN, {"default": False}),
        },
        "status": {
            **dict.fromkeys(
                (
                    "replicas",
                    "updatedReplicas",
                    "readyReplicas",
                    "availableReplicas",
                    "unavailableReplicas",
                    "desired",
                    "slurmIdle",
                    "slurmAllocated",
                    "slurmDown",
                    "slurmDrain",
                    "collisionCount",
                ),
                COUNT,
            ),
            "observedGeneration": (INTEGER, {"format": "int64"}),
            "nodeSetHash*": STRING,
            "ordinalToNode": (MAP, {"nullable": True}),
            "selector*": STRING,
            **STATUS,
        },
    },
    "LoginSet": {
        "spec": {
            "controllerRef*": REF,
            "replicas": (INTEGER, {"default": 1, "format": "int32"}),
            "login": CONTAINER,
            "initconf": CONTAINER,
            "template": TEMPLATE,
            "rootSshAuthorizedKeys": STRING,
            "extraSshdConfig": STRING,
            "sssdConfRef*": KEY,
            "strategy": {
                "type": STRING,
                "rollingUpdate": {"maxSurge": INT_OR_STRING, "maxUnavailable": INT_OR_STRING},
            },
            "service": SERVICE,
        },
        "status": {"replicas": COUNT, "selector*": STRING, **STATUS},
    },
    "RestApi": {
        "spec": {
            "controllerRef*": REF,
            "replicas": (INTEGER, {"default": 1, "format": "int32"}),
            "slurmrestd": CONTAINER,
            "template": TEMPLATE,
            "service": SERVICE,
        },
        "status": STATUS,
    },
    "Accounting": {
        "spec": {
            "slurmKeyRef": KEY,
            "jwtHs256KeyRef": KEY,
            "jwtKeyRef": KEY,
            "jwksKeyRef": KEY,
            "external": (BOOLEAN, {"default": False}),
            "externalConfig": EXTERNAL,
            "slurmdbd": CONTAINER,
            "template": TEMPLATE,
            "storageConfig": {
                "host*": STRING,
                "port": (INTEGER, {"default": 3306}),
                "database": (STRING, {"default": "slurm_acct_db"}),
                "username": STRING,
                "passwordKeyRef*": KEY,
            },
            "extraConf": STRING,
            "service": SERVICE,
        },
        "status": STATUS,
    },
    "Token": {
        "spec": {
            "jwtHs256KeyRef": KEY,
            "jwtKeyRef": KEY,
            "username*": STRING,
            "lifetime": STRING,
            "refresh": (BOOLEAN, {"default": True}),
            "secretRef": KEY,
        },
        "status": {"issuedAt": (STRING, {"format": "date-time"}), **STATUS},
    },
    "Partition": {
        "spec": {
            "controllerRef*": REF,
            **dict.fromkeys(("partitionName", "nodes", "maxTime", "defaultTime", "overSubscribe"), STRING),
            **dict.fromkeys(("preemptMode", "qos", "config"), STRING),
            **dict.fromkeys(("nodeSets", "allowAccounts", "denyAccounts", "allowGroups", "allowQos", "denyQos"), LIST),
            **dict.fromkeys(("minNodes", "priorityTier", "priorityJobFactor", "graceTime"), INTEGER),
            **dict.fromkeys(("defMemPerCPU", "maxMemPerCPU", "defMemPerNode", "maxMemPerNode"), INTEGER),
            **dict.fromkeys(("hidden", "rootOnly", "exclusiveUser", "lln"), BOOLEAN),
            "default": (BOOLEAN, {"default": False}),
            "state": (STRING, {"default": "UP"}),
            "maxNodes": INT_OR_STRING,
            "tresBillingWeights": MAP,
            "driftPolicy": (STRING, {"default": "Revert"}),
        },
        "status": {
            "observedGeneration": (INTEGER, {"format": "int64"}),
            **dict.fromkeys(("nodes", "cpus", "runningJobs", "pendingJobs"), COUNT),
            "lastApply": {"way*": STRING, "milliseconds*": INTEGER, "time*": STRING},
            **STATUS,
        },
    },
}

Row = tuple[str, tuple[str, ...], str, dict[str, Any], bool]


def rows(kind: str, fields: dict[str, Any], path: tuple[str, ...] = ()) -> Iterator[Row]:
    """The table, flat."""
    for written, wanted in fields.items():
        here = (*path, written.rstrip("*"))
        if isinstance(wanted, dict):
            yield kind, here, MAP, {}, written.endswith("*")
            yield from rows(kind, wanted, here)
        else:
            type_, special = wanted if isinstance(wanted, tuple) else (wanted, {})
            yield kind, here, type_, special, written.endswith("*")


TABLE = [row for kind, fields in FIELDS.items() for row in rows(kind, fields)]


@pytest.mark.parametrize(
    ("kind", "path", "type_", "special", "required"), TABLE, ids=[f"{row[0]}.{'.'.join(row[1])}" for row in TABLE]
)
def test_a_field_of_the_contract_is_served(
    kind: str, path: tuple[str, ...], type_: str, special: dict[str, Any], required: bool
) -> None:
    parent = schema_of(kind)
    for step in path[:-1]:
        parent = parent["properties"][step]
    field = parent["properties"][path[-1]]
    if type_ == INT_OR_STRING:
        assert field["x-kubernetes-int-or-string"] is True
    elif type_ == CONTAINER:
        assert (field["type"], field["x-kubernetes-preserve-unknown-fields"]) == ("object", True)
    else:
        assert field["type"] == type_
    assert {key: field.get(key) for key in special} == special
    assert (path[-1] in parent.get("required", ())) is required
    assert field["description"] or len(path) == 1


@pytest.mark.parametrize(
    ("text", "fits"),
    [("30s", True), ("1h30m", True), ("0", True), ("", True), ("30", False), ("x", False), ("1.5m", False)],
)
def test_the_prometheus_duration_takes_what_prometheus_takes(text: str, fits: bool) -> None:
    assert (re.fullmatch(PROMETHEUS.strip("^$"), text) is not None) is fits


def test_claims_and_scripts_are_open_lists() -> None:
    claims = schema_of("NodeSet")["properties"]["spec"]["properties"]["volumeClaimTemplates"]
    assert claims["items"]["x-kubernetes-preserve-unknown-fields"] is True
