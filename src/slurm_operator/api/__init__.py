"""The seven kinds of slinky.slurm.net/v1beta1 as typed, frozen, defaulted Structs.

In: a custom resource as decoded JSON. Out: a Struct that every later stage reads, and the CRDs in deploy/crds.
Each field's text here is the description that `kubectl explain` shows.
"""
