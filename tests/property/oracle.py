"""What must hold for any resource: it is refused with a path, or built into valid objects and a readable slurm.conf.

In: a resource as decoded JSON, and the namespace around it. Out: nothing, or an AssertionError that says what broke.
"""

from __future__ import annotations

import dataclasses
import json
from functools import cache
from pathlib import Path
from typing import Any

import kubernetes_validate
from jsonschema.validators import Draft202012Validator
from referencing import Registry, Resource

from slurm_operator.admission import rules
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import Resource as CustomResource
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.partition import Partition
from slurm_operator.api.problem import FieldProblem, errors
from slurm_operator.api.token import Token
from slurm_operator.api.validate import decode
from slurm_operator.build import accounting, controller, loginset, nodeset, restapi, token
from slurm_operator.build.errors import MissingReference
from slurm_operator.build.nodeset import WorkerIdentity
from slurm_operator.build.refs import Refs
from slurm_operator.build.slurm_conf import extra_conf, slurm_conf
from slurm_operator.slurm import conf

SCHEMAS = Path(kubernetes_validate.__file__).parent / "kubernetes-json-schema/v1.37.0-local-strict"
BUILDERS: dict[str, Any] = {
    "Controller": controller.objects,
    "Accounting": accounting.objects,
    "RestApi": restapi.objects,
    "LoginSet": loginset.objects,
}


@cache
def validator(kind: str, api_version: str) -> Draft202012Validator:
    """Kubernetes' own schema of a kind, strict."""
    group, _, version = api_version.rpartition("/")
    file = f"{kind.lower()}-{group.partition('.')[0] + '-' if group else ''}{version}.json"
    schema = json.loads((SCHEMAS / file).read_text())
    registry: Registry[Any] = Resource.from_contents(schema) @ Registry()
    return Draft202012Validator(schema, registry=_definitions() @ registry)


@cache
def _definitions() -> Resource[Any]:
    return Resource.from_contents(json.loads((SCHEMAS / "_definitions.json").read_text()))


def assert_valid(built: dict[str, Any]) -> None:
    """The object is one that Kubernetes takes; ServiceMonitors are not Kubernetes' own."""
    json.dumps(built)
    if built["kind"] != "ServiceMonitor":
        found = next(validator(built["kind"], built["apiVersion"]).iter_errors(built), None)
        assert found is None, f"{built['kind']} {built['metadata']['name']}: {found.json_path}: {found.message}"


def assert_said(problems: list[FieldProblem]) -> None:
    """Each problem names a place and says something."""
    for problem in problems:
        assert problem.path, problem
        assert problem.message, problem
        assert "\n" not in str(problem), problem


def judge(raw: dict[str, Any], refs: Refs) -> str:
    """Hold a resource against every promise; the answer is what became of it."""
    decoded = decode(raw)
    assert_said(list(decoded.problems))
    if decoded.resource is None:
        assert errors(decoded.problems)
        return "malformed"
    world = with_resource(refs, decoded.resource)
    found = rules.check(decoded.resource, None, world)
    assert_said(found)
    if errors(found):
        return "refused"
    return _built(decoded.resource, world)


def with_resource(refs: Refs, new: CustomResource) -> Refs:
    """The namespace with the resource in it."""
    if isinstance(new, Controller):
        return dataclasses.replace(refs, controllers={**refs.controllers, new.name: new})
    if isinstance(new, NodeSet):
        return dataclasses.replace(refs, nodesets=(*refs.nodesets, new))
    if isinstance(new, Partition):
        return dataclasses.replace(refs, partitions=(*refs.partitions, new))
    return refs


def _built(cr: CustomResource, refs: Refs) -> str:
    try:
        built = objects(cr, refs)
    except MissingReference as missing:
        assert_said([missing.problem])
        return "waiting"
    for each in built:
        assert_valid(each)
    for owner in refs.controllers.values():
        assert_readable(owner, refs)
    return "built"


def objects(cr: CustomResource, refs: Refs) -> list[dict[str, Any]]:
    """Everything that a resource becomes."""
    if isinstance(cr, NodeSet):
        built: list[dict[str, Any]] = nodeset.objects(cr, refs, [WorkerIdentity(node="k8s-1.example")])
        owner = refs.controllers[cr.spec.controller_ref.name]
        return [*built, *nodeset.shared_objects(owner, refs)]
    if isinstance(cr, Token):
        token.username(cr), token.lifetime(cr)
        return [token.secret(cr, "jwt")]
    if isinstance(cr, Partition):
        refs.controller(cr.namespace, cr.spec.controller_ref)
        return []
    made: list[dict[str, Any]] = BUILDERS[type(cr).__name__](cr, refs)
    return made


def assert_readable(cr: Controller, refs: Refs) -> None:
    """slurm.conf reads back as it was written; only the user's own lines may be wrong."""
    try:
        text = slurm_conf(cr, refs).text
    except MissingReference:
        return
    lines = text.split("\n")
    extra = [] if cr.spec.external else extra_conf(cr.spec.extra_conf).split("\n")
    start = lines.index("### EXTRA CONFIG ###") + 1 if any(extra) else len(lines)
    own = {number for number in range(1, len(lines) + 1) if not start < number <= start + len(extra)}
    written = [lines[number - 1].partition("=")[0] for number in sorted(own) if _is_pair(lines[number - 1])]
    document = conf.parse(text)
    assert [entry.key for entry in document.entries if entry.line in own] == written
    assert [finding for finding in document.findings if finding.line in own] == []


def _is_pair(line: str) -> bool:
    return bool(line) and not line.startswith("#")
