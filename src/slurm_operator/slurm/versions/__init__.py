"""The REST versions that this program speaks, newest first. `client.py` takes the first that the server has too."""

from __future__ import annotations

from slurm_operator.slurm.versions import v0_0_42, v0_0_43, v0_0_44, v0_0_45
from slurm_operator.slurm.versions.adapter import Adapter

NEWEST_FIRST: tuple[Adapter, ...] = (v0_0_45.ADAPTER, v0_0_44.ADAPTER, v0_0_43.ADAPTER, v0_0_42.ADAPTER)

__all__ = ["NEWEST_FIRST", "Adapter"]
