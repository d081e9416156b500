"""How the operator process is to run: flags, environment, files.

Made by `cli/main.py`; read by `cli/run.py`, `cli/webhook.py`, `cli/serving.py` and `reconcile/operator.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from slurm_operator.build import images


@dataclass(frozen=True, slots=True)
class Settings:
    """What can be set from outside."""

    kubeconfig: str = ""
    context: str = ""
    namespaces: tuple[str, ...] = ()
    leader_elect: bool = False
    leader_elect_namespace: str = ""
    # Host and port; port 0 turns a server off.
    health: tuple[str, int] = ("", 0)
    metrics: tuple[str, int] = ("", 0)
    metrics_secure: bool = False
    profile: tuple[str, int] = ("", 0)
    workers: dict[str, int] = field(default_factory=dict)
    cluster_domain: str = "cluster.local"
    # Types of Kubernetes node conditions whose words become the reason of a drain.
    propagated_node_conditions: tuple[str, ...] = ()
    # How far users' pod templates may reach; None is no bound.
    allowed_pod_features: frozenset[str] | None = frozenset()
    # The images that a privileged worker may run.
    worker_images: tuple[str, ...] = images.TRUSTED
    # How slurmrestd is reached; {service}, {namespace} and {port} are filled in.
    restapi_address: str = "http://{service}.{namespace}:{port}"

    def workers_of(self, kind: str) -> int:
        """How many resources of a kind are worked on at once."""
        return self.workers.get(kind.lower(), 4)


def cluster_domain(resolv_conf: str) -> str:
    """The cluster's DNS domain out of the search list that the kubelet wrote."""
    for line in resolv_conf.splitlines():
        fields = line.split()
        if fields[:1] == ["search"]:
            for domain in fields[1:]:
                if domain.startswith("svc."):
                    return domain.removeprefix("svc.").rstrip(".")
    return "cluster.local"
