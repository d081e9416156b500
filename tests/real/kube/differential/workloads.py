"""Random small objects of the other built-in kinds that the operator writes.

In: a `random.Random`. Out: the specific part of an object: workloads, secrets, claims, budgets, leases.
Called through the kinds of `bodies.py`.
"""

from __future__ import annotations

from random import Random
from typing import Any

Json = dict[str, Any]


def container(random: Random, name: str) -> Json:
    """A container with a few of the fields that get defaults."""
    made: Json = {"name": name, "image": random.choice(("nginx", "nginx:1.27", "nginx:latest"))}
    if random.random() < 0.4:
        # Ports that sort alike as numbers and as text: managedFields are kept in either order, and where the two
        # differ, the real server writes a new version of an unchanged object.
        # No port twice in a pod: the real server warns of that, and nobody here reads the warning.
        pool = (443, 6817, 8080) if name == "main" else (444, 6818, 8081)
        made["ports"] = [{"containerPort": port} for port in random.sample(pool, 2)]
    if random.random() < 0.4:
        made["env"] = [{"name": key, "value": "x"} for key in random.sample(("A", "B", "C"), 2)]
    if random.random() < 0.3:
        made["resources"] = random.choice(
            ({"requests": {"cpu": "100m"}}, {"limits": {"cpu": "1", "memory": "64Mi"}}, {})
        )
    if random.random() < 0.2:
        made["readinessProbe"] = {"httpGet": {"port": 80}}
    return made


def pod_spec(random: Random) -> Json:
    """One or two containers; never bound to a node, so that nothing waits for a kubelet."""
    spec: Json = {"containers": [container(random, "main")]}
    if random.random() < 0.3:
        spec["containers"].append(container(random, "side"))
    if random.random() < 0.2:
        spec["volumes"] = [{"name": "config", "configMap": {"name": "cm-a"}}]
    if random.random() < 0.2:
        spec["tolerations"] = [{"key": "gpu", "operator": "Exists"}]
    if random.random() < 0.2:
        spec["terminationGracePeriodSeconds"] = random.choice((0, 5))
    return spec


def template(random: Random) -> Json:
    """A pod template whose labels match the fixed selector."""
    return {"metadata": {"labels": {"run": "it"}}, "spec": pod_spec(random)}


def stateful_set(random: Random) -> Json:
    """What Slurm's controller runs in; some changes are forbidden."""
    spec: Json = {"selector": {"matchLabels": {"run": "it"}}, "template": template(random), "serviceName": "svc-a"}
    if random.random() < 0.5:
        spec["replicas"] = random.choice((0, 1, 3))
    if random.random() < 0.3:
        spec["podManagementPolicy"] = random.choice(("Parallel", "OrderedReady"))
    if random.random() < 0.3:
        spec["volumeClaimTemplates"] = [{"metadata": {"name": "state"}, "spec": claim(random)["spec"]}]
    return {"spec": spec}


def deployment(random: Random) -> Json:
    """What login and REST pods run in."""
    spec: Json = {"selector": {"matchLabels": {"run": "it"}}, "template": template(random)}
    if random.random() < 0.5:
        spec["replicas"] = random.choice((0, 1, 3, -1))
    if random.random() < 0.3:
        spec["strategy"] = random.choice(({"type": "Recreate"}, {"rollingUpdate": {"maxSurge": 1}}))
    return {"spec": spec}


def workload_status(random: Random) -> Json:
    """Counts, as a controller would write them."""
    return {"replicas": random.choice((1, 2)), "readyReplicas": random.choice((0, 1)), "observedGeneration": 1}


def secret(random: Random) -> Json:
    """Keys as bytes or as text, of one type or another."""
    made: Json = {}
    if random.random() < 0.6:
        made["data"] = {"key": random.choice(("AAEC", "c2x1cm0="))}
    if random.random() < 0.5:
        made["stringData"] = {random.choice(("key", "text")): random.choice(("plain", "other"))}
    if random.random() < 0.2:
        made["type"] = random.choice(("Opaque", "example.com/own"))
    return made


def claim(random: Random) -> Json:
    """Storage for state."""
    spec: Json = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": random.choice(("1Gi", "2Gi"))}},
    }
    if random.random() < 0.3:
        spec["storageClassName"] = random.choice(("fast", ""))
    return {"spec": spec}


def claim_status(random: Random) -> Json:
    """What the binder would write."""
    return {"phase": random.choice(("Pending", "Bound")), "capacity": {"storage": "1Gi"}}


def disruption_budget(random: Random) -> Json:
    """How many workers may go at once."""
    spec: Json = {"selector": {"matchLabels": {"app": random.choice(("red", "blue"))}}}
    key = random.choice(("maxUnavailable", "minAvailable"))
    spec[key] = random.choice((0, 1, "50%"))
    return {"spec": spec}


def lease(random: Random) -> Json:
    """Who leads, and since when."""
    spec: Json = {"holderIdentity": random.choice(("a", "b")), "leaseDurationSeconds": 15}
    if random.random() < 0.5:
        spec["renewTime"] = "2026-01-02T03:04:05.000000Z"
    return {"spec": spec}
