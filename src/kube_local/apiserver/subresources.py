"""The subresources with a body of their own: scale, eviction, binding and logs. Called by `handlers`.

Status is an ordinary update and lives in `writes`.
"""

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Mapping
from typing import Any

from . import deletion, errors, present, selectors
from .problems import FieldProblem
from .registry import Kind
from .request import Request, Response, Target, decode_body, json_response
from .schema import TypeSchema
from .state import State
from .store import Row
from .writes import Step, Writes, check_options, patch_document

Object = dict[str, Any]

_SCALE_PATCHES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    # A Scale has no lists, so a strategic patch is a merge patch.
    "application/strategic-merge-patch+json": "merge",
}


def _lookup(obj: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    value: Any = obj
    for part in path:
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def _require(state: State, target: Target) -> Row:
    row = state.store.get(target.kind.resource, target.namespace, target.name)
    if row is None:
        raise errors.not_found(target.kind.group, target.kind.plural, target.name)
    return row


# --- scale --------------------------------------------------------------------------------------------------------


def scale_of(kind: Kind, obj: Object) -> Object:
    """The Scale of an object."""
    paths = kind.scale
    if paths is None:
        raise errors.no_such_resource()
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: Object = {"replicas": _lookup(obj, paths.status) or 0}
    selector = _lookup(obj, paths.selector) if paths.selector else None
    if isinstance(selector, dict):
        selector = selectors.label_selector_text(selector)
    if selector:
        status["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: obj["metadata"][key] for key in kept if key in obj["metadata"]},
        # Go leaves a zero out here, and writes it in the status.
        "spec": {"replicas": _lookup(obj, paths.spec)} if _lookup(obj, paths.spec) else {},
        "status": status,
    }


def get_scale(state: State, target: Target) -> Response:
    """GET of a scale."""
    return json_response(scale_of(target.kind, _require(state, target).load()))


def change_scale(writes: Writes, request: Request, target: Target) -> Response:
    """PUT or PATCH of a scale."""
    check_options(request, "PatchOptions" if request.method == "PATCH" else "UpdateOptions")
    body = decode_body(request, expected="Scale")
    form = _SCALE_PATCHES.get(request.content_type) if request.method == "PATCH" else "put"
    if form is None:
        raise errors.unsupported_media_type(", ".join(_SCALE_PATCHES))
    step = Step(request, target)
    schema = writes.state.schema(target.kind)
    row = writes.change(step, lambda live: _scaled(target, form, live, body, schema))
    return json_response(scale_of(target.kind, present.to_version(target.kind, row.load())))


def _scaled(target: Target, form: str, live: Object, body: Any, schema: TypeSchema) -> Object:
    current = scale_of(target.kind, live)
    wanted = body if form == "put" else patch_document(form, current, body, schema)
    if not isinstance(wanted, dict) or not isinstance(wanted.get("spec") or {}, dict):
        raise errors.bad_request('Scale in version "v1" cannot be handled as a Scale: it is not an object')
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    _check_replicas(target, replicas)
    version = (wanted.get("metadata") or {}).get("resourceVersion") if form == "put" else None
    made = copy.deepcopy(live)
    _set(made, target.kind.scale.spec if target.kind.scale else (), replicas)
    made["metadata"]["resourceVersion"] = version or live["metadata"]["resourceVersion"]
    return made


def _check_replicas(target: Target, replicas: Any) -> None:
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise errors.bad_request(
            'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal into Go struct field '
            "ScaleSpec.spec.replicas of type int32"
        )
    # A custom kind is judged as a whole.
    if replicas < 0 and not target.kind.custom:
        problem = FieldProblem("spec.replicas", "Invalid", "must be greater than or equal to 0", replicas)
        raise errors.invalid("autoscaling", "Scale", target.name, [problem])


def _set(obj: Object, path: tuple[str, ...], value: Any) -> None:
    *way, last = path
    for part in way:
        obj = obj.setdefault(part, {})
    obj[last] = value


# --- pods ---------------------------------------------------------------------------------------------------------


def evict(state: State, request: Request, target: Target) -> Response:
    """POST of an Eviction: a delete that the disruption budgets must allow."""
    body = decode_body(request, expected="Eviction")
    body = body if isinstance(body, dict) else {}
    row = _require(state, target)
    options = deletion.parse_options(request.query, body.get("deleteOptions") or {})
    deletion.check_preconditions(target.kind, row, options)
    pod = row.load()
    dry = request.dry_run or "All" in ((body.get("deleteOptions") or {}).get("dryRun") or ())
    if not _is_free(pod):
        _spend_budget(state, pod, dry=dry)
    if not dry:
        fresh = _require(state, target)
        deletion.delete(state.store, target.kind, fresh, options, state.clock())
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def _is_free(pod: Object) -> bool:
    phase = (pod.get("status") or {}).get("phase")
    return phase in {"Succeeded", "Failed", "Pending"} or bool(pod["metadata"].get("deletionTimestamp"))


def _spend_budget(state: State, pod: Object, *, dry: bool) -> None:
    labels = pod["metadata"].get("labels") or {}
    rows = state.store.rows("poddisruptionbudgets.policy", pod["metadata"].get("namespace", ""))
    found = [row for row in rows if _covers(row.load(), labels)]
    if len(found) > 1:
        raise errors.ApiError(
            500, "", "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
        )
    if not found:
        return
    budget = found[0].load()
    status = budget.setdefault("status", {})
    if _may_go_unhealthy(budget, pod):
        return
    if int(status.get("observedGeneration") or 0) < int(budget["metadata"].get("generation") or 0):
        raise _not_now("The disruption budget {0} is still being processed by the server.", found[0].name)
    if int(status.get("disruptionsAllowed") or 0) <= 0:
        text = "The disruption budget {0} needs {1} healthy pods and has {2} currently"
        raise _not_now(text, found[0].name, status.get("desiredHealthy", 0), status.get("currentHealthy", 0))
    status["disruptionsAllowed"] -= 1
    status.setdefault("disruptedPods", {})[pod["metadata"]["name"]] = state.now()
    if not dry:
        state.store.put(found[0].resource, budget, found[0].revision)


def _may_go_unhealthy(budget: Object, pod: Object) -> bool:
    """Whether a pod that is not ready may go without spending: always, or while the healthy ones are enough."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    if any(one.get("type") == "Ready" and one.get("status") == "True" for one in conditions):
        return False
    if (budget.get("spec") or {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    desired = int(budget["status"].get("desiredHealthy") or 0)
    return 0 < desired <= int(budget["status"].get("currentHealthy") or 0)


def _covers(budget: Object, labels: Mapping[str, str]) -> bool:
    selector = (budget.get("spec") or {}).get("selector")
    return selector is not None and selectors.from_object(selector).matches(labels)


def _not_now(text: str, *values: Any) -> errors.ApiError:
    cause = {"reason": "DisruptionBudget", "message": text.format(*values)}
    message = "Cannot evict pod as it would violate the pod's disruption budget."
    return errors.too_many_requests(message, [cause])


def bind(state: State, request: Request, target: Target) -> Response:
    """POST of a Binding: the scheduler's word."""
    body = decode_body(request, expected="Binding")
    node = ((body.get("target") or {}) if isinstance(body, dict) else {}).get("name")
    if not node:
        problem = FieldProblem("target.name", "Required")
        raise errors.invalid("", "Binding", target.name, [problem])
    annotations = (body.get("metadata") or {}).get("annotations") or {}
    row = _require(state, target)
    pod = row.load()
    _check_unbound(pod, target)
    pod["spec"]["nodeName"] = node
    if annotations:
        pod["metadata"].setdefault("annotations", {}).update(annotations)
    _mark_scheduled(pod, state.now())
    if not request.dry_run:
        state.store.put(row.resource, pod, row.revision)
    return json_response({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}, 201)


def _check_unbound(pod: Object, target: Target) -> None:
    taken = pod["spec"].get("nodeName")
    why = f'pod {target.name} is already assigned to node "{taken}"' if taken else ""
    if pod["metadata"].get("deletionTimestamp"):
        why = f"pod {target.name} is being deleted, cannot be assigned to a host"
    if why:
        raise errors.conflict("", "pods/binding", target.name, why)


def _mark_scheduled(pod: Object, now: str) -> None:
    conditions = pod.setdefault("status", {}).setdefault("conditions", [])
    conditions[:] = [one for one in conditions if one.get("type") != "PodScheduled"]
    conditions.append({"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now})


async def logs(state: State, request: Request, target: Target) -> Response:
    """GET of a container's log, streamed by the node agent."""
    pod = _require(state, target).load()
    if state.pods is None:
        raise errors.ApiError(503, "ServiceUnavailable", "no node agent runs pods on this server, so there are no logs")
    names = [one["name"] for one in (pod.get("spec") or {}).get("containers") or ()]
    containers = names + [one["name"] for one in (pod.get("spec") or {}).get("initContainers") or ()]
    container = request.query.get("container")
    if container and container not in containers:
        raise errors.bad_request(f"container {container} is not valid for pod {target.name}")
    if not container and len(names) > 1:
        listed = " ".join(names)
        raise errors.bad_request(f"a container name must be specified for pod {target.name}, choose one of: [{listed}]")
    options = {**request.query, "container": container or names[0]}
    pieces = state.pods.logs(pod, options)
    first = await anext(pieces, b"")
    return Response(200, headers={"Content-Type": "text/plain"}, stream=_joined(first, pieces))


async def _joined(first: bytes, rest: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    if first:
        yield first
    async for piece in rest:
        yield piece
