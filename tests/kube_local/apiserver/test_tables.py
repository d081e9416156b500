"""Tables: what `kubectl get` prints."""

from __future__ import annotations

from typing import Any

import pytest

from kube_local.apiserver import json_path, tables
from kube_local.apiserver.pod_cells import status_text

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
WAITING = {"name": "c", "state": {"waiting": {"reason": "CrashLoopBackOff"}}}
RUNNING = {"name": "c", "ready": True, "state": {"running": {}}}
FAILED = {"name": "c", "state": {"terminated": {"exitCode": 3}}}
KILLED = {"name": "c", "state": {"terminated": {"exitCode": 137, "signal": 9}}}
DONE = {"name": "i", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}

PODS: list[tuple[str, dict[str, Any], str]] = [
    ("phase", {"status": {"phase": "Pending"}}, "Pending"),
    ("reason", {"status": {"phase": "Failed", "reason": "Evicted"}}, "Evicted"),
    ("waiting", {"status": {"phase": "Running", "containerStatuses": [WAITING]}}, "CrashLoopBackOff"),
    ("running", {"status": {"phase": "Running", "containerStatuses": [RUNNING]}}, "Running"),
    ("exit code", {"status": {"phase": "Running", "containerStatuses": [FAILED]}}, "ExitCode:3"),
    ("signal", {"status": {"phase": "Running", "containerStatuses": [KILLED]}}, "Signal:9"),
    (
        "init waits",
        {
            "spec": {"initContainers": [{"name": "i"}, {"name": "j"}]},
            "status": {"phase": "Pending", "initContainerStatuses": [DONE, {"name": "j", "state": {"waiting": {}}}]},
        },
        "Init:1/2",
    ),
    (
        "init fails",
        {"spec": {"initContainers": [{"name": "i"}]}, "status": {"initContainerStatuses": [{**FAILED, "name": "i"}]}},
        "Init:ExitCode:3",
    ),
    (
        "sidecar started",
        {
            "spec": {"initContainers": [{"name": "i", "restartPolicy": "Always"}]},
            "status": {
                "phase": "Running",
                "initContainerStatuses": [{"name": "i", "started": True, "state": {"running": {}}}],
                "containerStatuses": [RUNNING],
            },
        },
        "Running",
    ),
    ("going", {"metadata": {"deletionTimestamp": "x"}, "status": {"phase": "Running"}}, "Terminating"),
    (
        "gated",
        {"status": {"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}},
        "SchedulingGated",
    ),
]


@pytest.mark.parametrize(("pod", "word"), [p[1:] for p in PODS], ids=[p[0] for p in PODS])
def test_the_state_of_a_pod_in_one_word(pod: dict[str, Any], word: str) -> None:
    assert status_text({"metadata": {}, **pod}) == word


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-5, "<invalid>"),
        (0, "0s"),
        (119, "119s"),
        (130, "2m10s"),
        (600, "10m"),
        (3 * 3600, "3h"),
        (5 * 3600 + 60, "5h1m"),
        (47 * 3600, "47h"),
        (50 * 3600, "2d2h"),
        (9 * 86400, "9d"),
        (800 * 86400, "2y70d"),
        (4000 * 86400, "10y"),
    ],
)
def test_ages(seconds: int, text: str) -> None:
    assert tables.human_duration(seconds) == text


OBJECT = {
    "spec": {"size": 1, "list": [{"n": 1}, {"n": 2}]},
    "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}]},
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".spec.size", [1]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        ('.status.conditions[?(@.type=="Lost")].status', []),
        (".nothing.here", []),
        (".spec.list[0].n", []),
        (".spec[", []),
    ],
)
def test_printer_columns_paths(path: str, found: list[Any]) -> None:
    assert json_path.find(OBJECT, path) == found


OBJECTS: list[tuple[str, str, dict[str, Any], list[Any]]] = [
    (
        "a config map",
        "/api/v1/namespaces/default/configmaps",
        {"kind": "ConfigMap", "data": {"a": "1"}},
        ["x", 1, "5s"],
    ),
    ("a secret", "/api/v1/namespaces/default/secrets", {"kind": "Secret"}, ["x", "Opaque", 0, "5s"]),
    ("a namespace", "/api/v1/namespaces", {"kind": "Namespace"}, ["x", "Active", "5s"]),
    (
        "a node",
        "/api/v1/nodes",
        {
            "kind": "Node",
            "spec": {"unschedulable": True},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        },
        ["x", "Ready,SchedulingDisabled", "<none>", "5s", ""],
    ),
    (
        "a headless service",
        "/api/v1/namespaces/default/services",
        {"kind": "Service", "spec": {"clusterIP": "None", "ports": [{"port": 80}]}},
        ["x", "ClusterIP", "None", "<none>", "80/TCP", "5s"],
    ),
    (
        "a claim",
        "/api/v1/namespaces/default/persistentvolumeclaims",
        {
            "kind": "PersistentVolumeClaim",
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        },
        ["x", "Pending", "", "", "", "", "<unset>", "5s"],
    ),
    ("an account", "/api/v1/namespaces/default/serviceaccounts", {"kind": "ServiceAccount"}, ["x", 0, "5s"]),
]


@pytest.mark.parametrize(("path", "body", "cells"), [o[1:] for o in OBJECTS], ids=[o[0] for o in OBJECTS])
async def test_rows_of_built_in_kinds(api: Any, clock: Any, path: str, body: Any, cells: list[Any]) -> None:
    await api.create(path, {"apiVersion": "v1", "metadata": {"name": "x"}, **body})
    clock.now += 5
    table = await api.ok("GET", f"{path}/x", accept=TABLE)
    shown = [n for n, column in enumerate(table["columnDefinitions"]) if column["priority"] == 0]
    row = table["rows"][0]["cells"]
    assert [row[n] for n in shown] == cells
    assert len(row) == len(table["columnDefinitions"])


async def test_rows_of_custom_kinds(widgets: Any) -> None:
    path = "/apis/example.com/v1/namespaces/default/widgets"
    await widgets.create(
        path, {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    )
    table = await widgets.ok("GET", path, accept=TABLE, query={"includeObject": "None"})
    assert table["rows"] == [{"cells": ["w", "small", None]}]
    condition = {"type": "Ready", "status": "True"}
    await widgets.merge(f"{path}/w/status", {"status": {"conditions": [condition]}})
    table = await widgets.ok("GET", path, accept=TABLE, query={"includeObject": "Object"})
    assert table["rows"][0]["cells"] == ["w", "small", "True"]
    assert table["rows"][0]["object"]["kind"] == "Widget"


async def test_every_kind_has_a_table(api: Any) -> None:
    for kind in api.server.state.registry:
        if "list" in kind.verbs:
            base = f"/apis/{kind.group}" if kind.group else "/api"
            table = await api.ok("GET", f"{base}/{kind.version}/{kind.plural}", accept=TABLE)
            assert table["columnDefinitions"][0]["name"] in {"Name", "Last Seen"}
