"""REST v0.0.43, brought by Slurm 25.05: adds node topology, and reservations that can be changed."""

from __future__ import annotations

import msgspec

from slurm_operator.slurm.requests import Feature
from slurm_operator.slurm.versions import v0_0_42

ADAPTER = msgspec.structs.replace(
    v0_0_42.ADAPTER,
    version="v0.0.43",
    slurm="25.05",
    offers=v0_0_42.ADAPTER.offers | {Feature.TOPOLOGY, Feature.RESERVATIONS},
)
