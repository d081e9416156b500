"""REST v0.0.45, brought by Slurm 26.05: adds live partitions and the running configuration; pings say why."""

from __future__ import annotations

import msgspec

from slurm_operator.slurm.requests import Feature
from slurm_operator.slurm.versions import v0_0_44

ADAPTER = msgspec.structs.replace(
    v0_0_44.ADAPTER,
    version="v0.0.45",
    slurm="26.05",
    offers=v0_0_44.ADAPTER.offers | {Feature.PARTITIONS, Feature.CONF},
    ping_has_reason=True,
)
