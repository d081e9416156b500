"""Create, update, patch and delete, as clients see them."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
MAPS = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"


def pod(name: str = "p", **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "x:1"}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **metadata}, "spec": spec}


def config(name: str = "m", data: Any = None, **metadata: Any) -> dict[str, Any]:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **metadata}}
    return {**body, "data": data} if data is not None else body


def widget(name: str = "w", spec: Any = None, **more: Any) -> dict[str, Any]:
    body = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec or {}}
    return {**body, **more}


# --- create -------------------------------------------------------------------------------------------------------


async def test_a_new_object_gets_identity_defaults_and_a_manager(api: Any) -> None:
    made = await api.create(PODS, pod())
    metadata = made["metadata"]
    assert metadata["uid"].startswith("uid-")
    assert metadata["creationTimestamp"] == "2023-11-14T22:13:20Z"
    assert (metadata["generation"], made["status"]["phase"]) == (1, "Pending")
    assert made["spec"]["restartPolicy"] == "Always"
    assert metadata["managedFields"][0]["manager"] == "tester"


async def test_a_generated_name_ends_at_random(api: Any) -> None:
    body = config()
    body["metadata"] = {"generateName": "job-"}
    assert (await api.create(MAPS, body))["metadata"]["name"] == "job-abcde"


async def test_a_name_is_taken_once(api: Any) -> None:
    await api.create(MAPS, config())
    status = await api.fails(409, "POST", MAPS, config())
    assert (status["reason"], status["message"]) == ("AlreadyExists", 'configmaps "m" already exists')
    assert status["details"] == {"name": "m", "kind": "configmaps"}


async def test_a_dying_object_still_holds_its_name(api: Any) -> None:
    await api.create(MAPS, config(finalizers=["example.com/hold"]))
    await api.ok("DELETE", f"{MAPS}/m")
    status = await api.fails(409, "POST", MAPS, config())
    assert status["message"] == 'object is being deleted: configmaps "m" already exists'


async def test_nothing_is_created_in_a_namespace_that_is_not_there(api: Any) -> None:
    status = await api.fails(404, "POST", "/api/v1/namespaces/nowhere/configmaps", config())
    assert status["message"] == 'namespaces "nowhere" not found'


async def test_nothing_is_created_in_a_namespace_that_goes(api: Any) -> None:
    await api.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}})
    await api.ok("DELETE", "/api/v1/namespaces/old")
    status = await api.fails(403, "POST", "/api/v1/namespaces/old/configmaps", config())
    assert "because it is being terminated" in status["message"]


BAD_BODIES: list[tuple[str, Any, int, str]] = [
    ("not JSON", b"{", 400, "couldn't get version/kind"),
    ("a list", b"[]", 400, "cannot unmarshal array into Go value"),
    ("not UTF-8", b"\xff\xfe", 400, "couldn't get version/kind"),
    ("another kind", {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "m"}}, 400, "does not match"),
    ("an unknown version", {"apiVersion": "v9", "kind": "ConfigMap"}, 400, 'registered for version "v9"'),
    ("another namespace", config(namespace="other"), 400, "does not match the namespace sent on the request"),
    ("no name", config(name=""), 422, "metadata.name: Required value: name or generateName is required"),
    ("a bad name", config(name="Up"), 422, "a lowercase RFC 1123 subdomain must consist of"),
    ("a long name", config(name="a" * 254), 422, "must be no more than 253 characters"),
    ("a bad label", config(labels={"a": "b c"}), 422, "a valid label must be an empty string or consist"),
    ("labels that are a list", config(labels=["a"]), 400, "cannot unmarshal array into Go struct field"),
    ("a label that is a number", config(labels={"a": 1}), 400, "cannot unmarshal number"),
    ("metadata that is text", {**config(), "metadata": "m"}, 400, "cannot unmarshal string"),
    ("a bad finalizer", config(finalizers=["hold"]), 422, "name is neither a standard finalizer name"),
    ("a bad key", config(data={"a b": "c"}), 422, "a valid config key must consist of"),
    ("data that is no text", config(data={"a": 1}), 400, "cannot be handled as a ConfigMap"),
    ("a resource version", config(resourceVersion="3"), 500, "should not be set on objects to be created"),
]


@pytest.mark.parametrize(("body", "code", "text"), [b[1:] for b in BAD_BODIES], ids=[b[0] for b in BAD_BODIES])
async def test_bad_objects_are_refused_with_a_reason(api: Any, body: Any, code: int, text: str) -> None:
    status = await api.fails(code, "POST", MAPS, body)
    assert (status["kind"], status["code"]) == ("Status", code)
    assert text in status["message"]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
async def test_all_that_is_wrong_is_said_at_once(api: Any, kind: str) -> None:
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": pod()["spec"]}
    spec = {"replicas": -1, "serviceName": "s", "selector": {"matchLabels": labels}, "template": template}
    body = {"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": "Bad_Name", "labels": {"a b": "c"}}}
    path = f"/apis/apps/v1/namespaces/default/{kind.lower()}s"
    status = await api.fails(422, "POST", path, {**body, "spec": spec})
    assert [each["field"] for each in status["details"]["causes"]] == [
        "metadata.name",
        "metadata.labels",
        "spec.replicas",
    ]


async def test_a_body_of_an_unknown_type_is_415(api: Any) -> None:
    status = await api.fails(415, "POST", MAPS, b"<xml/>", content_type="text/xml")
    assert status["reason"] == "UnsupportedMediaType"


async def test_a_body_of_more_than_three_megabytes_is_413(api: Any) -> None:
    await api.fails(413, "POST", MAPS, b"x" * (3 * 1024 * 1024 + 1))


async def test_yaml_is_read_as_kubernetes_reads_it(api: Any) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: m\ndata:\n  day: 2024-01-01\n"
    made = await api.ok("POST", MAPS, text, content_type="application/yaml")
    assert made["data"] == {"day": "2024-01-01"}


@pytest.mark.parametrize(("mode", "code"), [("Ignore", 201), ("Warn", 201), ("", 201), ("Strict", 400)])
async def test_unknown_fields_are_dropped_told_or_refused(api: Any, mode: str, code: int) -> None:
    response = await api.send("POST", MAPS, {**config(), "surprise": 1}, query={"fieldValidation": mode})
    assert response.status == code
    assert response.warnings == (['unknown field "surprise"'] if mode in {"Warn", ""} else [])
    assert "surprise" not in response.json()


async def test_a_dry_run_answers_and_stores_nothing(api: Any) -> None:
    before = api.server.store.revision
    made = await api.ok("POST", MAPS, config(), query={"dryRun": "All"})
    assert "resourceVersion" not in made["metadata"]
    assert api.server.store.revision == before
    status = await api.fails(422, "POST", MAPS, config(), query={"dryRun": "Some"})
    assert 'dryRun: Unsupported value: ["Some"]: supported values: "All"' in status["message"]


async def test_status_is_not_taken_at_creation(widgets: Any) -> None:
    assert "status" not in await widgets.create(WIDGETS, widget(status={"replicas": 3}))


async def test_a_service_gets_the_lowest_free_address(api: Any) -> None:
    services = "/api/v1/namespaces/default/services"
    body = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}}
    first = await api.create(services, body)
    second = await api.create(services, {**body, "metadata": {"name": "b"}})
    assert [first["spec"]["clusterIP"], second["spec"]["clusterIP"]] == ["10.96.0.2", "10.96.0.3"]
    headless = {"clusterIP": "None", "ports": [{"port": 1}], "selector": {"a": "b"}}
    third = await api.create(services, {**body, "metadata": {"name": "c"}, "spec": headless})
    assert third["spec"]["clusterIPs"] == ["None"]


# --- update -------------------------------------------------------------------------------------------------------


async def test_an_update_needs_the_version_that_it_saw(api: Any) -> None:
    made = await api.create(MAPS, config(data={"a": "1"}))
    made["data"] = {"a": "2"}
    updated = await api.ok("PUT", f"{MAPS}/m", made)
    assert int(updated["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
    status = await api.fails(409, "PUT", f"{MAPS}/m", made)
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "m": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )


async def test_an_update_that_changes_nothing_writes_nothing(api: Any) -> None:
    made = await api.create(MAPS, config(data={"a": "1"}))
    before = api.server.store.revision
    assert await api.ok("PUT", f"{MAPS}/m", made) == made
    await api.merge(f"{MAPS}/m", {"data": {"a": "1"}})
    assert api.server.store.revision == before


async def test_custom_kinds_insist_on_a_version(widgets: Any) -> None:
    await widgets.create(WIDGETS, widget())
    status = await widgets.fails(422, "PUT", f"{WIDGETS}/w", widget(spec={"size": "large"}))
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in status["message"]


async def test_another_uid_is_another_object(api: Any) -> None:
    await api.create(MAPS, config())
    status = await api.fails(409, "PUT", f"{MAPS}/m", config(uid="someone-else"))
    assert "Precondition failed: UID in precondition: someone-else" in status["message"]


async def test_a_name_other_than_that_of_the_path_is_refused(api: Any) -> None:
    status = await api.fails(400, "PUT", f"{MAPS}/m", config(name="n"))
    assert status["message"] == "the name of the object (n) does not match the name on the URL (m)"


async def test_a_lease_can_be_created_by_an_update(api: Any) -> None:
    path = "/apis/coordination.k8s.io/v1/namespaces/default/leases/l"
    body = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    assert (await api.send("PUT", path, body)).status == 201
    await api.fails(404, "PUT", f"{MAPS}/m", config())


async def test_generation_counts_changes_of_the_spec_alone(widgets: Any) -> None:
    await widgets.create(WIDGETS, widget())
    steps = [
        (f"{WIDGETS}/w", {"spec": {"replicas": 3}}, 2),
        (f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}}, 2),
        (f"{WIDGETS}/w/status", {"status": {"replicas": 3}}, 2),
        (f"{WIDGETS}/w", {"status": {"replicas": 9}}, 2),
        (f"{WIDGETS}/w", {"spec": {"replicas": 4}}, 3),
    ]
    for path, patch, generation in steps:
        assert (await widgets.merge(path, patch))["metadata"]["generation"] == generation, patch
    final = await widgets.ok("GET", f"{WIDGETS}/w")
    assert (final["status"], final["spec"]["replicas"]) == ({"replicas": 3}, 4)


async def test_the_status_subresource_changes_status_alone(widgets: Any) -> None:
    await widgets.create(WIDGETS, widget())
    patch = {"spec": {"size": "large"}, "metadata": {"labels": {"a": "b"}}, "status": {"replicas": 1}}
    made = await widgets.merge(f"{WIDGETS}/w/status", patch)
    assert (made["spec"], made["status"]) == ({"size": "small"}, {"replicas": 1})
    assert "labels" not in made["metadata"]


async def test_pods_keep_their_spec(api: Any) -> None:
    await api.create(PODS, pod())
    await api.merge(f"{PODS}/p", {"spec": {"activeDeadlineSeconds": 5}})
    patch = {"spec": {"nodeName": "elsewhere"}}
    status = await api.fails(422, "PATCH", f"{PODS}/p", patch, content_type="application/merge-patch+json")
    assert "pod updates may not change fields other than" in status["message"]


# --- patch --------------------------------------------------------------------------------------------------------


async def test_three_kinds_of_patches(api: Any) -> None:
    await api.create(PODS, pod(labels={"a": "1"}))
    patches = [
        ("application/merge-patch+json", {"metadata": {"labels": {"a": None, "b": "2"}}}),
        (
            JSON_PATCH,
            [
                {"op": "test", "path": "/metadata/labels/b", "value": "2"},
                {"op": "add", "path": "/metadata/labels/c", "value": "3"},
            ],
        ),
        (STRATEGIC, {"spec": {"containers": [{"name": "c", "image": "x:2"}]}}),
    ]
    for content_type, patch in patches:
        await api.ok("PATCH", f"{PODS}/p", patch, content_type=content_type)
    made = await api.ok("GET", f"{PODS}/p")
    assert made["metadata"]["labels"] == {"b": "2", "c": "3"}
    assert [one["image"] for one in made["spec"]["containers"]] == ["x:2"]


PATCH_FAILURES: list[tuple[str, str, Any, int, str]] = [
    ("a test that fails", JSON_PATCH, [{"op": "test", "path": "/data", "value": 1}], 422, "the server rejected"),
    ("no list", JSON_PATCH, {}, 400, "error decoding patch"),
    ("an unknown type", "application/fancy", {}, 415, "Unsupported Media Type"),
    ("an old version", "application/merge-patch+json", {"metadata": {"resourceVersion": "1"}}, 409, "modified"),
    ("apply without manager", APPLY, config(), 422, "fieldManager: Required value: is required for apply patch"),
    ("apply without kind", APPLY, {"apiVersion": "v1"}, 422, "fieldManager"),
]


@pytest.mark.parametrize(
    ("content_type", "patch", "code", "text"), [p[1:] for p in PATCH_FAILURES], ids=[p[0] for p in PATCH_FAILURES]
)
async def test_patches_that_fail(api: Any, content_type: str, patch: Any, code: int, text: str) -> None:
    await api.create(MAPS, config(data={"a": "1"}))
    status = await api.fails(code, "PATCH", f"{MAPS}/m", patch, content_type=content_type)
    assert text in status["message"]


async def test_custom_kinds_have_no_strategic_patch(widgets: Any) -> None:
    await widgets.create(WIDGETS, widget())
    status = await widgets.fails(415, "PATCH", f"{WIDGETS}/w", {}, content_type=STRATEGIC)
    assert "accepted media types include: application/json-patch+json" in status["message"]


async def test_apply_creates_merges_conflicts_and_forces(api: Any) -> None:
    async def apply(manager: str, data: dict[str, str], **query: str) -> Any:
        given = {"fieldManager": manager, **query}
        return await api.send("PATCH", f"{MAPS}/m", config(data=data), query=given, content_type=APPLY)

    assert (await apply("alice", {"a": "1"})).status == 201
    assert (await apply("bob", {"b": "2"})).json()["data"] == {"a": "1", "b": "2"}
    conflict = await apply("bob", {"a": "9"})
    assert conflict.status == 409
    assert 'conflict with "alice": .data.a' in conflict.json()["message"]
    assert conflict.json()["details"]["causes"][0]["reason"] == "FieldManagerConflict"
    assert (await apply("bob", {"a": "9"}, force="true")).json()["data"] == {"a": "9"}


async def test_applying_the_same_again_writes_nothing(api: Any, clock: Any) -> None:
    query = {"fieldManager": "alice"}
    await api.ok("PATCH", f"{MAPS}/m", config(data={"a": "1"}), query=query, content_type=APPLY)
    before = api.server.store.revision
    clock.now += 100
    await api.ok("PATCH", f"{MAPS}/m", config(data={"a": "1"}), query=query, content_type=APPLY)
    assert api.server.store.revision == before


async def test_an_applier_of_the_object_cannot_own_its_status(widgets: Any) -> None:
    body = widget(spec={"size": "large"}, status={"replicas": 9})
    made = await widgets.ok("PATCH", f"{WIDGETS}/w", body, query={"fieldManager": "a"}, content_type=APPLY)
    assert "status" not in made
    assert "f:status" not in made["metadata"]["managedFields"][0]["fieldsV1"]


# --- delete -------------------------------------------------------------------------------------------------------


async def test_a_delete_answers_success_with_the_uid(api: Any) -> None:
    made = await api.create(MAPS, config())
    status = await api.ok("DELETE", f"{MAPS}/m")
    assert status["status"] == "Success"
    assert status["details"] == {"name": "m", "kind": "configmaps", "uid": made["metadata"]["uid"]}
    await api.fails(404, "DELETE", f"{MAPS}/m")


@pytest.mark.parametrize(
    ("key", "text"),
    [("uid", "the UID in the precondition"), ("resourceVersion", "the ResourceVersion in the precondition")],
)
async def test_a_delete_may_insist_on_what_it_saw(api: Any, key: str, text: str) -> None:
    await api.create(MAPS, config())
    status = await api.fails(409, "DELETE", f"{MAPS}/m", {"preconditions": {key: "77"}})
    assert text in status["message"]


async def test_a_finalizer_holds_an_object_until_it_is_taken_off(api: Any) -> None:
    await api.create(MAPS, config(finalizers=["example.com/hold"]))
    dying = await api.ok("DELETE", f"{MAPS}/m")
    assert dying["metadata"]["deletionTimestamp"]
    status = await api.fails(
        422,
        "PATCH",
        f"{MAPS}/m",
        {"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}},
        content_type="application/merge-patch+json",
    )
    assert "no new finalizers can be added if the object is being deleted" in status["message"]
    await api.merge(f"{MAPS}/m", {"metadata": {"finalizers": None}})
    await api.fails(404, "GET", f"{MAPS}/m")


async def test_a_running_pod_has_time_to_end(api: Any) -> None:
    await api.create(PODS, pod())
    await api.ok("POST", f"{PODS}/p/binding", {"target": {"name": "node-1"}})
    dying = await api.ok("DELETE", f"{PODS}/p")
    assert dying["metadata"]["deletionGracePeriodSeconds"] == 30
    assert dying["metadata"]["deletionTimestamp"] == "2023-11-14T22:13:50Z"
    shorter = await api.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 5})
    assert shorter["metadata"]["deletionGracePeriodSeconds"] == 5
    await api.ok("DELETE", f"{PODS}/p", {"gracePeriodSeconds": 0})
    await api.fails(404, "GET", f"{PODS}/p")


async def test_a_pod_that_no_node_has_goes_at_once(api: Any) -> None:
    await api.create(PODS, pod())
    gone = await api.ok("DELETE", f"{PODS}/p")
    assert gone["metadata"]["deletionGracePeriodSeconds"] == 0
    await api.fails(404, "GET", f"{PODS}/p")


async def test_a_dry_delete_shows_what_would_be(api: Any) -> None:
    await api.create(MAPS, config())
    shown = await api.ok("DELETE", f"{MAPS}/m", {"dryRun": ["All"], "propagationPolicy": "Orphan"})
    assert shown["metadata"]["finalizers"] == ["orphan"]
    assert "deletionTimestamp" not in (await api.ok("GET", f"{MAPS}/m"))["metadata"]


async def test_an_unknown_propagation_policy_is_refused(api: Any) -> None:
    await api.create(MAPS, config())
    status = await api.fails(422, "DELETE", f"{MAPS}/m", {"propagationPolicy": "Sideways"})
    assert 'supported values: "Foreground", "Background", "Orphan", "nil"' in status["message"]


async def test_our_own_kinds_are_served(api: Any, own_definitions: list[dict[str, Any]]) -> None:
    for definition in own_definitions:
        await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
    path = "/apis/slinky.slurm.net/v1beta1/namespaces/default/nodesets"
    body: dict[str, Any] = {
        "apiVersion": "slinky.slurm.net/v1beta1",
        "kind": "NodeSet",
        "metadata": {"name": "n"},
        "spec": {"controllerRef": {"name": "slurm"}, "replicas": 2},
    }
    made = await api.create(path, body)
    assert made["spec"]["scalingMode"] == "StatefulSet"
    bad = {**body, "metadata": {"name": "bad"}, "spec": {**body["spec"], "replicas": "two"}}
    status = await api.fails(422, "POST", path, bad)
    assert "spec.replicas in body must be of type integer" in status["message"]


async def test_an_unbound_claim_may_get_its_class_once(api: Any) -> None:
    path = "/api/v1/namespaces/default/persistentvolumeclaims"
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}}
    await api.create(
        path, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": spec}
    )
    await api.merge(f"{path}/c", {"spec": {"storageClassName": "local-path"}})
    assert (await api.ok("GET", f"{path}/c"))["spec"]["storageClassName"] == "local-path"
    other = {"spec": {"storageClassName": "other"}}
    await api.fails(422, "PATCH", f"{path}/c", other, content_type="application/merge-patch+json")
