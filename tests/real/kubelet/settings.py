"""What the programs of a real node are told: files and command lines. Pure.

In: a `Plan` (folder, addresses, tokens). Out: the content of each settings file and the arguments of each program.
`machine.py` writes and starts them. All ports are the usual ones: the machine has a network of its own.
"""

from __future__ import annotations

import ipaddress
import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from tests.real.kube import cluster, tools

NODE = "node"
DOMAIN = "cluster.local"
SERVICES = ipaddress.IPv4Network("10.96.0.0/16")
PAUSE = "slurm-operator.test/pause:1"
API_PORT, ETCD_PORT, ETCD_PEER_PORT = 6443, 2379, 2380
VOLUMES = 4


@dataclass(frozen=True, slots=True)
class Plan:
    """One machine: where its files lie, its range of addresses, and who may say what to its API server."""

    folder: Path
    debian: Path
    subnet: ipaddress.IPv4Network
    admin: str
    kubelet: str
    proxy: str

    @property
    def host(self) -> ipaddress.IPv4Address:
        """The test's end of the link."""
        return self.subnet[1]

    @property
    def node(self) -> ipaddress.IPv4Address:
        """The machine's end of it."""
        return self.subnet[2]

    @property
    def link(self) -> ipaddress.IPv4Network:
        """The addresses of the link."""
        return next(self.subnet.subnets(new_prefix=24))

    @property
    def pods(self) -> ipaddress.IPv4Network:
        """The addresses of pods: the upper half."""
        return list(self.subnet.subnets(prefixlen_diff=1))[1]

    @property
    def url(self) -> str:
        """Where the API server listens."""
        return f"https://{self.node}:{API_PORT}"

    def kubeconfig(self, name: str) -> Path:
        """How one of the programs reaches the API server."""
        return self.folder / f"{name}.kubeconfig"


def tokens(plan: Plan) -> str:
    """Who is who for the API server; the kubelet may do what a kubelet may, no more."""
    return (
        f'{plan.admin},admin,admin,"system:masters"\n'
        f'{plan.kubelet},system:node:{NODE},kubelet,"system:nodes"\n'
        f"{plan.proxy},system:kube-proxy,kube-proxy\n"
    )


def api_server(plan: Plan) -> list[str]:
    """As in the tests of the control plane alone, and with a way to the kubelet and for pods."""
    more = [
        "--bind-address=0.0.0.0",
        f"--advertise-address={plan.node}",
        "--endpoint-reconciler-type=lease",
        f"--kubelet-client-certificate={plan.folder / 'kubelet-client.crt'}",
        f"--kubelet-client-key={plan.folder / 'kubelet-client.key'}",
        "--kubelet-preferred-address-types=InternalIP",
        "--enable-admission-plugins=NodeRestriction",
    ]
    return cluster.apiserver_arguments(plan.folder, API_PORT, ETCD_PORT, "Node,RBAC", more)


def controllers(plan: Plan) -> list[str]:
    """Pods trust the CA that it hands out."""
    shared = cluster.client_arguments(plan.folder, plan.kubeconfig("admin"))
    return cluster.controller_arguments(plan.folder, shared, [f"--root-ca-file={plan.folder / 'ca.crt'}"])


def kubelet(plan: Plan) -> dict[str, Any]:
    """Everything as by default but for what this machine cannot: raise priorities, or be sure of room on the disk."""
    nothing = dict.fromkeys(("memory.available", "nodefs.available", "nodefs.inodesFree", "imagefs.available"), "0%")
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": str(plan.node),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(plan.folder / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "cgroupDriver": "cgroupfs",
        "failCgroupV1": False,
        "clusterDNS": [str(plan.node)],
        "clusterDomain": DOMAIN,
        "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
        "failSwapOn": False,
        "evictionHard": nothing,
        "imageGCHighThresholdPercent": 100,
        "oomScoreAdj": 0,
        "resolvConf": str(plan.folder / "resolv.conf"),
    }


def kube_proxy(plan: Plan) -> dict[str, Any]:
    """nftables; the table of connections is the kernel's, so its size is left alone."""
    untouched = {"maxPerCore": 0, "min": 0, "tcpCloseWaitTimeout": "0s", "tcpEstablishedTimeout": "0s"}
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "nftables",
        "clientConnection": {"kubeconfig": str(plan.kubeconfig("kube-proxy"))},
        "clusterCIDR": str(plan.pods),
        "hostnameOverride": NODE,
        "conntrack": untouched,
        "oomScoreAdj": 0,
    }


def containerd(plan: Plan) -> str:
    """The runtime: its CNI plugins, its pause image, and no priorities that this machine may not give."""
    return f"""\
version = 3
[plugins.'io.containerd.cri.v1.images']
  snapshotter = 'overlayfs'
  [plugins.'io.containerd.cri.v1.images'.pinned_images]
    sandbox = '{PAUSE}'
[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  [plugins.'io.containerd.cri.v1.runtime'.cni]
    bin_dirs = ['{plan.debian}/usr/lib/cni']
    conf_dir = '{plan.folder}/cni'
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
    runtime_type = 'io.containerd.runc.v2'
"""


def cni(plan: Plan) -> dict[str, Any]:
    """One link for each pod; all that leaves a pod is routed by the machine."""
    addresses = {"type": "host-local", "ranges": [[{"subnet": str(plan.pods)}]], "routes": [{"dst": "0.0.0.0/0"}]}
    return {
        "cniVersion": "1.0.0",
        "name": "pods",
        "plugins": [{"type": "ptp", "ipMasq": False, "ipam": addresses}],
    }


def scripts(plan: Plan, python: list[str], archives: list[Path]) -> dict[str, str]:
    """One shell script for each program that `boot.sh` may be asked to start."""
    debian = plan.debian / "usr" / "bin"
    commands: dict[str, list[str]] = {
        "etcd": [str(tools.tool("etcd")), *cluster.etcd_arguments(plan.folder, ETCD_PORT, ETCD_PEER_PORT)],
        "kube-apiserver": [str(tools.tool("kube-apiserver")), *api_server(plan)],
        "kube-controller-manager": [str(tools.tool("kube-controller-manager")), *controllers(plan)],
        "kube-scheduler": [
            str(tools.tool("kube-scheduler")),
            *cluster.client_arguments(plan.folder, plan.kubeconfig("admin")),
        ],
        "containerd": [str(debian / "containerd"), f"--config={plan.folder / 'containerd.toml'}"],
        "kubelet": [
            str(tools.tool("kubelet")),
            f"--config={plan.folder / 'kubelet.yaml'}",
            f"--kubeconfig={plan.kubeconfig('kubelet')}",
            f"--hostname-override={NODE}",
            f"--node-ip={plan.node}",
        ],
        "kube-proxy": [str(tools.tool("kube-proxy")), f"--config={plan.folder / 'kube-proxy.yaml'}"],
        "dns": [*python, "-m", "tests.real.kubelet.names", str(plan.kubeconfig("admin")), str(plan.node)],
    }
    path = f"export PATH={plan.debian}:{debian}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n"
    written = {name: f"{path}exec {shlex.join(command)}\n" for name, command in commands.items()}
    return {**written, "images": f"{path}{_imports(archives)}"}


def _imports(archives: list[Path]) -> str:
    lines = [f"ctr -n k8s.io images import {shlex.quote(str(each))} || exit\n" for each in archives]
    return "".join(["until ctr version >/dev/null 2>&1; do sleep 0.1; done\n", *lines])


def objects() -> list[dict[str, Any]]:
    """What a cluster's administrator brings: a default storage class, and volumes for it."""
    default = {"storageclass.kubernetes.io/is-default-class": "true"}
    kind = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "local", "annotations": default},
        "provisioner": "kubernetes.io/no-provisioner",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    return [kind, *(volume(number) for number in range(VOLUMES))]


def volume(number: int) -> dict[str, Any]:
    """A folder of the machine; of a kind that heeds fsGroup, which hostPath does not."""
    here = [{"key": "kubernetes.io/hostname", "operator": "In", "values": [NODE]}]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": f"volume-{number}"},
        "spec": {
            "storageClassName": "local",
            "capacity": {"storage": "8Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": f"/var/lib/volumes/{number}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": here}]}},
        },
    }


def files(plan: Plan) -> dict[str, str]:
    """Every settings file by its name in the folder."""
    return {
        "tokens.csv": tokens(plan),
        "kubelet.yaml": yaml.safe_dump(kubelet(plan)),
        "kube-proxy.yaml": yaml.safe_dump(kube_proxy(plan)),
        "containerd.toml": containerd(plan),
        "cni/pods.conflist": json.dumps(cni(plan)),
        "resolv.conf": "",
    }
