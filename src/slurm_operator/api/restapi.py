"""RestApi: slurmrestd, the way in for programs.

Read by `build/restapi.py`.
"""

from typing import Annotated

from slurm_operator.api.meta import (
    ATOMIC,
    Conditions,
    Container,
    ControllerRef,
    Count,
    ObservedGeneration,
    Part,
    PodTemplate,
    Resource,
    ServiceTemplate,
    doc,
)


class RestApiSpec(Part, frozen=True, kw_only=True):
    """Desired state of slurmrestd."""

    controller_ref: Annotated[ControllerRef, doc("The Controller that it serves.", **ATOMIC)]
    replicas: Annotated[Count, doc("How many pods.")] = 1
    slurmrestd: Annotated[Container, doc("Container that is merged over slurmrestd's own.")] = {}
    template: Annotated[PodTemplate, doc("Overlay of the pods.")] = PodTemplate()
    service: Annotated[ServiceTemplate, doc("Overlay of the Service.")] = ServiceTemplate()


class RestApiStatus(Part, frozen=True, kw_only=True):
    """What is true of slurmrestd."""

    observed_generation: ObservedGeneration = None
    replicas: Annotated[Count | None, doc("How many pods there are.")] = None
    ready_replicas: Annotated[Count | None, doc("How many of them are ready.")] = None
    conditions: Conditions = ()


class RestApi(Resource, frozen=True, kw_only=True, tag_field="kind", tag="RestApi"):
    """Slurm's REST API: slurmrestd."""

    spec: Annotated[RestApiSpec, doc("Desired state of slurmrestd.")]
    status: Annotated[RestApiStatus, doc("Observed state.")] = RestApiStatus()
