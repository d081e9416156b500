"""`kubectl slurm`: the same program as a plugin of kubectl, for those who run clusters and those who ask why.

`main.py` has the commands, `gather.py` reads, `change.py` writes, `view.py` shows.
"""
