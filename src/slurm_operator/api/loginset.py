"""LoginSet: pods that people log in to by ssh, with Slurm's commands.

Read by `build/loginset.py`.
"""

from typing import Annotated

from slurm_operator.api.controller import IntOrString
from slurm_operator.api.meta import (
    ATOMIC,
    MAX_FILE_BYTES,
    Conditions,
    Container,
    ControllerRef,
    Count,
    ObservedGeneration,
    Part,
    PodTemplate,
    Resource,
    SecretKeySelector,
    ServiceTemplate,
    doc,
)


class RollingUpdate(Part, frozen=True, kw_only=True):
    """Bounds of a rolling update of a Deployment."""

    max_surge: Annotated[IntOrString | None, doc("How many pods above the desired number.")] = None
    max_unavailable: Annotated[IntOrString | None, doc("How many pods below the desired number.")] = None


class Strategy(Part, frozen=True, kw_only=True):
    """How a Deployment replaces its pods."""

    type: Annotated[str | None, doc("Recreate or RollingUpdate.")] = None
    rolling_update: Annotated[RollingUpdate | None, doc("Bounds of a rolling update.")] = None


class LoginSetSpec(Part, frozen=True, kw_only=True):
    """Desired state of the login pods."""

    controller_ref: Annotated[ControllerRef, doc("The Controller that they belong to.", **ATOMIC)]
    sssd_conf_ref: Annotated[SecretKeySelector, doc("The sssd.conf to use.", **ATOMIC)]
    replicas: Annotated[Count, doc("How many pods.")] = 1
    login: Annotated[Container, doc("Container that is merged over the login container.")] = {}
    initconf: Annotated[Container, doc("Container that is merged over the initconf container.")] = {}
    template: Annotated[PodTemplate, doc("Overlay of the pods.")] = PodTemplate()
    root_ssh_authorized_keys: Annotated[
        str | None, doc("Public keys that may log in as root.", maxLength=MAX_FILE_BYTES)
    ] = None
    extra_sshd_config: Annotated[str | None, doc("Lines that are added to sshd_config.", maxLength=MAX_FILE_BYTES)] = (
        None
    )
    strategy: Annotated[Strategy | None, doc("How the Deployment replaces its pods.")] = None
    service: Annotated[ServiceTemplate, doc("Overlay of the Service.")] = ServiceTemplate()


class LoginSetStatus(Part, frozen=True, kw_only=True):
    """What is true of the login pods."""

    observed_generation: ObservedGeneration = None
    replicas: Annotated[Count, doc("How many pods there are.")] = 0
    ready_replicas: Annotated[Count | None, doc("How many of them are ready.")] = None
    conditions: Conditions = ()
    selector: Annotated[str, doc("Label selector of the pods, for the scale subresource.", x_required=True)] = ""


class LoginSet(Resource, frozen=True, kw_only=True, tag_field="kind", tag="LoginSet"):
    """Login pods with sshd, sssd and Slurm's commands."""

    spec: Annotated[LoginSetSpec, doc("Desired state of the login pods.")]
    status: Annotated[LoginSetStatus, doc("Observed state.")] = LoginSetStatus()
