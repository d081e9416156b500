"""Accounting: slurmdbd and the database that it writes to.

Read by `build/accounting.py`, and by `build/slurm_conf.py` for the accounting lines of slurm.conf.
"""

from typing import Annotated

from slurm_operator.api.controller import EXTERNAL_RULE, JWT_KEY_RULE, SLURM_KEY_RULE
from slurm_operator.api.meta import (
    ATOMIC,
    MAX_FILE_BYTES,
    Conditions,
    ConfigMapKeySelector,
    Container,
    ExternalConfig,
    ObservedGeneration,
    Part,
    PodTemplate,
    Port,
    Resource,
    SecretKeySelector,
    ServiceTemplate,
    doc,
)


class StorageConfig(Part, frozen=True, kw_only=True):
    """The MySQL or MariaDB database."""

    host: Annotated[str, doc("Host name or address of the database server.")]
    password_key_ref: Annotated[SecretKeySelector, doc("The database user's password.", **ATOMIC)]
    port: Annotated[Port, doc("TCP port of the database server.")] = 3306
    database: Annotated[str, doc("Name of the database.")] = "slurm_acct_db"
    username: Annotated[str | None, doc("Database user.")] = None


class AccountingSpec(Part, frozen=True, kw_only=True):
    """Desired state of slurmdbd."""

    slurm_key_ref: Annotated[SecretKeySelector | None, doc("The auth/slurm key.", **ATOMIC)] = None
    jwt_hs256_key_ref: Annotated[
        SecretKeySelector | None, doc("Older name of jwtKeyRef, which wins when both are set.", **ATOMIC)
    ] = None
    jwt_key_ref: Annotated[SecretKeySelector | None, doc("The auth/jwt HS256 key.", **ATOMIC)] = None
    jwks_key_ref: Annotated[ConfigMapKeySelector | None, doc("A JWKS file for auth/jwt.", **ATOMIC)] = None
    external: Annotated[bool, doc("slurmdbd runs outside Kubernetes, at externalConfig.")] = False
    external_config: Annotated[ExternalConfig | None, doc("Where the external slurmdbd listens.")] = None
    slurmdbd: Annotated[Container, doc("Container that is merged over slurmdbd's own.")] = {}
    template: Annotated[PodTemplate, doc("Overlay of the pods.")] = PodTemplate()
    storage_config: Annotated[StorageConfig | None, doc("The database.")] = None
    extra_conf: Annotated[str | None, doc("Lines that are added to slurmdbd.conf.", maxLength=MAX_FILE_BYTES)] = None
    service: Annotated[ServiceTemplate, doc("Overlay of the Service.")] = ServiceTemplate()


class AccountingStatus(Part, frozen=True, kw_only=True):
    """What is true of slurmdbd."""

    observed_generation: ObservedGeneration = None
    conditions: Conditions = ()


class Accounting(Resource, frozen=True, kw_only=True, tag_field="kind", tag="Accounting"):
    """Slurm accounting: slurmdbd and its database."""

    spec: Annotated[
        AccountingSpec,
        doc(
            "Desired state of slurmdbd.",
            x_kubernetes_validations=[SLURM_KEY_RULE, JWT_KEY_RULE, EXTERNAL_RULE],
        ),
    ] = AccountingSpec()
    status: Annotated[AccountingStatus, doc("Observed state.")] = AccountingStatus()

    @property
    def jwt_key_ref(self) -> SecretKeySelector | None:
        """The JWT key reference in force."""
        return self.spec.jwt_key_ref or self.spec.jwt_hs256_key_ref
