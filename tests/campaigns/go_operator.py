"""A cluster as the Go operator leaves it: its objects in its own words, written by updates of its own field manager.

In: a cluster without an operator. Out: resources, workloads, worker pods, claims, revisions and Secrets, all running.
Names, labels, annotations, templates and owners follow the wire contract of its main branch, or of its release 1.2
where `release` says so; nothing but the revision, whose bytes are held by vectors, is made by this program's builders.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Protocol

from tests.campaigns.rig import NAMESPACE, World
from tests.campaigns.scenarios import CLAIMS, KEYS, REF

from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.validate import decode
from slurm_operator.build import revision
from slurm_operator.slurm.token import mint

GROUP = "slinky.slurm.net"
IMAGES = "ghcr.io/slinkyproject"
SPEC_OF = {"NodeSet": {"slurmd": {"image": f"{IMAGES}/slurmd:26.05-ubuntu26.04"}, "replicas": 2}}
EMPTY = hashlib.sha256(b"").hexdigest()
MAIN, RELEASED = "main", "1.2"


def labels(name: str, instance: str, component: str) -> dict[str, str]:
    """The recommended labels."""
    return {
        "app.kubernetes.io/name": name,
        "app.kubernetes.io/instance": instance,
        "app.kubernetes.io/component": component,
    }


def written_by_go(more: Mapping[str, Any] | None = None) -> tuple[dict[str, Any], str]:
    """The revision of the Go operator, hash and all; `more` is what the NodeSet says beside the usual."""
    raw = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": "compute", "namespace": "hpc"},
        "spec": {**REF, **SPEC_OF["NodeSet"], "volumeClaimTemplates": CLAIMS, **(more or {})},
    }
    cr = decode(raw).resource
    assert isinstance(cr, NodeSet)
    return revision.data(cr), revision.hash_of(cr)


class Place(Protocol):
    """Where it writes."""

    @property
    def namespace(self) -> str: ...

    @property
    def node(self) -> str: ...

    async def create(self, kind: str, name: str, spec: Mapping[str, Any]) -> Any: ...

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any: ...

    async def secret(self, name: str) -> Mapping[str, bytes]: ...

    def now(self) -> float: ...

    def started(self, name: str) -> None: ...


class InWorld:
    """A world of the campaigns."""

    namespace = NAMESPACE
    node = "k"

    def __init__(self, world: World) -> None:
        self.world = world

    async def create(self, kind: str, name: str, spec: Mapping[str, Any]) -> Any:
        """One of our resources."""
        return await self.world.create(kind, name, spec)

    async def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """A write of the Go operator's field manager."""
        headers = {"content-type": "application/json" if method == "POST" else "application/merge-patch+json"}
        response = await self.world.server.handle(method, path, {"fieldManager": "manager"}, headers, dict(body))
        assert response.status < 400, response.body
        return json.loads(response.body or b"null")

    async def secret(self, name: str) -> Mapping[str, bytes]:
        """What a Secret holds."""
        return {key: b64decode(value) for key, value in self.world.stored("secrets", name)["data"].items()}

    def now(self) -> float:
        """Virtual time."""
        return self.world.clock.now().timestamp()

    def started(self, name: str) -> None:
        """A worker's slurmd runs and has registered."""
        cluster = self.world.cluster
        cluster.keys[name] = cluster.key = cluster.secret()
        self.world.slurm.register(name, ["compute"])


class GoOperator:
    """Writes what the Go operator would have written."""

    def __init__(
        self, place: Place, release: str = MAIN, *, sidecar: bool = False, nodeset: Mapping[str, Any] | None = None
    ) -> None:
        self.place, self.release, self.sidecar, self.nodeset = place, release, sidecar, nodeset or {}

    async def leave_a_cluster(self, revision: Mapping[str, Any], hash_: str) -> None:
        """Every kind at rest, with two workers of that revision."""
        place = self.place
        extra = {"inplaceReconfigure": True} if self.sidecar else {}
        images = {"slurmctld": {"image": f"{IMAGES}/slurmctld:26.05-ubuntu26.04"}}
        books = {"accountingRef": {"name": "books"}}
        storage = {"host": "mariadb", "passwordKeyRef": {"name": "database", "key": "password"}}
        sssd = {"sssdConfRef": {"name": "sssd", "key": "sssd.conf"}}
        controller = await place.create("Controller", "slurm", {**KEYS, **images, **books, **extra})
        accounting = await place.create("Accounting", "books", {**KEYS, "storageConfig": storage})
        restapi = await place.create("RestApi", "slurm", REF)
        login = await place.create("LoginSet", "login", {**REF, **sssd})
        nodeset = await place.create(
            "NodeSet", "compute", {**REF, **SPEC_OF["NodeSet"], "volumeClaimTemplates": CLAIMS, **self.nodeset}
        )
        token = {"username": "alice", "jwtKeyRef": KEYS["jwtKeyRef"], "lifetime": "24h"}
        await place.create("Token", "ci", token)
        await self._controller(controller)
        await self._accounting(accounting)
        await self._restapi(restapi)
        await self._login(login)
        await self._nodeset(nodeset, revision, hash_)
        await self._token()

    # Daemons

    async def _controller(self, owner: Any) -> None:
        mine, selector = labels("slurmctld", "slurm", "controller"), _selector("slurmctld", "slurm")
        internal = "slurm-controller-internal" if self.release == MAIN else "slurm-controller"
        if self.release == MAIN:
            await self._service(owner, "slurm-controller-internal", mine, selector, ("slurmctld", 6817), headless=True)
            selector = {**selector, f"controller.{GROUP}/active": "true"}
        await self._service(owner, "slurm-controller", mine, selector, ("slurmctld", 6817))
        conf = {"slurm.conf": "#\n### GENERAL ###\nClusterName=hpc_slurm\n", "cgroup.conf": "CgroupPlugin=cgroup/v2\n"}
        await self._data("configmaps", owner, "slurm-config", mine, conf)
        hashes = {"slurm-key-hash": await self._hash("slurm-key"), "jwt-key-hash": await self._hash("jwt-key")}
        if not self.sidecar:
            hashes["slurm-config-hash"] = _sha(*conf.values())
        sidecars = [_sidecar("reconfigure", "tini", "slurmctld")] if self.sidecar else []
        spec = {
            "automountServiceAccountToken": False,
            "securityContext": _user(401),
            "initContainers": [*sidecars, _sidecar("logfile", "sh", "slurmctld")],
            "containers": [_daemon("slurmctld", 6817)],
            "volumes": [_etc(392, "slurm.key", "jwt.key")],
        }
        claim = {"metadata": {"name": "statesave"}, "spec": CLAIMS[0]["spec"]}
        await self._stateful_set(owner, "slurm-controller", mine, spec, hashes, internal, [claim])

    async def _accounting(self, owner: Any) -> None:
        mine = labels("slurmdbd", "books", "accounting")
        await self._service(owner, "books-accounting", mine, _selector("slurmdbd", "books"), ("slurmdbd", 6819))
        text = "#\n### GENERAL ###\nDbdHost=books-accounting-0\n"
        await self._data(
            "secrets", owner, "books-accounting", mine, {"slurmdbd.conf": b64encode(text.encode()).decode()}
        )
        hashes = {"slurm-key-hash": await self._hash("slurm-key"), "jwt-key-hash": await self._hash("jwt-key")}
        hashes["slurmdbd-conf-hash"] = _sha(text)
        spec = {"securityContext": _user(401), "containers": [_daemon("slurmdbd", 6819)], "volumes": [_etc(384)]}
        await self._stateful_set(owner, "books-accounting", mine, spec, hashes, "books-accounting", [])

    async def _restapi(self, owner: Any) -> None:
        mine = labels("slurmrestd", "slurm", "restapi")
        await self._service(owner, "slurm-restapi", mine, _selector("slurmrestd", "slurm"), ("slurmrestd", 6820))
        spec = {"securityContext": _user(65534), "containers": [_daemon("slurmrestd", 6820)], "volumes": [_etc(384)]}
        await self._deployment(owner, "slurm-restapi", mine, spec, {})

    async def _login(self, owner: Any) -> None:
        mine = labels("login", "login", "login")
        await self._service(owner, "login", mine, _selector("login", "login"), ("login", 22))
        await self._data(
            "configmaps", owner, "login-ssh-config", mine, {"sshd_config": "#\n", "authorized_keys": "#\n"}
        )
        kinds = ("rsa", "ed25519", "ecdsa")
        keys = {f"ssh_host_{kind}_key{end}": b64encode(b"held").decode() for kind in kinds for end in ("", ".pub")}
        await self._data("secrets", owner, "login-ssh-host-keys", mine, keys, immutable=True)
        hashes = {"ssh-host-keys-hash": await self._hash("login-ssh-host-keys"), "sshd-conf-hash": _sha("#\n")}
        hashes["sssd-conf-hash"] = await self._hash("sssd")
        etc = {"name": "slurm-etc", "emptyDir": {"medium": "Memory"}}
        spec = {"containers": [_daemon("login", 22)], "volumes": [etc]}
        await self._deployment(owner, "login", mine, spec, hashes)

    # Workers

    async def _nodeset(self, owner: Any, revision: Mapping[str, Any], hash_: str) -> None:
        cluster = {f"{GROUP}/cluster": "slurm"}
        held = {"metadata": self._meta(owner, f"compute-{hash_}", {"controller.kubernetes.io/hash": hash_})}
        await self._post("/apis/apps/v1", "controllerrevisions", {**held, "revision": 1, "data": _sorted(revision)})
        shared = {"ownerReferences": [_owner(owner, controller=False)]}
        selector = {"app.kubernetes.io/name": "slurmd", **cluster}
        port = {"name": "slurmd", "port": 6818, "protocol": "TCP", "targetPort": "slurmd"}
        spec = {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector, "ports": [port]}
        await self._post("/api/v1", "services", {"metadata": {"name": "slurm-workers-slurm", **shared}, "spec": spec})
        budget = {"maxUnavailable": 0, "selector": {"matchLabels": {f"nodeset.{GROUP}/pod-protect": "true", **cluster}}}
        meta = {"name": "slurm-workers-pdb-slurm", **shared}
        await self._post("/apis/policy/v1", "poddisruptionbudgets", {"metadata": meta, "spec": budget})
        for number in range(2):
            await self._worker(owner, number, {**cluster, "controller.kubernetes.io/hash": hash_})

    async def _worker(self, owner: Any, number: int, more: Mapping[str, str]) -> None:
        name, place = f"compute-{number}", self.place
        claim = {"name": f"scratch-{name}", "labels": _selector("slurmd", "compute")}
        await self._post("/api/v1", "persistentvolumeclaims", {"metadata": claim, "spec": CLAIMS[0]["spec"]})
        prefix = f"nodeset.{GROUP}"
        mine = {**labels("slurmd", "compute", "worker"), **more, f"{prefix}/pod-name": name}
        mine |= {f"{prefix}/pod-index": str(number), f"{prefix}/pod-hostname": name}
        meta = {
            **self._meta(owner, name, {**mine, f"{prefix}/scaling-mode": "StatefulSet"}),
            "generateName": "compute-",
        }
        meta["annotations"] = {f"{GROUP}/sshd-conf-hash": _sha("go"), f"{GROUP}/sssd-conf-hash": EMPTY}
        args = ["-Z", "--conf-server", f"slurm-controller.{place.namespace}:6817", "--conf", "'Features=compute'"]
        slurmd, asked = self.nodeset.get("slurmd") or {}, (self.nodeset.get("template") or {}).get("spec") or {}
        container = _daemon("slurmd", 6818)
        mounts = [*container["volumeMounts"], *slurmd.get("volumeMounts", ())]
        security = {"privileged": True, **slurmd.get("securityContext", {})}
        volumes = [{"name": "scratch", "persistentVolumeClaim": {"claimName": f"scratch-{name}"}}, _etc(384)]
        spec = {
            **asked,
            "hostname": name,
            "subdomain": "slurm-workers-slurm",
            "nodeName": f"{place.node}{number}",
            "containers": [{**container, "args": args, "securityContext": security, "volumeMounts": mounts}],
            "volumes": [*volumes, *asked.get("volumes", ())],
        }
        await self._post("/api/v1", "pods", {"metadata": meta, "spec": spec})
        now = datetime.fromtimestamp(place.now(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        ready = [{"type": each, "status": "True", "lastTransitionTime": now} for each in ("Initialized", "Ready")]
        status = {"status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": ready}}
        await place.send("PATCH", f"/api/v1/namespaces/{place.namespace}/pods/{name}/status", status)
        place.started(name)

    async def _token(self) -> None:
        path = f"/api/v1/namespaces/{self.place.namespace}/secrets/jwt-key"
        key = await self.place.send("PATCH", path, {"metadata": {"labels": {"seen": "yes"}}})
        owner = {"apiVersion": "v1", "kind": "Secret", "name": "jwt-key", "uid": key["metadata"]["uid"]}
        owner |= {"controller": True}
        jwt_key = (await self.place.secret("jwt-key"))["jwt.key"]
        # It is due: the new program has to renew it.
        jwt = mint(jwt_key, user="alice", now=int(self.place.now()) - 80_000, life=86_400, token_id="go")
        meta = {"name": "ci-jwt-alice", "ownerReferences": [owner]}
        data = {"SLURM_JWT": b64encode(jwt.encode()).decode()}
        await self._post("/api/v1", "secrets", {"metadata": meta, "data": data, "immutable": False})

    # Parts

    async def _post(self, root: str, plural: str, body: Mapping[str, Any]) -> Any:
        return await self.place.send("POST", f"{root}/namespaces/{self.place.namespace}/{plural}", body)

    def _meta(self, owner: Any, name: str, mine: Mapping[str, str]) -> dict[str, Any]:
        return {"name": name, "labels": dict(mine), "ownerReferences": [_owner(owner)]}

    async def _hash(self, secret: str) -> str:
        data = await self.place.secret(secret)
        return hashlib.sha256(b"".join(data[key] for key in sorted(data))).hexdigest()

    async def _service(
        self,
        owner: Any,
        name: str,
        mine: Mapping[str, str],
        selector: Mapping[str, str],
        port: tuple[str, int],
        *,
        headless: bool = False,
    ) -> None:
        spec: dict[str, Any] = {
            "selector": dict(selector),
            "ports": [{"name": port[0], "port": port[1], "targetPort": port[0], "protocol": "TCP"}],
        }
        if headless:
            spec |= {"clusterIP": "None", "publishNotReadyAddresses": True}
        await self._post("/api/v1", "services", {"metadata": self._meta(owner, name, mine), "spec": spec})

    async def _data(
        self,
        plural: str,
        owner: Any,
        name: str,
        mine: Mapping[str, str],
        data: Mapping[str, str],
        *,
        immutable: bool = False,
    ) -> None:
        body = {"metadata": self._meta(owner, name, mine), "immutable": immutable, "data": dict(data)}
        await self._post("/api/v1", plural, body)

    def _template(self, mine: Mapping[str, str], spec: Mapping[str, Any], hashes: Mapping[str, str]) -> dict[str, Any]:
        annotations = {f"{GROUP}/{key}": value for key, value in hashes.items()}
        container = spec["containers"][0]["name"]
        annotations["kubectl.kubernetes.io/default-container"] = container
        return {"metadata": {"labels": dict(mine), "annotations": annotations}, "spec": dict(spec)}

    async def _stateful_set(
        self,
        owner: Any,
        name: str,
        mine: Mapping[str, str],
        spec: Mapping[str, Any],
        hashes: Mapping[str, str],
        service: str,
        claims: list[Any],
    ) -> None:
        selector = {"matchLabels": {key: mine[key] for key in list(mine)[:2]}}
        body = {"replicas": 1, "revisionHistoryLimit": 0, "serviceName": service, "selector": selector}
        if self.release == RELEASED or name.endswith("-accounting"):
            body["podManagementPolicy"] = "Parallel"
        whole = {**body, "template": self._template(mine, spec, hashes), "volumeClaimTemplates": claims}
        await self._workload("statefulsets", owner, name, mine, whole)

    async def _deployment(
        self, owner: Any, name: str, mine: Mapping[str, str], spec: Mapping[str, Any], hashes: Mapping[str, str]
    ) -> None:
        selector = {"matchLabels": {key: mine[key] for key in list(mine)[:2]}}
        body = {"replicas": 1, "revisionHistoryLimit": 0, "selector": selector}
        await self._workload("deployments", owner, name, mine, {**body, "template": self._template(mine, spec, hashes)})

    async def _workload(
        self, plural: str, owner: Any, name: str, mine: Mapping[str, str], spec: Mapping[str, Any]
    ) -> None:
        made = await self._post(
            "/apis/apps/v1", plural, {"metadata": self._meta(owner, name, mine), "spec": dict(spec)}
        )
        counts = dict.fromkeys(("replicas", "readyReplicas", "updatedReplicas", "availableReplicas"), 1)
        status = {"status": {**counts, "observedGeneration": made["metadata"]["generation"]}}
        path = f"/apis/apps/v1/namespaces/{self.place.namespace}/{plural}/{name}/status"
        await self.place.send("PATCH", path, status)


def _sorted(value: Mapping[str, Any]) -> dict[str, Any]:
    """As Go writes a map; an API server keeps the bytes of a revision."""
    made: dict[str, Any] = json.loads(json.dumps(value, sort_keys=True))
    return made


def _owner(owner: Any, *, controller: bool = True) -> dict[str, Any]:
    meta = owner["metadata"]
    result = {key: owner[key] for key in ("apiVersion", "kind")} | {"name": meta["name"], "uid": meta["uid"]}
    return {**result, "blockOwnerDeletion": True, **({"controller": True} if controller else {})}


def _selector(name: str, instance: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": name, "app.kubernetes.io/instance": instance}


def _sha(*texts: str) -> str:
    return hashlib.sha256("".join(texts).encode()).hexdigest()


def _user(number: int) -> dict[str, Any]:
    return {"runAsNonRoot": True, "runAsUser": number, "runAsGroup": number, "fsGroup": number}


def _daemon(name: str, port: int) -> dict[str, Any]:
    mount = {"name": "slurm-etc", "mountPath": "/etc/slurm", "readOnly": True}
    ports = [{"name": name, "containerPort": port, "protocol": "TCP"}]
    return {"name": name, "image": f"{IMAGES}/{name}:26.05-ubuntu26.04", "ports": ports, "volumeMounts": [mount]}


def _sidecar(name: str, command: str, image: str) -> dict[str, Any]:
    made = {"name": name, "image": f"{IMAGES}/{image}:26.05-ubuntu26.04", "restartPolicy": "Always"}
    return {**made, "command": [command, "-c", "while true; do sleep 1; done"]}


def _etc(mode: int, *files: str) -> dict[str, Any]:
    sources = [{"secret": {"name": "slurm-key", "items": [{"key": "slurm.key", "path": "slurm.key"}]}}]
    if "jwt.key" in files:
        sources.append({"secret": {"name": "jwt-key", "items": [{"key": "jwt.key", "path": "jwt.key"}]}})
    return {"name": "slurm-etc", "projected": {"defaultMode": mode, "sources": sources}}
