"""Reports: pure functions from a resource, the world and what was done to conditions and counts.

In: what was observed and done. Out: the status of a resource, complete from the first reconcile on. Called by the
reconcilers, last of all.
"""
