"""REST v0.0.42, brought by Slurm 24.11: nodes and jobs can be changed; partitions and reservations only read."""

from __future__ import annotations

from slurm_operator.slurm.errors import ASK_FOR_ALL
from slurm_operator.slurm.versions.adapter import Adapter

# 24.11 fails with -1 when nodes changed but partitions did not.
ADAPTER = Adapter(version="v0.0.42", slurm="24.11", ask_for_all_on=frozenset({ASK_FOR_ALL}))
