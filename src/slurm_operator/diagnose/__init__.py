"""Why something is not as it should be: pure functions from what was gathered to a cause, a sentence and a command.

Filled by `cli/kubectl/gather.py`; asked by `kubectl slurm why`, `doctor` and `status`.
"""
