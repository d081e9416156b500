"""Rules for Accountings: names, keys, where slurmdbd and its database are. Called by `rules.check`."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_operator.admission.rules import fields
from slurm_operator.api import text
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.problem import FieldProblem, Path
from slurm_operator.build.refs import Refs

MAX_STATEFUL_SET_CHARACTERS = 52
STORAGE: Path = ("spec", "storageConfig")


def check(new: Accounting, old: Accounting | None, refs: Refs) -> Iterator[FieldProblem]:  # noqa: ARG001
    """Everything that is wrong with an Accounting."""
    yield from fields.name(new, "-accounting", MAX_STATEFUL_SET_CHARACTERS)
    yield from fields.daemon_keys(new)
    yield from fields.service(new.spec.service)
    yield from fields.checked(text.config_text, new.spec.extra_conf, ("spec", "extraConf"))
    yield from fields.jwt_immutable(new, old)
    yield from _storage(new)


def _storage(new: Accounting) -> Iterator[FieldProblem]:
    storage = new.spec.storage_config
    if storage is None:
        if not new.spec.external:
            yield FieldProblem(STORAGE, "storageConfig must be set when external is false")
        return
    yield from fields.checked(text.host, storage.host, (*STORAGE, "host"))
    yield from fields.checked(text.config_value, storage.database, (*STORAGE, "database"))
    yield from fields.checked(text.config_value, storage.username or None, (*STORAGE, "username"))
    yield from fields.key_ref(storage.password_key_ref, (*STORAGE, "passwordKeyRef"))
