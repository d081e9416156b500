"""Create, update, patch and delete: decode, decide, check, commit.

    body -> decode -> strategy (what the server decides) -> managedFields -> validation -> store

Nothing here waits, so what is read is still so when it is written. `handlers` calls the four verbs; `subresources`
builds its own steps on `change`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kube_runtime.strategic_merge import MergeConflict

from . import addresses, crds, deletion, errors, names, present, protobuf, rules
from .apply import ApplyConflict, ApplyInvalid, ManagedFieldsInPatch, apply_patch, track_update
from .decode import check_identity, check_place, complete, normalize, read_object
from .patch import PatchFailed, PatchMalformed, json_patch, merge_patch
from .problems import BLOCKING, ROOT, FieldProblem
from .registry import Kind
from .request import Request, Response, Target, decode_body, encode, json_response
from .scale_owners import owners_after_scaling
from .schema import TypeSchema
from .state import State
from .store import Changed, Row, make_row
from .strategic import strategic_merge
from .strategy import CRD_RESOURCE, STATUS_ON_CREATE, prepare_create, prepare_update

Object = dict[str, Any]
Build = Callable[[Object], Object]

APPLY_TYPE = "application/apply-patch+yaml"
_PATCH_TYPES = {
    "application/json-patch+json": "json",
    "application/merge-patch+json": "merge",
    "application/strategic-merge-patch+json": "strategic",
    APPLY_TYPE: "apply",
}
_FIELD_VALIDATION = ("", "Ignore", "Strict", "Warn")
_ATTEMPTS_AT_NAMES = 8
_NO_UNCONDITIONAL_UPDATE = frozenset(
    {
        "leases.coordination.k8s.io",
        "poddisruptionbudgets.policy",
        CRD_RESOURCE,
        "validatingwebhookconfigurations.admissionregistration.k8s.io",
    }
)
_CREATE_ON_UPDATE = frozenset(
    {"events", "services", "leases.coordination.k8s.io"}
    | {f"{name}.rbac.authorization.k8s.io" for name in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")}
)
_RETURNS_DELETED = frozenset(
    {
        "persistentvolumes",
        "persistentvolumeclaims",
        "pods",
        "serviceaccounts",
        "services",
    }
)


@dataclass(frozen=True, slots=True)
class Step:
    """One write on its way: who asks, and for what."""

    request: Request
    target: Target

    @property
    def kind(self) -> Kind:
        """The kind that is written."""
        return self.target.kind


class Writes:
    """The verbs that change something."""

    def __init__(self, state: State) -> None:
        self.state = state

    # --- create -------------------------------------------------------------------------------------------------

    def create(self, request: Request, target: Target) -> Response:
        """POST on a collection."""
        check_options(request, "CreateOptions")
        step = Step(request, target)
        obj = read_object(self.state, request, target)
        row = self.store_new(step, obj, track=True)
        return self._answer(step, row, 201)

    def store_new(self, step: Step, obj: Object, *, track: bool) -> Row:
        """Checks and stores an object that does not exist yet."""
        self._check_namespace(step)
        generated = not obj["metadata"].get("name") and bool(obj["metadata"].get("generateName"))
        versioned = step.request.method == "POST" and bool(obj["metadata"].get("resourceVersion"))
        attempts = _ATTEMPTS_AT_NAMES if generated else 1
        while True:
            attempts -= 1
            made = self._prepare_new(step, copy.deepcopy(obj), track=track)
            if versioned and not step.request.dry_run:
                raise errors.ApiError(500, "", "resourceVersion should not be set on objects to be created")
            if step.request.dry_run:
                return self._dry_create(step, made, obj["metadata"].get("resourceVersion", ""))
            try:
                return self.state.store.put(step.kind.resource, present.to_stored(step.kind, made), expected=0)
            except Changed:
                if attempts <= 0:
                    raise self._taken(step, made["metadata"]["name"]) from None

    def _prepare_new(self, step: Step, obj: Object, *, track: bool) -> Object:
        kind = step.kind
        self._identify(obj["metadata"])
        self._dedupe_owners(step, obj["metadata"])
        # Fields belong to whoever sent them: the server's own additions are nobody's.
        if track:
            status = obj.get("status") if kind.resource in STATUS_ON_CREATE else None
            obj = self._tracked(step, None, _own_part(step, obj))
            obj |= {"status": status} if status is not None else {}
        prepare_create(kind, obj)
        addresses.allocate(self.state, kind, obj)
        if kind.resource == CRD_RESOURCE:
            crds.establish(obj, self.state.now())
        self._validate(step, obj, None)
        return obj

    def _identify(self, metadata: Object) -> None:
        for key in ("resourceVersion", "deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"):
            metadata.pop(key, None)
        if not metadata.get("name") and metadata.get("generateName"):
            base = metadata["generateName"][: names.GENERATED_BASE_LIMIT]
            metadata["name"] = f"{base}{self.state.new_suffix()}"
        metadata["uid"] = self.state.new_uid()
        metadata["creationTimestamp"] = self.state.now()

    def _check_namespace(self, step: Step) -> None:
        namespace = step.target.namespace
        if not namespace:
            return
        row = self.state.store.get("namespaces", "", namespace)
        if row is None:
            raise errors.not_found("", "namespaces", namespace)
        if row.load()["metadata"].get("deletionTimestamp"):
            why = f"unable to create new content in namespace {namespace} because it is being terminated"
            cause = {
                "reason": "NamespaceTerminating",
                "message": f"namespace {namespace} is being terminated",
                "field": "metadata.namespace",
            }
            raise errors.forbidden(step.kind.group, step.kind.plural, step.target.name, why, [cause])

    # --- update and patch ---------------------------------------------------------------------------------------

    def update(self, request: Request, target: Target) -> Response:
        """PUT on an object, or on its status."""
        check_options(request, "UpdateOptions")
        step = Step(request, target)
        sent = read_object(self.state, request, target)
        if self._find(target) is None and target.kind.resource in _CREATE_ON_UPDATE:
            if sent["metadata"].get("uid"):
                raise _other_uid(target, sent["metadata"]["uid"], "")
            _refuse_status_of_nothing(target, sent)
            _check_number(sent["metadata"].get("resourceVersion"))
            row = self.store_new(step, sent, track=True)
            return self._answer(step, row, 201)
        row = self.change(step, lambda _: sent)
        return self._answer(step, row, 200)

    def patch(self, request: Request, target: Target) -> Response:
        """PATCH with one of the four kinds of patches."""
        form = _PATCH_TYPES.get(request.content_type)
        if form is None and not target.kind.custom:
            raise errors.ApiError(415, "UnsupportedMediaType", "415: Unsupported Media Type", details={})
        if form is None or (form == "strategic" and target.kind.custom):
            known = [one for one in _PATCH_TYPES if not (target.kind.custom and "strategic" in one)]
            raise errors.unsupported_media_type(", ".join(known))
        check_options(request, "PatchOptions", applying=form == "apply")
        step = Step(request, target)
        if form == "apply":
            return self._apply(step, decode_body(request, expected=target.kind.kind))
        self._require(target)
        body, schema = decode_body(request, expected=target.kind.kind), self.state.schema(target.kind)
        row = self.change(
            step, lambda live: normalize(self.state, request, target, patch_document(form, live, body, schema))
        )
        return self._answer(step, row, 200)

    def _apply(self, step: Step, body: Any) -> Response:
        state, target = self.state, step.target
        applied = self._applied(step, body)
        if self._find(target) is None:
            _refuse_status_of_nothing(target, applied)
            if target.subresource:
                raise errors.not_found(step.kind.group, step.kind.plural, target.name)
            _refuse_uid_of_nothing(step, applied)
            merged = self._merge_applied(step, None, applied)
            row = self.store_new(step, complete(state, step.kind, merged), track=False)
            return self._answer(step, row, 201)
        row = self.change(
            step, lambda live: complete(state, step.kind, self._merge_applied(step, live, applied)), track=False
        )
        return self._answer(step, row, 200)

    def _applied(self, step: Step, body: Any) -> Object:
        if not isinstance(body, dict):
            raise errors.bad_request("error decoding YAML: the applied configuration is not an object")
        if not body.get("kind"):
            raise errors.bad_request("Object 'Kind' is missing")
        if not body.get("apiVersion"):
            raise errors.bad_request(f"invalid object type: /, Kind={body['kind']}")
        if body["apiVersion"] == step.kind.api_version and body["kind"] != step.kind.kind:
            raise errors.bad_request(f"invalid object type: {body['apiVersion']}, Kind={body['kind']}")
        # Unknown fields and a wrong name are refused after the merge.
        check_identity(self.state, step.kind, body)
        return _own_part(step, body)

    def _merge_applied(self, step: Step, live: Object | None, applied: Object) -> Object:
        request = step.request
        schema, now = self.state.schema(step.kind), self.state.now()
        force = request.flag("force")
        try:
            merged = apply_patch(live, applied, request.manager, force, schema, now, step.target.subresource)
        except ApplyConflict as conflict:
            raise errors.apply_conflict(str(conflict), conflict.conflicts) from conflict
        except ManagedFieldsInPatch as problem:
            raise errors.bad_request(str(problem)) from problem
        except ApplyInvalid as problem:
            raise errors.ApiError(500, "", str(problem)) from problem
        check_place(step.target, merged.setdefault("metadata", {}))
        return merged

    def change(self, step: Step, build: Build, *, track: bool = True) -> Row:
        """Reads, builds the new object, checks and commits it."""
        row = self._require(step.target)
        old = present.to_version(step.kind, row.load())
        new = build(copy.deepcopy(old))
        self._check_preconditions(step, row, new)
        new = self._prepare_change(step, old, new, track=track)
        if _without_times(new) == _without_times(old):
            return row
        if step.request.dry_run:
            return self._dry_row(step, new, row.revision)
        return deletion.commit(self.state.store, row, present.to_stored(step.kind, new)).row

    def _check_preconditions(self, step: Step, row: Row, new: Object) -> None:
        kind, metadata = step.kind, new["metadata"]
        version = metadata.get("resourceVersion")
        uid = metadata.get("uid")
        if uid and uid != row.uid:
            raise _other_uid(step.target, uid, row.uid)
        if not version and (kind.custom or kind.resource in _NO_UNCONDITIONAL_UPDATE):
            problem = FieldProblem("metadata.resourceVersion", "Invalid", "must be specified for an update", 0)
            raise errors.invalid(kind.group, kind.plural, row.name, [problem])
        _check_number(version)
        if version and version != str(row.revision):
            raise errors.conflict(kind.group, kind.plural, row.name)
        metadata["resourceVersion"] = str(row.revision)

    def _prepare_change(self, step: Step, old: Object, new: Object, *, track: bool) -> Object:
        kind, subresource = step.kind, step.target.subresource
        self._dedupe_owners(step, new["metadata"])
        prepare_update(kind, old, new, subresource)
        if track:
            new = self._tracked(step, old, new)
        addresses.allocate(self.state, kind, new, old)
        if kind.resource == CRD_RESOURCE and subresource != "status":
            crds.establish(new, self.state.now())
        self._validate(step, new, old)
        return new

    def _dedupe_owners(self, step: Step, metadata: Object) -> None:
        owners = metadata.get("ownerReferences") or []
        kept = [owner for index, owner in enumerate(owners) if owner not in owners[:index]]
        if len(kept) == len(owners):
            return
        metadata["ownerReferences"] = kept
        twice = dict.fromkeys(o.get("uid", "") for i, o in enumerate(owners) if o in owners[:i])
        when = " after mutating admission happens" if step.request.method == "PATCH" else ""
        step.request.warnings.append(
            f".metadata.ownerReferences contains duplicate entries{when}; API server dedups owner references in 1.20+, "
            "and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: "
            + ", ".join(twice)
        )

    # --- delete -------------------------------------------------------------------------------------------------

    def delete(self, request: Request, target: Target) -> Response:
        """DELETE on an object."""
        body = decode_body(request, expected="DeleteOptions")
        body = body if isinstance(body, dict) else {}
        check_options(request, "DeleteOptions", body)
        options = deletion.parse_options(request.query, body)
        is_dry = request.dry_run or "All" in (body.get("dryRun") or ())
        store = deletion.DryRun() if is_dry else self.state.store
        outcome = deletion.delete(store, target.kind, self._require(target), options, self.state.clock())
        return self._deleted(Step(request, target), outcome)

    def _deleted(self, step: Step, outcome: deletion.Deleted) -> Response:
        if not outcome.gone or step.kind.resource in _RETURNS_DELETED:
            return self._answer(step, outcome.row, 200)
        kind = step.kind
        details = {"name": outcome.row.name, "group": kind.group, "kind": kind.plural, "uid": outcome.row.uid}
        status: Object = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        status["details"] = {key: value for key, value in details.items() if value}
        return json_response(status)

    # --- parts --------------------------------------------------------------------------------------------------

    def _find(self, target: Target) -> Row | None:
        return self.state.store.get(target.kind.resource, target.namespace, target.name)

    def _require(self, target: Target) -> Row:
        row = self._find(target)
        if row is None:
            raise errors.not_found(target.kind.group, target.kind.plural, target.name)
        return row

    def _tracked(self, step: Step, old: Object | None, new: Object) -> Object:
        kind, schema = step.kind, self.state.schema(step.kind)
        if old is None and not kind.custom:
            old = protobuf.empty(kind.api_version, kind.kind)
        if step.target.subresource == "scale" and old is not None and kind.scale is not None:
            scaler = {"manager": step.request.manager, "apiVersion": kind.api_version}
            before, after = crds.replicas(kind, old) or 0, crds.replicas(kind, new) or 0
            entries = old["metadata"].get("managedFields") or []
            owners = owners_after_scaling(entries, kind.scale.spec, before, after, scaler)
            return {**new, "metadata": {**new["metadata"], "managedFields": owners}}
        subresource = "status" if step.target.subresource == "status" else ""
        tracked: Object = track_update(old, new, step.request.manager, schema, self.state.now(), subresource)
        return tracked

    def _validate(self, step: Step, new: Object, old: Object | None) -> None:
        kind, given = step.kind, str(new.get("kind") or step.kind.kind)
        problems = [FieldProblem("kind", "Invalid", f"must be {kind.kind}", given)] if given != kind.kind else []
        problems += names.check_changed_metadata(new["metadata"]) if old is not None else []
        problems += names.check_metadata(kind, new["metadata"])
        problems += self._schema_problems(step, new, old, blocked=any(one.reason in BLOCKING for one in problems))
        problems += rules.check(kind.resource, new, old)
        if kind.resource == CRD_RESOURCE and not problems:
            problems += crds.check(new)
        if old is not None:
            problems += rules.finalizers_added_late(old, new)
        if problems:
            raise errors.invalid(kind.group, given, new["metadata"].get("name", ""), problems)

    def _schema_problems(self, step: Step, new: Object, old: Object | None, *, blocked: bool) -> list[FieldProblem]:
        schema = self.state.schema(step.kind)
        found = schema.validate(new, old, blocked=blocked)
        scale = crds.scale_problems(step.kind, new, status_only=step.target.subresource == "status")
        noted = [problem for problem in found if problem.path == ROOT]
        # The note that rules were not tried comes last.
        return [*(problem for problem in found if problem.path != ROOT), *scale, *noted]

    def _taken(self, step: Step, name: str) -> errors.ApiError:
        row = self.state.store.get(step.kind.resource, step.target.namespace, name)
        dying = row is not None and bool(row.load()["metadata"].get("deletionTimestamp"))
        return errors.already_exists(step.kind.group, step.kind.plural, name, dying=dying)

    def _dry_create(self, step: Step, made: Object, version: str) -> Row:
        name = made["metadata"]["name"]
        if self.state.store.get(step.kind.resource, step.target.namespace, name):
            raise self._taken(step, name)
        # As the real server: a version that came with the object is echoed, since none was given out.
        return self._dry_row(step, made, int(version) if version.isdigit() else 0)

    def _dry_row(self, step: Step, obj: Object, revision: int = 0) -> Row:
        row = make_row(step.kind.resource, present.to_stored(step.kind, obj), revision)
        if revision:
            return row
        plain = row.load()
        del plain["metadata"]["resourceVersion"]
        return Row(row.resource, row.namespace, row.name, row.uid, 0, row.labels, encode(plain))

    def _answer(self, step: Step, row: Row, code: int) -> Response:
        form = present.negotiate(step.request, step.kind)
        return json_response(present.one(step.kind, row, form, self.state.clock()), code)


def _other_uid(target: Target, wanted: str, found: str) -> errors.ApiError:
    kind = target.kind
    parts = (kind.group if kind.custom else "", kind.plural, target.namespace, target.name)
    key = "/".join(part for part in parts if part)
    why = (
        f"StorageError: invalid object, Code: 4, Key: /registry/{key}, ResourceVersion: 0, AdditionalErrorMsg: "
        f"Precondition failed: UID in precondition: {wanted}, UID in object meta: {found}"
    )
    return errors.conflict(kind.group, kind.plural, target.name, why)


def _check_number(version: str | None) -> None:
    if version and not version.isdigit():
        raise errors.ApiError(500, "", f'strconv.ParseUint: parsing "{version}": invalid syntax')


def _refuse_status_of_nothing(target: Target, sent: Object) -> None:
    """A status of an object that is not there; a Service may be created by it, and so is judged as one."""
    if not target.subresource:
        return
    if target.kind.resource == "services":
        missing = "spec.clusterIPs" if (sent.get("spec") or {}).get("ports") else "spec.ports"
        problem = FieldProblem(missing, "Required")
        raise errors.invalid(target.kind.group, target.kind.kind, target.name, [problem])
    raise errors.not_found(target.kind.group, target.kind.plural, target.name)


def _own_part(step: Step, applied: Object) -> Object:
    """An applier of the object cannot own its status, and one of the status nothing else."""
    if step.target.subresource == "status":
        part: Object = {key: applied[key] for key in ("apiVersion", "kind", "metadata", "status") if key in applied}
        if step.kind.custom:
            kept = ("name", "namespace", "uid", "resourceVersion", "managedFields")
            part["metadata"] = {key: value for key, value in applied["metadata"].items() if key in kept}
        return part
    if step.kind.has_status:
        return {key: value for key, value in applied.items() if key != "status"}
    return applied


def patch_document(form: str, live: Object, patch: Any, schema: TypeSchema) -> Any:
    """Plain data after a JSON, merge or strategic patch."""
    try:
        if form == "json":
            return json_patch(live, patch)
        if not isinstance(patch, dict):
            raise errors.bad_request("the patch is not an object")
        if form == "merge":
            return merge_patch(live, patch)
        return strategic_merge(live, patch, schema)
    except (PatchMalformed, MergeConflict) as problem:
        raise errors.bad_request(str(problem)) from problem
    except PatchFailed as problem:
        raise errors.unprocessable() from problem


def _refuse_uid_of_nothing(step: Step, applied: Object) -> None:
    uid = (applied.get("metadata") or {}).get("uid")
    if uid:
        why = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
        raise errors.conflict(step.kind.group, step.kind.plural, step.target.name, why)


def check_options(request: Request, kind: str, body: Object | None = None, *, applying: bool = False) -> None:
    """The options that every write has: dryRun and fieldManager."""
    problems: list[FieldProblem] = []
    values = (body or {}).get("dryRun") or ([request.query["dryRun"]] if request.query.get("dryRun") else [])
    if any(value != "All" for value in values):
        problems.append(FieldProblem("dryRun", "NotSupported", 'supported values: "All"', list(values)))
    if kind != "DeleteOptions":
        problems += _manager_problems(request, applying=applying)
    if problems:
        raise errors.invalid("meta.k8s.io", kind, "", problems)


def _manager_problems(request: Request, *, applying: bool) -> list[FieldProblem]:
    problems: list[FieldProblem] = []
    manager, validation = request.query.get("fieldManager", ""), request.query.get("fieldValidation", "")
    if applying and not manager:
        problems.append(FieldProblem("fieldManager", "Required", "is required for apply patch"))
    if len(manager) > 128:
        problems.append(FieldProblem("fieldManager", "TooLong", "may not be more than 128 bytes"))
    if validation not in _FIELD_VALIDATION:
        listed = ", ".join(f'"{one}"' for one in _FIELD_VALIDATION)
        problems.append(FieldProblem("fieldValidation", "NotSupported", f"supported values: {listed}", validation))
    return problems


def _without_times(obj: Object) -> Object:
    metadata = obj["metadata"]
    entries = metadata.get("managedFields")
    if not entries:
        return obj
    timeless = [{key: value for key, value in entry.items() if key != "time"} for entry in entries]
    return {**obj, "metadata": {**metadata, "managedFields": timeless}}
