"""What the user writes over what the operator built: `slurm_operator.build.overlay`."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kube_runtime.test_strategic_merge import merge as plain
from tools import merge_keys as generator

from kube_runtime.strategic_merge import MAX_REPEATS, MergeConflict
from slurm_operator.api.problem import format_path
from slurm_operator.build import overlay
from slurm_operator.build.merge_keys import MERGE_KEYS
from slurm_operator.build.overlay import merge_container, merge_pod_spec, merge_service_spec

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"

Json = dict[str, Any]


def env(*pairs: str) -> list[Json]:
    return [dict(zip(("name", "value"), pair.split("="), strict=True)) for pair in pairs]


def expression(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def node_terms(*terms: Json) -> Json:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}}


def test_the_merge_table_is_what_its_generator_renders() -> None:
    written = generator.TARGET.read_text(encoding="utf-8")
    assert written == generator.render(generator.definitions()), "stale: run python tools/merge_keys.py"


HTTP = {"httpGet": {"path": "/livez", "port": "slurmctld"}, "periodSeconds": 10, "failureThreshold": 6}


@pytest.mark.parametrize(
    ("base", "user", "expected"),
    [
        pytest.param({"args": ["-v"]}, {"args": ["-D"]}, {"args": ["-v", "-D"]}, id="args are concatenated"),
        pytest.param({}, {"args": ["-D"]}, {"args": ["-D"]}, id="args of the user alone"),
        pytest.param({"args": ["-v"]}, {"args": None}, {}, id="null takes the args away"),
        pytest.param({"command": ["a"]}, {"command": ["b"]}, {"command": ["b"]}, id="command is replaced"),
        pytest.param(
            {"env": env("A=1", "B=2")}, {"env": env("C=3", "B=4")}, {"env": env("C=3", "A=1", "B=4")},
            id="env merges by name",
        ),
        pytest.param(
            {"env": env("A=1")}, {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}]},
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}]},
            id="a variable has one source",
        ),
        pytest.param(
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "p"}}}]},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            id="a variable has one reference",
        ),
        pytest.param({"env": env("A=1")}, {"env": env("A=")}, {"env": env("A=")}, id="an empty variable wins"),
        pytest.param(
            {"env": env("A=1")}, {"env": [{"name": "A"}]}, {"env": env("A=1")}, id="a bare name changes nothing"
        ),
        pytest.param(
            {"ports": [{"containerPort": 6817, "name": "slurmctld", "protocol": "TCP"}]},
            {"ports": [{"containerPort": 6817, "hostPort": 1}, {"containerPort": 6817, "protocol": "UDP"}]},
            {
                "ports": [
                    {"containerPort": 6817, "name": "slurmctld", "protocol": "TCP", "hostPort": 1},
                    {"containerPort": 6817, "protocol": "UDP"},
                ]
            },
            id="ports merge by number and protocol",
        ),
        pytest.param(
            {"volumeMounts": [{"mountPath": "/run", "name": "run"}]},
            {"volumeMounts": [{"mountPath": "/data", "name": "d"}, {"mountPath": "/run", "name": "mine"}]},
            {"volumeMounts": [{"mountPath": "/data", "name": "d"}, {"mountPath": "/run", "name": "mine"}]},
            id="mounts merge by path",
        ),
        pytest.param(
            {"securityContext": {"privileged": True, "capabilities": {"add": ["A"]}}},
            {"securityContext": {"privileged": False, "capabilities": {"add": ["B"]}}},
            {"securityContext": {"privileged": False, "capabilities": {"add": ["B"]}}},
            id="privileged false wins",
        ),
        pytest.param(
            {"livenessProbe": HTTP}, {"livenessProbe": {"periodSeconds": 30}},
            {"livenessProbe": {**HTTP, "periodSeconds": 30}},
            id="a probe without handler keeps ours",
        ),
        pytest.param(
            {"startupProbe": HTTP}, {"startupProbe": {"exec": {"command": ["true"]}}},
            {"startupProbe": {"exec": {"command": ["true"]}, "periodSeconds": 10, "failureThreshold": 6}},
            id="a probe with handler replaces ours and keeps the numbers",
        ),
        pytest.param(
            {"readinessProbe": HTTP}, {"readinessProbe": {"httpGet": {"port": 1}}},
            {"readinessProbe": {"httpGet": {"port": 1}, "periodSeconds": 10, "failureThreshold": 6}},
            id="a handler of the same sort is replaced as a whole",
        ),
        pytest.param({"livenessProbe": HTTP}, {"livenessProbe": None}, {}, id="null takes the probe away"),
        pytest.param(
            {"lifecycle": {"preStop": {"exec": {"command": ["a"]}}}},
            {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
            {"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
            id="a hook has one handler",
        ),
        pytest.param(
            {"resources": {"limits": {"cpu": "1", "memory": "1Gi"}}}, {"resources": {"limits": {"cpu": "2"}}},
            {"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}},
            id="resources merge",
        ),
    ],
)  # fmt: skip
def test_container_overlay(base: Json, user: Json, expected: Json) -> None:
    assert merge_container(base, user) == expected


@pytest.mark.parametrize(
    ("base", "user", "expected"),
    [
        pytest.param(
            {"containers": [{"name": "slurmd"}], "initContainers": [{"name": "logfile"}]},
            {"containers": [{"name": "exporter"}], "initContainers": [{"name": "setup"}]},
            {"containers": [{"name": "slurmd"}, {"name": "exporter"}],
             "initContainers": [{"name": "logfile"}, {"name": "setup"}]},
            id="containers of the user come last",
        ),
        pytest.param(
            {"containers": [{"name": "a", "args": ["1"]}, {"name": "b"}]},
            {"containers": [{"name": "c"}, {"name": "a", "args": ["2"], "tty": False}]},
            {"containers": [{"name": "a", "args": ["1", "2"], "tty": False}, {"name": "b"}, {"name": "c"}]},
            id="a container with our name is merged in its place",
        ),
        pytest.param(
            {"tolerations": [{"key": "ours"}]}, {"tolerations": [{"key": "theirs"}, {"key": "ours"}]},
            {"tolerations": [{"key": "ours"}, {"key": "theirs"}]},
            id="tolerations are united",
        ),
        pytest.param(
            {"tolerations": [{"key": "ours"}]}, {"tolerations": []}, {"tolerations": [{"key": "ours"}]},
            id="an empty list takes no toleration away",
        ),
        pytest.param({"tolerations": [{"key": "ours"}]}, {"tolerations": None}, {}, id="null takes them away"),
        pytest.param(
            {"tolerations": [{"key": "ours"}]}, {"tolerations": [{"$patch": "replace"}, {"key": "theirs"}]},
            {"tolerations": [{"key": "theirs"}]},
            id="$patch replace replaces them on purpose",
        ),
        pytest.param(
            {"dnsConfig": {"searches": ["ours"], "nameservers": ["10.0.0.1"],
                           "options": [{"name": "ndots", "value": "5"}, {"name": "edns0"}]}},
            {"dnsConfig": {"searches": ["theirs", "ours"], "nameservers": ["10.0.0.2"],
                           "options": [{"name": "ndots", "value": "2"}]}},
            {"dnsConfig": {"searches": ["ours", "theirs"], "nameservers": ["10.0.0.1", "10.0.0.2"],
                           "options": [{"name": "edns0"}, {"name": "ndots", "value": "2"}]}},
            id="dns names are united and options of the user win by name",
        ),
        pytest.param(
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host"}]}}},
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}], PREFERRED: [{"weight": 1}]},
                          "podAffinity": {PREFERRED: [{"weight": 2}]}}},
            {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "host"}, {"topologyKey": "zone"}],
                                              PREFERRED: [{"weight": 1}]},
                          "podAffinity": {PREFERRED: [{"weight": 2}]}}},
            id="pod affinity terms are united",
        ),
        pytest.param(
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1}]}}},
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 2}]}}},
            {"affinity": {"nodeAffinity": {PREFERRED: [{"weight": 1}, {"weight": 2}]}}},
            id="preferred node terms are united",
        ),
        pytest.param(
            {"volumes": [{"name": "statesave", "emptyDir": {}}]},
            {"volumes": [{"name": "statesave", "persistentVolumeClaim": {"claimName": "c"}}]},
            {"volumes": [{"name": "statesave", "persistentVolumeClaim": {"claimName": "c"}}]},
            id="a volume has one source",
        ),
        pytest.param(
            {"volumes": [{"name": "etc", "projected": {"defaultMode": 392, "sources": [1]}}]},
            {"volumes": [{"name": "etc", "projected": {"defaultMode": 0}}]},
            {"volumes": [{"name": "etc", "projected": {"defaultMode": 0, "sources": [1]}}]},
            id="a volume of the same source is merged",
        ),
        pytest.param(
            {"imagePullSecrets": [{"name": "a"}]}, {"imagePullSecrets": [{"name": "b"}, {"name": "a"}]},
            {"imagePullSecrets": [{"name": "b"}, {"name": "a"}]},
            id="pull secrets merge by name",
        ),
    ],
)  # fmt: skip
def test_pod_overlay(base: Json, user: Json, expected: Json) -> None:
    assert merge_pod_spec(base, user) == expected


PIN = {"matchFields": [expression("metadata.name", "node-1")]}
ZONE_A, ZONE_B = ({"matchExpressions": [expression("zone", zone)]} for zone in "ab")


@pytest.mark.parametrize(
    ("base", "user", "expected"),
    [
        pytest.param([PIN], [ZONE_A], [{**ZONE_A, **PIN}], id="one and one"),
        pytest.param([PIN], [ZONE_A, ZONE_B], [{**ZONE_A, **PIN}, {**ZONE_B, **PIN}], id="one and two"),
        pytest.param(
            [{"matchExpressions": [expression("gpu", "yes")]}],
            [{"matchExpressions": [expression("zone", "a"), expression("gpu", "yes")]}],
            [{"matchExpressions": [expression("gpu", "yes"), expression("zone", "a")]}],
            id="a requirement of both is said once",
        ),
        pytest.param([PIN], [], [PIN], id="no term of the user"),
        pytest.param([], [ZONE_A], [ZONE_A], id="no term of ours"),
        pytest.param([PIN], [{}, ZONE_A], [{**ZONE_A, **PIN}], id="an empty term matches no node and is dropped"),
        pytest.param([PIN], [{}], [{}], id="only empty terms still match no node"),
        pytest.param([PIN], [{"matchFields": None}], [{}], id="a term emptied by null matches no node"),
    ],
)
def test_required_node_affinity_is_narrowed_never_widened(
    base: list[Json], user: list[Json], expected: list[Json]
) -> None:
    assert merge_pod_spec(node_terms(*base), node_terms(*user)) == node_terms(*expected)


@pytest.mark.parametrize(
    ("user", "path"),
    [
        pytest.param(node_terms("a"), "nodeSelectorTerms[0]", id="a term that is text"),  # type: ignore[arg-type]  # the bad input
        pytest.param(node_terms({"matchFields": "a"}), "matchFields", id="requirements that are text"),
        pytest.param({"dnsConfig": {"options": ["ndots:2"]}}, "options[0]", id="a dns option that is text"),
    ],
)
def test_a_malformed_pod_spec_names_its_place(user: Json, path: str) -> None:
    base = {**node_terms(PIN), "dnsConfig": {"options": [{"name": "edns0"}]}}
    with pytest.raises(MergeConflict) as caught:
        merge_pod_spec(base, user)
    assert format_path(caught.value.steps).endswith(path)


SERVICE = {
    "selector": {"app": "slurmctld"},
    "ports": [{"name": "slurmctld", "port": 6817, "targetPort": "slurmctld"}],
    "publishNotReadyAddresses": True,
}
METRICS = {"name": "metrics", "port": 9100}


@pytest.mark.parametrize(
    ("user", "changed"),
    [
        pytest.param({}, {}, id="nothing changes nothing"),
        pytest.param({"type": "LoadBalancer"}, {"type": "LoadBalancer"}, id="fields are taken verbatim"),
        pytest.param({"externalIPs": ["192.0.2.1"]}, {}, id="external addresses are dropped"),
        pytest.param(
            {"selector": {"app": "mine", "tier": "a"}}, {"selector": {"app": "slurmctld", "tier": "a"}},
            id="our selector labels win",
        ),
        pytest.param({"ports": [METRICS]}, {"ports": [METRICS, SERVICE["ports"][0]]}, id="our port comes last"),  # type: ignore[index]  # JSON
        pytest.param({"ports": None, "selector": None}, {}, id="our port and selector cannot be taken away"),
        pytest.param({"publishNotReadyAddresses": False}, {"publishNotReadyAddresses": False}, id="false wins"),
        pytest.param({"loadBalancerIP": None}, {}, id="null of a missing field is nothing"),
    ],
)  # fmt: skip
def test_service_overlay(user: Json, changed: Json) -> None:
    assert merge_service_spec(SERVICE, user) == {**SERVICE, **changed}


def test_null_takes_a_field_of_ours_from_the_service() -> None:
    assert "publishNotReadyAddresses" not in merge_service_spec(SERVICE, {"publishNotReadyAddresses": None})


def test_a_service_without_ports_of_ours_keeps_the_ports_of_the_user() -> None:
    assert merge_service_spec({}, {"ports": [{"port": 1}]}) == {"ports": [{"port": 1}]}


def test_one_number_may_serve_two_protocols() -> None:
    ports = merge_service_spec(SERVICE, {"ports": [{"name": "u", "port": 6817, "protocol": "UDP"}]})["ports"]
    assert [port["name"] for port in ports] == ["u", "slurmctld"]


@pytest.mark.parametrize(
    ("ports", "path", "message"),
    [
        pytest.param([{"name": "slurmctld", "port": 1}], "ports[1].name", "slurmctld is taken by ports[0]", id="name"),
        pytest.param([{"name": "x", "port": 6817}], "ports[1].port", "6817/TCP is taken by ports[0]", id="number"),
        pytest.param([METRICS, METRICS], "ports[1].name", "metrics is taken by ports[0]", id="the user's own"),
        pytest.param([{"port": 1}], "ports[0].name", "needs a name", id="no name"),
        pytest.param(["http"], "ports[0]", "must be an object, not str", id="text for a port"),
        pytest.param("http", "ports", "must be a list, not str", id="text for the ports"),
    ],
)
def test_ports_that_conflict_are_refused(ports: Any, path: str, message: str) -> None:
    with pytest.raises(MergeConflict) as caught:
        merge_service_spec(SERVICE, {"ports": ports})
    assert format_path(caught.value.steps) == path
    assert message in caught.value.message


def test_a_selector_that_is_no_map_is_refused() -> None:
    with pytest.raises(MergeConflict, match="selector: must be an object, not str"):
        merge_service_spec(SERVICE, {"selector": "app"})


SCALARS = st.one_of(st.booleans(), st.integers(-2, 2), st.sampled_from(["", "a", "b"]))
NAMES = st.sampled_from("abcd")
TOLERATION = st.fixed_dictionaries({"key": NAMES}, optional={"value": SCALARS, "operator": SCALARS})


def keyed(key: str, **optional: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Json]]:
    item = st.fixed_dictionaries({key: NAMES}, optional=optional)
    return st.lists(item, max_size=4, unique_by=lambda one: str(one[key]))


CONTAINERS = keyed(
    "name",
    image=SCALARS,
    args=st.lists(NAMES, max_size=2),
    command=st.lists(NAMES, max_size=2),
    env=keyed("name", value=SCALARS),
    volumeMounts=keyed("mountPath", name=NAMES),
    livenessProbe=st.fixed_dictionaries({}, optional={"exec": st.just({}), "periodSeconds": SCALARS}),
)  # fmt: skip
POD_SPECS = st.fixed_dictionaries(
    {},
    optional={
        "containers": CONTAINERS,
        "initContainers": CONTAINERS,
        "hostNetwork": SCALARS,
        "hostname": SCALARS,
        "nodeSelector": st.dictionaries(NAMES, SCALARS, max_size=3),
        "volumes": keyed("name", emptyDir=st.just({}), hostPath=st.just({"path": "/"})),
        "tolerations": st.lists(TOLERATION, max_size=3),
        "dnsConfig": st.fixed_dictionaries({}, optional={"searches": st.lists(NAMES, max_size=3)}),
        "affinity": st.fixed_dictionaries(
            {}, optional={"podAntiAffinity": st.fixed_dictionaries({REQUIRED: st.lists(TOLERATION, max_size=2)})}
        ),
    },
)  # fmt: skip
MERGES = st.sampled_from([plain, merge_pod_spec])


def directives(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [key for key in value if key.startswith("$")] + [d for item in value.values() for d in directives(item)]
    return [found for item in value for found in directives(item)] if isinstance(value, list) else []


def sprinkled(draw: st.DrawFn, value: Any) -> Any:
    """Put nulls and directives where a user could."""
    if isinstance(value, list):
        return [sprinkled(draw, item) for item in value]
    if not isinstance(value, dict):
        return value
    result = {key: sprinkled(draw, item) for key, item in value.items()}
    extra: Json = draw(st.sampled_from([{}, {}, {}, {"$patch": "replace"}, {"$patch": "delete"}, {"x": None}]))
    return {**result, **extra}


@st.composite
def patches(draw: st.DrawFn) -> Json:
    return dict(sprinkled(draw, draw(POD_SPECS)))


@settings(deadline=None)
@given(MERGES, POD_SPECS)
def test_laying_nothing_over_changes_nothing(how: Any, base: Json) -> None:
    assert how(base, {}) == base


@settings(deadline=None)
@given(MERGES, POD_SPECS, patches())
def test_no_input_is_mutated_and_no_directive_or_null_is_left(how: Any, base: Json, patch: Json) -> None:
    before = copy.deepcopy((base, patch))
    result = how(base, patch)
    assert (base, patch) == before
    assert directives(result) == []
    assert "None" not in repr(result)


@settings(deadline=None)
@given(MERGES, POD_SPECS, POD_SPECS)
def test_the_result_shares_no_part_with_the_base(how: Any, base: Json, user: Json) -> None:
    result, before = how(base, user), copy.deepcopy(base)
    scribble(result)
    assert base == before


def scribble(value: Any) -> None:
    for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        scribble(item)
    if isinstance(value, dict):
        value["scribbled"] = True
    if isinstance(value, list):
        value.append("scribbled")


@settings(deadline=None)
@given(MERGES, POD_SPECS, POD_SPECS)
def test_scalars_of_the_user_always_win(how: Any, base: Json, user: Json) -> None:
    result = how(base, user)
    for name in ("hostNetwork", "hostname"):
        assert result.get(name) == user.get(name, base.get(name))
    assert result.get("nodeSelector", {}) == {**base.get("nodeSelector", {}), **user.get("nodeSelector", {})}
    for container in user.get("containers", []):
        merged = next(one for one in result["containers"] if one["name"] == container["name"])
        assert merged.get("image") == container.get("image", merged.get("image"))


@settings(deadline=None)
@given(POD_SPECS, POD_SPECS)
def test_what_the_operator_needs_stays(base: Json, user: Json) -> None:
    result = merge_pod_spec(base, user)
    for item in base.get("tolerations", []):
        assert item in result["tolerations"]
    for search in base.get("dnsConfig", {}).get("searches", []):
        assert search in result["dnsConfig"]["searches"]
    for term in base.get("affinity", {}).get("podAntiAffinity", {}).get(REQUIRED, []):
        assert term in result["affinity"]["podAntiAffinity"][REQUIRED]
    names = [container["name"] for container in base.get("containers", [])]
    assert [container["name"] for container in result.get("containers", [])][: len(names)] == names


def test_every_rule_of_the_overlay_names_a_type_on_the_way_down() -> None:
    types = {field.type for field in MERGE_KEYS.values()} | {"PodSpec"}
    named = {slot.partition(".")[0] for slot in (*overlay._LISTS, *overlay._BASE_FIRST)}
    assert named | set(overlay._HANDLERS) | overlay._ONE_SOURCE <= types


def test_many_terms_that_would_be_paired_are_refused_with_the_bound() -> None:
    """T3: every pair of terms becomes a term."""
    ours = node_terms(*({"matchExpressions": [expression(f"o{at}", "1")]} for at in range(2)))
    user = node_terms(*({"matchExpressions": [expression(f"u{at}", "1")]} for at in range(overlay.MAX_TERMS)))
    with pytest.raises(MergeConflict) as caught:
        merge_pod_spec(ours, user)
    assert format_path(caught.value.steps).endswith("nodeSelectorTerms")
    assert f"at most {overlay.MAX_TERMS // 2} are allowed" in caught.value.message


def test_an_item_named_again_and_again_is_refused() -> None:
    """T3: each repetition is merged at the cost of all that is there already."""
    few = [{"name": "a", "value": str(at)} for at in range(MAX_REPEATS)]
    assert merge_container({}, {"env": few})["env"] == [few[-1]]
    with pytest.raises(MergeConflict) as caught:
        merge_container({}, {"env": [*few, {"name": "a"}]})
    assert format_path(caught.value.steps) == f"env[{MAX_REPEATS}].name"
