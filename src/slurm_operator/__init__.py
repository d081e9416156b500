"""slurm-operator: Slurm on Kubernetes.

A custom resource is admitted, built into desired objects, planned against what is there, applied through
`kube`, checked with `slurm`, and reported as `status`. The packages below stand in that order.
"""

__version__ = "0.1.0.dev0"
