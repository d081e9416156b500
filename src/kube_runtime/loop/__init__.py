"""The loop: what runs the reconcilers, whatever they reconcile.

In come names of changed objects (`watches`), out go calls of a reconcile function (`controller`), one at a
time for each name, with backoff, limits and a clock that a test can hold in its hand. `run` puts the parts
together. Nothing in this package knows Slurm, a kind, or how the API server is reached.
"""
