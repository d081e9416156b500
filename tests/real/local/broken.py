"""What is broken from the start, beside a good cluster: each break in a resource of its own, with its cause.

`WAVE` is all of it at once. Used by `test_why.py` with the harness of `table.py`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from tests.real.local.e2e.cluster import NAMESPACE
from tests.real.local.table import Row, Wave

Json = dict[str, Any]
API = "slinky.slurm.net/v1beta1"
# VERSION is replaced by a Slurm version when it is applied.
IMAGE = "ghcr.io/slinkyproject/{}:VERSION"
OTHER_KEY = "another-key-another-key-another-key-another-key-another-key-another"


def plain(kind: str, name: str, spec: Json) -> Json:
    meta = {"name": name, "namespace": NAMESPACE}
    return {"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec}


def nodeset(name: str, *, slurmd: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    """One worker, broken by what is laid over it."""
    made = {
        "controllerRef": {"name": "slurm"},
        "replicas": 1,
        "oversubscribeNode": True,
        "partition": {"enabled": False},
        "slurmd": {"image": IMAGE.format("slurmd"), "readinessProbe": {"periodSeconds": 1}, **(slurmd or {})},
        "template": {"spec": {"terminationGracePeriodSeconds": 1, **(pod or {})}},
    }
    return plain("NodeSet", name, {**made, **spec})


def partition(name: str, **spec: Any) -> Json:
    return plain("Partition", name, {"controllerRef": {"name": "slurm"}, "nodeSets": ["compute"], **spec})


def controller(name: str, *, slurmctld: Json | None = None, pod: Json | None = None, **spec: Any) -> Json:
    """A second cluster's head, which never comes up."""
    made = {
        "slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"},
        "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"},
        "persistence": {"enabled": False},
        "slurmctld": {"image": IMAGE.format("slurmctld"), "readinessProbe": {"periodSeconds": 1}, **(slurmctld or {})},
        "template": {"spec": {"terminationGracePeriodSeconds": 1, **(pod or {})}},
    }
    return plain("Controller", name, {**made, **spec})


def login(name: str, **spec: Any) -> Json:
    """Another login pod."""
    made = {"controllerRef": {"name": "slurm"}, "sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
    return plain("LoginSet", name, {**made, **spec})


def accounting(name: str, host: str, *, slurmdbd: Json | None = None, **storage: Any) -> Json:
    """A slurmdbd that never has a database."""
    keys = {
        "slurmKeyRef": {"name": "slurm-auth-slurm", "key": "slurm.key"},
        "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"},
    }
    password = {"passwordKeyRef": {"name": "slurm-auth-jwt", "key": "jwt.key"}}
    made = {"image": IMAGE.format("slurmdbd"), "readinessProbe": {"periodSeconds": 1}, **(slurmdbd or {})}
    return plain("Accounting", name, {**keys, "storageConfig": {"host": host, **password, **storage}, "slurmdbd": made})


def volume(name: str, source: Json) -> Json:
    return {"volumes": [{"name": name, **source}]}


def mount(name: str, path: str = "/mnt/data", **more: Any) -> Json:
    return {"volumeMounts": [{"name": name, "mountPath": path, **more}]}


def claim(storage_class: str) -> list[Json]:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    return [{"metadata": {"name": "scratch"}, "spec": {**spec, "storageClassName": storage_class}}]


# By cause: what comes next.
NEXT = {
    "ImageNotPulled": "describe pod",
    "SecretMissing": "create secret generic",
    "ConfigMapMissing": "create configmap",
    "StorageClassMissing": "get storageclass",
    "ClaimMissing": "get pvc",
    "VolumeNotMounted": "describe pod",
    "NoNodeFits": "get nodes --show-labels",
    "Tainted": "TAINTS",
    "NodesCordoned": "uncordon local-1",
    "NotEnoughRoom": "describe nodes",
    "OutOfMemory": "edit nodesets.slinky.slurm.net oom",
    "ContainerFails": "logs",
    "ContainerNotMade": "describe pod",
    "ProbeFails": "logs",
    "KeyMismatch": "logs",
    "NameNotResolved": "logs",
    "ScaledToZero": "replicas",
    "ReferenceNotFound": "kubectl",
    "NodeSetNotFound": "edit partitions",
    "NameTaken": "edit partitions",
    "InvalidSpec": "edit partitions",
    "PartitionNotUp": "partition up",
}


@dataclass(frozen=True, slots=True)
class Standing:
    """Something broken in a resource of its own."""

    target: str
    code: str
    # Words that the sentence must hold.
    words: str
    objects: tuple[Json, ...]
    # Words that the next command must hold; otherwise those of `NEXT`.
    command: str = ""

    @property
    def next(self) -> str:
        """What the next command must hold."""
        return self.command or NEXT[self.code]


SAYS_HELLO = ["sh", "-c", "echo fatal: the licence server says no; exit 3"]
EATS_MEMORY = ["sh", "-c", "x=$(head -c 512M /dev/zero | tr '\\0' x)"]
NO_NAMES = {
    "dnsPolicy": "None",
    "dnsConfig": {"nameservers": ["127.0.0.1"], "options": [{"name": "timeout", "value": "1"}]},
}

STANDING: dict[str, Standing] = {
    "the image is not there": Standing(
        "nodeset/image",
        "ImageNotPulled",
        "example.com/nosuch:1",
        (nodeset("image", slurmd={"image": "example.com/nosuch:1"}),),
    ),
    "the Secret of a volume is missing": Standing(
        "nodeset/secret",
        "SecretMissing",
        "'passwords'",
        (nodeset("secret", slurmd=mount("more"), pod=volume("more", {"secret": {"secretName": "passwords"}})),),
    ),
    "the Secret of a variable is missing": Standing(
        "nodeset/variable",
        "SecretMissing",
        "'licence'",
        (
            nodeset(
                "variable",
                slurmd={"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "licence", "key": "x"}}}]},
            ),
        ),
    ),
    "the ConfigMap of a volume is missing": Standing(
        "nodeset/configmap",
        "ConfigMapMissing",
        "'settings'",
        (nodeset("configmap", slurmd=mount("more"), pod=volume("more", {"configMap": {"name": "settings"}})),),
    ),
    "the storage class is missing": Standing(
        "nodeset/storage",
        "StorageClassMissing",
        "'fast'",
        (nodeset("storage", slurmd=mount("scratch"), volumeClaimTemplates=claim("fast")),),
    ),
    "the claim is missing": Standing(
        "nodeset/claim",
        "ClaimMissing",
        "'home'",
        (nodeset("claim", slurmd=mount("more"), pod=volume("more", {"persistentVolumeClaim": {"claimName": "home"}})),),
    ),
    "a volume cannot be mounted": Standing(
        "nodeset/volume",
        "VolumeNotMounted",
        "/nosuch/folder",
        (
            nodeset(
                "volume",
                slurmd=mount("more"),
                pod=volume("more", {"hostPath": {"path": "/nosuch/folder", "type": "Directory"}}),
            ),
        ),
    ),
    "no Kubernetes node has the labels": Standing(
        "nodeset/selector", "NoNodeFits", "labels", (nodeset("selector", pod={"nodeSelector": {"gpu": "h100"}}),)
    ),
    "the only node that fits has a taint": Standing(
        "nodeset/taint",
        "Tainted",
        "local-2 (rack=closed:NoSchedule)",
        (nodeset("taint", pod={"nodeSelector": {"kubernetes.io/hostname": "local-2"}}),),
    ),
    "the only node that fits is cordoned": Standing(
        "nodeset/cordoned",
        "NodesCordoned",
        "cordoned",
        (nodeset("cordoned", pod={"nodeSelector": {"kubernetes.io/hostname": "local-1"}, "tolerations": []}),),
    ),
    "no node has that much memory": Standing(
        "nodeset/huge",
        "NotEnoughRoom",
        "memory: it asks for 900Ti of memory, and the largest node has ",
        (nodeset("huge", slurmd={"resources": {"requests": {"memory": "900Ti"}}}),),
    ),
    "more memory than the limit": Standing(
        "nodeset/oom",
        "OutOfMemory",
        "limit of 64Mi",
        (nodeset("oom", slurmd={"command": EATS_MEMORY, "resources": {"limits": {"memory": "64Mi"}}}),),
    ),
    "a command that ends": Standing(
        "nodeset/crash",
        "ContainerFails",
        "the licence server says no",
        (nodeset("crash", slurmd={"command": SAYS_HELLO}),),
    ),
    "a command that is not there": Standing(
        "nodeset/command",
        "ContainerNotMade",
        "/nosuch",
        (nodeset("command", slurmd={"command": ["/nosuch"]}),),
    ),
    "an init container that ends": Standing(
        "nodeset/init",
        "ContainerFails",
        "container prepare of pod init-0 keeps exiting: fatal: the licence server says no",
        (
            nodeset(
                "init",
                pod={"initContainers": [{"name": "prepare", "image": IMAGE.format("slurmd"), "command": SAYS_HELLO}]},
            ),
        ),
    ),
    "a probe that fails": Standing(
        "nodeset/probe",
        "ProbeFails",
        "Readiness probe failed",
        (nodeset("probe", slurmd={"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}}),),
    ),
    "another slurm.key": Standing(
        "nodeset/key",
        "KeyMismatch",
        "slurm.key",
        (
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": "other-key", "namespace": NAMESPACE},
                "stringData": {"slurm.key": OTHER_KEY},
            },
            nodeset(
                "key",
                slurmd=mount("other", "/etc/slurm"),
                pod=volume("other", {"secret": {"secretName": "other-key", "defaultMode": 0o600}}),
            ),
        ),
    ),
    "names that are not resolved": Standing(
        "nodeset/dns", "NameNotResolved", "resolve", (nodeset("dns", pod=NO_NAMES),)
    ),
    "scaled to nothing": Standing("nodeset/none", "ScaledToZero", "replicas are 0", (nodeset("none", replicas=0),)),
    "a Controller that is not there": Standing(
        "nodeset/stray",
        "ReferenceNotFound",
        "nosuch",
        (nodeset("stray", controllerRef={"name": "nosuch"}),),
    ),
    "a RestApi of a Controller that is not there": Standing(
        "restapi/stray",
        "ReferenceNotFound",
        "nosuch",
        (plain("RestApi", "stray", {"controllerRef": {"name": "nosuch"}}),),
    ),
    "a partition of a NodeSet that is not there": Standing(
        "partition/stray", "NodeSetNotFound", "nosuch", (partition("stray", nodeSets=["nosuch"]),)
    ),
    "a partition whose name is taken": Standing(
        "partition/twin", "NameTaken", "short", (partition("twin", partitionName="short"),)
    ),
    "a partition with a bad host list": Standing(
        "partition/list", "InvalidSpec", "never closed", (partition("list", nodeSets=[], nodes="n[1-"),)
    ),
    "a partition of a NodeSet without workers": Standing(
        "partition/empty", "ScaledToZero", "replicas are 0", (partition("empty", nodeSets=["none"]),)
    ),
    "a partition of a NodeSet whose image is not there": Standing(
        "partition/image", "ImageNotPulled", "example.com/nosuch:1", (partition("image", nodeSets=["image"]),)
    ),
    "a partition that is DOWN": Standing(
        "partition/down", "PartitionNotUp", "DOWN", (partition("down", state="DOWN"),)
    ),
    "a partition that is DRAIN": Standing(
        "partition/drain", "PartitionNotUp", "DRAIN", (partition("drain", state="DRAIN"),)
    ),
    "a partition that is INACTIVE": Standing(
        "partition/inactive", "PartitionNotUp", "INACTIVE", (partition("inactive", state="INACTIVE"),)
    ),
    "a Controller without its key": Standing(
        "controller/keyless",
        "SecretMissing",
        "nosuch",
        (controller("keyless", slurmKeyRef={"name": "nosuch", "key": "slurm.key"}),),
    ),
    "slurmctld that ends": Standing(
        "controller/crash",
        "ContainerFails",
        "the licence server says no",
        (controller("crash", slurmctld={"command": SAYS_HELLO}),),
    ),
    "slurmctld whose state has no storage class": Standing(
        "controller/storage",
        "StorageClassMissing",
        "'fast'",
        (
            controller(
                "storage",
                persistence={
                    "enabled": True,
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                    "storageClassName": "fast",
                },
            ),
        ),
    ),
    "a worker of a slurmctld that ends": Standing(
        "nodeset/orphan",
        "ContainerFails",
        "the licence server says no",
        (nodeset("orphan", controllerRef={"name": "crash"}),),
    ),
    "a node of a slurmctld that ends": Standing("node/orphan-0", "ContainerFails", "the licence server says no", ()),
    "a Secret without the key that is named": Standing(
        "controller/wrong-key",
        "SecretKeyMissing",
        "'other.key'",
        (controller("wrong-key", slurmKeyRef={"name": "slurm-auth-slurm", "key": "other.key"}),),
        "edit secret slurm-auth-slurm",
    ),
    "a file of the configuration that is not there": Standing(
        "controller/files",
        "ConfigMapMissing",
        "'nosuch'",
        (controller("files", configFileRefs=[{"name": "nosuch"}]),),
        "create configmap nosuch",
    ),
    "a prolog that is not there": Standing(
        "controller/prolog",
        "ConfigMapMissing",
        "spec.prologScriptRefs",
        (controller("prolog", prologScriptRefs=[{"name": "nosuch"}]),),
        "create configmap nosuch",
    ),
    "an Accounting that is not there": Standing(
        "controller/unaccounted",
        "AccountingMissing",
        "'nosuch'",
        (controller("unaccounted", accountingRef={"name": "nosuch"}),),
        "get accountings",
    ),
    "slurmctld's claim is not there": Standing(
        "controller/stateless",
        "ClaimMissing",
        "'nosuch'",
        (controller("stateless", persistence={"enabled": True, "existingClaim": "nosuch"}),),
        "get pvc",
    ),
    "the image of slurmctld is not there": Standing(
        "controller/unbuilt",
        "ImageNotPulled",
        "example.com/nosuch:2",
        (controller("unbuilt", slurmctld={"image": "example.com/nosuch:2"}),),
        "describe pod",
    ),
    "a database that is not there": Standing(
        "accounting/lost",
        "DatabaseHostMissing",
        "'nosuch'",
        (accounting("lost", "nosuch"),),
        "get services",
    ),
    "a database whose password is not there": Standing(
        "accounting/secretless",
        "SecretMissing",
        "spec.storageConfig.passwordKeyRef",
        (accounting("secretless", "nosuch", passwordKeyRef={"name": "nosuch", "key": "password"}),),
        "create secret generic nosuch",
    ),
    "a LoginSet without its sssd.conf": Standing(
        "loginset/lost",
        "SecretMissing",
        "spec.sssdConfRef",
        (
            plain(
                "LoginSet",
                "lost",
                {"controllerRef": {"name": "slurm"}, "sssdConfRef": {"name": "nosuch", "key": "sssd.conf"}},
            ),
        ),
        "create secret generic nosuch",
    ),
    "a Token without its key": Standing(
        "token/lost",
        "SecretMissing",
        "spec.jwtKeyRef",
        (plain("Token", "lost", {"username": "alice", "jwtKeyRef": {"name": "nosuch", "key": "jwt.key"}}),),
        "create secret generic nosuch",
    ),
    "a RestApi whose image is not there": Standing(
        "restapi/unbuilt",
        "ImageNotPulled",
        "example.com/nosuch:3",
        (
            plain(
                "RestApi",
                "unbuilt",
                {"controllerRef": {"name": "slurm"}, "slurmrestd": {"image": "example.com/nosuch:3"}},
            ),
        ),
        "describe pod",
    ),
    "a RestApi that ends": Standing(
        "restapi/crash",
        "ContainerFails",
        "the licence server says no",
        (
            plain(
                "RestApi",
                "crash",
                {
                    "controllerRef": {"name": "slurm"},
                    "slurmrestd": {"image": IMAGE.format("slurmrestd"), "command": SAYS_HELLO},
                },
            ),
        ),
    ),
    "a LoginSet whose image is not there": Standing(
        "loginset/unbuilt",
        "ImageNotPulled",
        "example.com/nosuch:4",
        (login("unbuilt", login={"image": "example.com/nosuch:4"}),),
    ),
    "a LoginSet whose home is not there": Standing(
        "loginset/homeless",
        "ClaimMissing",
        "'home'",
        (
            login(
                "homeless",
                login={"image": IMAGE.format("login"), **mount("home", "/home")},
                template={"spec": volume("home", {"persistentVolumeClaim": {"claimName": "home"}})},
            ),
        ),
    ),
    "a LoginSet that nobody may log in to": Standing(
        "loginset/none", "ScaledToZero", "replicas are 0", (login("none", replicas=0),)
    ),
    "a database that refuses the password": Standing(
        "accounting/refused",
        "DatabaseUnreachable",
        "ccess denied",
        (accounting("refused", "mariadb", username="slurm", database="slurm_acct_db"),),
        "logs",
    ),
    "the image of slurmdbd is not there": Standing(
        "accounting/unbuilt",
        "ImageNotPulled",
        "example.com/nosuch:5",
        (accounting("unbuilt", "mariadb", slurmdbd={"image": "example.com/nosuch:5"}),),
    ),
    "a Token of a Secret that has no such key": Standing(
        "token/wrong",
        "SecretKeyMissing",
        "'other.key'",
        (plain("Token", "wrong", {"username": "alice", "jwtKeyRef": {"name": "slurm-auth-jwt", "key": "other.key"}}),),
        "edit secret slurm-auth-jwt",
    ),
    "a DaemonSet of machines that there are none of": Standing(
        "nodeset/metal",
        "NoNodeFits",
        "gpu=h100",
        (nodeset("metal", scalingMode="DaemonSet", pod={"nodeSelector": {"gpu": "h100"}}),),
        "get nodes",
    ),
}


@contextmanager
def _standing(cluster: Any) -> Iterator[None]:
    cluster.kubectl("taint", "node", "local-2", "rack=closed:NoSchedule")
    cluster.kubectl("cordon", "local-1")
    objects = [item for each in STANDING.values() for item in each.objects]
    try:
        cluster.apply(*objects)
        yield
    finally:
        cluster.remove(*objects)
        # What is being deleted must not begin to run.
        cluster.until("they are gone", lambda: not {"cordoned-0", "taint-0"} & cluster.pods().keys(), 180)
        cluster.kubectl("uncordon", "local-1")
        cluster.kubectl("taint", "node", "local-2", "rack-")


def _row(case: Standing) -> Row:
    return Row(lambda _: nullcontext(case.target), case.code, case.words, case.next)


WAVE = Wave({name: _row(case) for name, case in STANDING.items()}, _standing)
