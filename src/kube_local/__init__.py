"""A Kubernetes for one machine: API server, controllers, scheduler, DNS and node agent. Knows no Slurm.

README.md has the map. Held to the real kube-apiserver by the differential campaign in tests/real/kube/differential.
"""

__version__ = "0.1.0.dev0"
