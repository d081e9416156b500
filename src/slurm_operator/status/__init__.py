"""Reports: pure functions from a resource, the world and what was done to conditions and counts.

In: what was observed and done. Out: the status of a resource, complete on the first visit and ever after. Called by the
reconcilers, last of all.
"""
