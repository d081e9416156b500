"""REST v0.0.44, brought by Slurm 25.11: what we call is as before."""

from __future__ import annotations

import msgspec

from slurm_operator.slurm.versions import v0_0_43

ADAPTER = msgspec.structs.replace(v0_0_43.ADAPTER, version="v0.0.44", slurm="25.11")
