"""The keys that a Controller or Accounting needs when its daemon runs in this cluster.

In: the resource. Out: its key reference, or InvalidSpec with the missing field. Called by `build/controller.py` and
`build/accounting.py`.
"""

from __future__ import annotations

from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import SecretKeySelector
from slurm_operator.build.errors import InvalidSpec

_REQUIRED = "is required when external is false"


def slurm_key(cr: Controller | Accounting) -> SecretKeySelector:
    """The auth/slurm key."""
    if cr.spec.slurm_key_ref is None:
        raise InvalidSpec(("spec", "slurmKeyRef"), _REQUIRED)
    return cr.spec.slurm_key_ref


def jwt_key(cr: Controller | Accounting) -> SecretKeySelector:
    """The auth/jwt key."""
    if cr.jwt_key_ref is None:
        raise InvalidSpec(("spec", "jwtKeyRef"), _REQUIRED)
    return cr.jwt_key_ref
