"""Who this program is to others: its name in events, on fields that it owns, in requests and in metrics.

In: nothing. Out: names. Used where the program is put together; the packages below it know none of them.
"""

from __future__ import annotations

from typing import Final

from slurm_operator import __version__

NAME: Final = "slurm-operator"
# Owns the fields that it applies. Never changes: whoever owned them before would keep them.
FIELD_MANAGER: Final = NAME
EVENT_CONTROLLER: Final = "slinky.slurm.net/slurm-operator"
USER_AGENT: Final = f"{NAME}/{__version__}"
METRIC_PREFIX: Final = "slurm_operator_"
