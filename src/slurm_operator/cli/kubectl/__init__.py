"""`kubectl slurm`: the same program as a plugin of kubectl, for those who run clusters and those who ask why.

`main.py` puts the commands together out of `explain.py`, `nodes.py`, `partitions.py`, `config.py` and `pods.py`, which
are made with `command.py`; `gather.py` reads, `change.py` writes, `configuration.py` compares, `view.py` shows.
"""
