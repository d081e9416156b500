"""The reconcile of each kind: observe, plan, execute, report.

In: the name of a resource. Out: writes, through `execute.py` alone. Each kind's module fits on a screen: everything is
read first, decided once, done in order, and said last.
"""
