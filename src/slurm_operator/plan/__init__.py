"""Decisions: pure functions from a resource and a frozen world to an ordered list of actions.

In: what was observed. Out: actions as data, which can be printed, compared, dry-run and cut at any index. Called by the
reconcilers; carried out by `reconcile/execute.py` alone.
"""
