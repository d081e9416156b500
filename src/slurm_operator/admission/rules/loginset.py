"""Rules for LoginSets: names, references, the ssh configuration, the strategy. Called by `rules.check`."""

from __future__ import annotations

from collections.abc import Iterator

from slurm_operator.admission.rules import fields
from slurm_operator.api import text
from slurm_operator.api.loginset import LoginSet
from slurm_operator.api.problem import FieldProblem
from slurm_operator.build.refs import Refs


def check(new: LoginSet, old: LoginSet | None, refs: Refs) -> Iterator[FieldProblem]:  # noqa: ARG001
    """Everything that is wrong with a LoginSet."""
    yield from fields.name(new)
    yield from fields.controller_ref(new, old)
    yield from fields.key_ref(new.spec.sssd_conf_ref, ("spec", "sssdConfRef"))
    yield from fields.service(new.spec.service)
    yield from fields.checked(text.config_text, new.spec.root_ssh_authorized_keys, ("spec", "rootSshAuthorizedKeys"))
    yield from fields.checked(text.config_text, new.spec.extra_sshd_config, ("spec", "extraSshdConfig"))
    if new.spec.strategy and new.spec.strategy.type not in (None, "Recreate", "RollingUpdate"):
        yield FieldProblem(("spec", "strategy", "type"), "must be Recreate or RollingUpdate")
