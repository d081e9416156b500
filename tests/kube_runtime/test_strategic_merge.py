"""The strategic merge patch: `kube_runtime.strategic_merge`, by examples and held against the plain way."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.build import plain_merge

from kube_runtime.item_index import Path
from kube_runtime.strategic_merge import PLAIN_FIELD, MergeConflict, Rules, merge_object
from slurm_operator.build import overlay
from slurm_operator.build.merge_keys import MERGE_KEYS

Json = dict[str, Any]
KUBERNETES = Rules(lambda kind, name: MERGE_KEYS.get(f"{kind}.{name}", PLAIN_FIELD))


def merge(base: Json, patch: Json, kind: str = "PodSpec") -> Json:
    return merge_object(base, patch, kind, KUBERNETES)


@pytest.mark.parametrize(
    ("base", "patch", "expected"),
    [
        pytest.param({"hostname": "a"}, {"hostname": "b"}, {"hostname": "b"}, id="a scalar is replaced"),
        pytest.param({"hostNetwork": True}, {"hostNetwork": False}, {"hostNetwork": False}, id="false wins"),
        pytest.param({"priority": 5}, {"priority": 0}, {"priority": 0}, id="zero wins"),
        pytest.param({"hostname": "a"}, {"hostname": ""}, {"hostname": ""}, id="the empty string wins"),
        pytest.param({"hostname": "a", "priority": 1}, {"hostname": None}, {"priority": 1}, id="null deletes"),
        pytest.param({}, {"hostname": None}, {}, id="null for a missing field leaves nothing"),
        pytest.param(
            {}, {"securityContext": {"runAsUser": None}}, {"securityContext": {}}, id="nested null leaves nothing"
        ),
        pytest.param(
            {"nodeSelector": {"a": "1"}}, {"nodeSelector": {"b": "2"}}, {"nodeSelector": {"a": "1", "b": "2"}},
            id="maps merge",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]}, {"tolerations": [{"key": "b"}]}, {"tolerations": [{"key": "b"}]},
            id="an atomic list is replaced",
        ),
        pytest.param(
            {"volumes": [{"name": "a"}, {"name": "b"}]}, {"volumes": [{"name": "c"}]},
            {"volumes": [{"name": "c"}, {"name": "a"}, {"name": "b"}]},
            id="items of the user come before items of the base",
        ),
        pytest.param(
            {"volumes": [{"name": "a"}, {"name": "b"}, {"name": "c"}]},
            {"volumes": [{"name": "x"}, {"name": "b", "emptyDir": {}}]},
            {"volumes": [{"name": "x"}, {"name": "a"}, {"name": "b", "emptyDir": {}}, {"name": "c"}]},
            id="a base item stays in front of the shared item it preceded",
        ),
        pytest.param(
            {"volumes": [{"name": "a"}, {"name": "b"}]}, {"volumes": [{"name": "b"}, {"name": "a"}]},
            {"volumes": [{"name": "b"}, {"name": "a"}]},
            id="shared items take the order of the user",
        ),
        pytest.param(
            {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["a"]}]},
            {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}, {"ip": "2.2.2.2"}]},
            {"hostAliases": [{"ip": "1.1.1.1", "hostnames": ["b"]}, {"ip": "2.2.2.2"}]},
            id="host aliases merge by ip",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            {"topologySpreadConstraints": [{"topologyKey": "z", "maxSkew": 2}]},
            {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "maxSkew": 2}]},
            id="spread constraints merge by topology key",
        ),
        pytest.param(
            {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"}]},
            {"topologySpreadConstraints": [{"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"}]},
            {
                "topologySpreadConstraints": [
                    {"topologyKey": "z", "whenUnsatisfiable": "ScheduleAnyway"},
                    {"topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule"},
                ]
            },
            id="a hard and a soft spread constraint over one key are two",
        ),
        pytest.param(
            {"securityContext": {"runAsUser": 1}}, {"securityContext": "odd"}, {"securityContext": "odd"},
            id="another type replaces",
        ),
        pytest.param(
            {"volumes": "odd", "nodeSelector": []}, {"volumes": [{"name": "a"}], "nodeSelector": {"a": "1"}},
            {"volumes": [{"name": "a"}], "nodeSelector": {"a": "1"}},
            id="a base of another type is replaced",
        ),
        pytest.param({}, {"x": [[{"y": None}, 1]]}, {"x": [[{}, 1]]}, id="lists in lists are cleaned"),
    ],
)  # fmt: skip
def test_merge_is_a_strategic_merge_patch(base: Json, patch: Json, expected: Json) -> None:
    assert merge(base, patch) == expected


@pytest.mark.parametrize(
    ("base", "patch", "expected"),
    [
        pytest.param(
            {"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "replace", "fsGroup": 2}},
            {"securityContext": {"fsGroup": 2}},
            id="$patch replace replaces the object",
        ),
        pytest.param(
            {"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "merge", "fsGroup": 2}},
            {"securityContext": {"runAsUser": 1, "fsGroup": 2}},
            id="$patch merge says the default",
        ),
        pytest.param(
            {"securityContext": {"runAsUser": 1}}, {"securityContext": {"$patch": "delete"}}, {"securityContext": {}},
            id="$patch delete empties the object",
        ),
        pytest.param({}, {"securityContext": {"$patch": "delete"}}, {}, id="$patch delete of nothing is nothing"),
        pytest.param(
            {"volumes": [{"name": "a"}, {"name": "b"}]}, {"volumes": [{"$patch": "delete", "name": "a"}]},
            {"volumes": [{"name": "b"}]},
            id="$patch delete takes one item out",
        ),
        pytest.param(
            {"volumes": [{"name": "a"}]}, {"volumes": [{"$patch": "replace"}, {"name": "b"}]},
            {"volumes": [{"name": "b"}]},
            id="an item $patch replace replaces the list",
        ),
        pytest.param(
            {"tolerations": [{"key": "a"}]}, {"tolerations": [{"$patch": "delete", "key": "a"}, {"key": "b"}]},
            {"tolerations": [{"key": "b"}]},
            id="directives in a list without keys are dropped",
        ),
        pytest.param(
            {"volumes": [{"name": "a", "emptyDir": {}}]},
            {"volumes": [{"name": "a", "hostPath": {"path": "/"}, "$retainKeys": ["name", "hostPath"]}]},
            {"volumes": [{"name": "a", "hostPath": {"path": "/"}}]},
            id="$retainKeys drops the other keys",
        ),
        pytest.param(
            {"volumes": [{"name": "a"}, {"name": "b"}]},
            {"$setElementOrder/volumes": [{"name": "b"}, {"name": "c"}, {"name": "a"}], "volumes": [{"name": "c"}]},
            {"volumes": [{"name": "b"}, {"name": "c"}, {"name": "a"}]},
            id="$setElementOrder orders the merged list",
        ),
        pytest.param(
            {}, {"$setElementOrder/volumes": [{"name": "b"}, {"name": "a"}], "volumes": [{"name": "a"}, {"name": "b"}]},
            {"volumes": [{"name": "b"}, {"name": "a"}]},
            id="$setElementOrder orders a new list",
        ),
        pytest.param({}, {"$setElementOrder/volumes": [{"name": "b"}]}, {}, id="$setElementOrder adds nothing"),
        pytest.param({"$x": 1}, {"$y": 2}, {"$x": 1, "$y": 2}, id="other keys with a dollar are keys"),
    ],
)  # fmt: skip
def test_directives_are_obeyed_and_gone(base: Json, patch: Json, expected: Json) -> None:
    assert merge(base, patch) == expected


def test_primitive_lists_merge_and_lose_what_is_deleted() -> None:
    base = {"metadata": {"finalizers": ["a", "b"]}}
    patch = {"metadata": {"finalizers": ["c", "b"], "$deleteFromPrimitiveList/finalizers": ["a"]}}
    assert merge(base, patch, "PodTemplateSpec") == {"metadata": {"finalizers": ["c", "b"]}}


@pytest.mark.parametrize(
    ("patch", "steps", "message"),
    [
        pytest.param({"$patch": "drop"}, (), "write delete, merge or replace", id="unknown $patch"),
        pytest.param(
            {"volumes": [{"$patch": "merge", "name": "a"}]}, ("volumes", 0), "write delete or replace",
            id="unknown $patch of an item",
        ),
        pytest.param({"volumes": [{"emptyDir": {}}]}, ("volumes", 0), "has no name", id="item without its key"),
        pytest.param({"volumes": ["a"]}, ("volumes", 0), "must be an object, not str", id="item that is no object"),
        pytest.param(
            {"volumes": [{"$patch": "delete"}]}, ("volumes", 0), "has no name", id="deletion of an item without key"
        ),
        pytest.param(
            {"$retainKeys": ["a"], "b": 1}, (), "leaves out 'b'", id="$retainKeys that contradicts the patch"
        ),
        pytest.param({"$retainKeys": 1}, ("$retainKeys",), "must be a list, not int", id="$retainKeys that is text"),
        pytest.param(
            {"containers": [{"name": "a", "ports": [{"name": "x"}]}]}, ("containers", 0, "ports", 0),
            "has no containerPort", id="nested item without its key",
        ),
    ],
)  # fmt: skip
def test_a_patch_that_cannot_be_applied_names_its_place(patch: Json, steps: Path, message: str) -> None:
    with pytest.raises(MergeConflict) as caught:
        merge({"volumes": [{"name": "a"}]}, patch)
    assert caught.value.steps == steps
    assert message in caught.value.message


def test_a_conflict_carries_its_place_as_steps_and_as_text() -> None:
    conflict = MergeConflict(("ports", 1, "name"), "taken")
    assert (conflict.steps, str(conflict)) == (("ports", 1, "name"), "ports.1.name: taken")


def test_base_items_that_are_no_objects_are_left_alone() -> None:
    assert merge({"volumes": ["odd"]}, {"volumes": [{"name": "a"}]}) == {"volumes": [{"name": "a"}, "odd"]}


NAMES = st.sampled_from(["a", "b", "c", "d"])
ENTRIES = st.lists(
    st.fixed_dictionaries(
        {"name": NAMES, "containerPort": st.integers(1, 3), "topologyKey": NAMES, "ip": NAMES, "mountPath": NAMES},
        optional={
            "protocol": st.sampled_from(["TCP", "UDP", "", None]),
            "whenUnsatisfiable": st.sampled_from(["DoNotSchedule", "ScheduleAnyway", "", None]),
            "value": st.sampled_from(["1", "2", None]),
            "emptyDir": st.just({}),
            "$patch": st.sampled_from(["delete", "replace", "merge"]),
        },
    ),
    max_size=6,
)
CONTAINER = st.fixed_dictionaries({"name": NAMES}, optional={"env": ENTRIES, "ports": ENTRIES, "volumeMounts": ENTRIES})
TERMS = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(NAMES, max_size=3), "matchFields": st.lists(NAMES, max_size=2)}
)
POD_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": st.lists(CONTAINER, max_size=3),
        "initContainers": st.lists(CONTAINER, max_size=3),
        "volumes": ENTRIES,
        "hostAliases": ENTRIES,
        "topologySpreadConstraints": ENTRIES,
        "tolerations": ENTRIES,
        "dnsConfig": st.fixed_dictionaries({"searches": st.lists(NAMES), "options": ENTRIES}),
        "affinity": st.fixed_dictionaries(
            {
                "nodeAffinity": st.fixed_dictionaries(
                    {
                        "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
                            {"nodeSelectorTerms": st.lists(TERMS, max_size=3)}
                        )
                    }
                )
            }
        ),
        "$setElementOrder/volumes": ENTRIES,
        "$setElementOrder/containers": ENTRIES,
        "$deleteFromPrimitiveList/tolerations": ENTRIES,
        "$retainKeys": st.just(["volumes", "containers", "$setElementOrder/volumes"]),
    },
)


def outcome(function: Any, base: Any, patch: Any) -> Any:
    try:
        return function(base, patch)
    except MergeConflict as conflict:
        return conflict.steps


@given(POD_SPECS, POD_SPECS)
def test_merging_by_index_gives_what_plain_merging_gives(base: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((base, patch))
    merged = outcome(overlay.merge_pod_spec, base, patch)
    assert (base, patch) == before, "nothing is mutated"
    assert merged == outcome(plain_merge.merge_pod_spec, base, patch)
    assert outcome(merge, base, patch) == outcome(plain_merge.merge, base, patch)
