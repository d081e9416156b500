"""Desired objects: pure functions from a custom resource and what it refers to, to Kubernetes objects.

In: a typed resource and `Refs`. Out: plain mappings, ready for server-side apply, and configuration text. Called by
`plan`, by the reconcilers and by `slurm-operator render`. No I/O, clock, randomness or environment in here.
"""
