"""What one REST version is: its path, what it offers, and where it behaves unlike the others. One value per version."""

from __future__ import annotations

import msgspec

from slurm_operator.slurm.errors import SlurmUnsupported
from slurm_operator.slurm.requests import Feature, Request


class Adapter(msgspec.Struct, frozen=True, kw_only=True):
    """One REST version.

    `ping_has_reason`: a controller that does not respond says why, so a refused token can be recognized.
    `ask_for_all_on`: error numbers that mean "ask again without update_time".
    """

    version: str
    slurm: str
    offers: frozenset[Feature] = frozenset()
    ping_has_reason: bool = False
    ask_for_all_on: frozenset[int] = frozenset()

    def path(self, request: Request) -> str:
        """The path on the server; refuses what this version does not have."""
        if request.needs is not None and request.needs not in self.offers:
            raise SlurmUnsupported(
                f"{request.needs.value} is not in REST {self.version}, the newest shared with this server",
                call=request.label,
            )
        return f"/slurm/{self.version}{request.path}"
