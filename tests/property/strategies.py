"""Hypothesis strategies for custom resources: drawn from the CRD schemas, with hand-written parts where they are open.

In: the name of a kind. Out: raw manifests that are right, or nearly so. Used by `test_worlds.py`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st

from slurm_operator.api.meta import API_VERSION
from slurm_operator.api.validate import schema_of

Raw = dict[str, Any]
Values = st.SearchStrategy[Any]

NAMESPACE = "slurm"
PAYLOADS = (
    "a\nSlurmUser=root",
    "a\r",
    "a\x00b",
    "a\x1b[2J",
    "a\u2028b",
    "a\u00a0b",
    "a # b",
    "a\\",
    "a \\ ",
    'a"b',
    "a'b",
    "$(reboot)",
    "`reboot`",
    "a" * 4096,
    "Include /etc/passwd",
    "a=b",
    "a b",
    "",
    " ",
    "-",
    "a\n",
    "名前",
    "\ud800",
)
GOOD_NAMES = ("a", "compute", "gpu-1", "x" * 30)
ODD_NAMES = ("a.b", "Upper", "under_score", "x" * 64, "x" * 254)


def mostly(good: Values, odd: Values) -> Values:
    """Four times out of five what is likely to be right."""
    return st.integers(0, 4).flatmap(lambda dice: odd if dice == 4 else good)


payload = st.sampled_from(PAYLOADS)
name = mostly(st.sampled_from(GOOD_NAMES), st.sampled_from(ODD_NAMES))
word = mostly(st.sampled_from((*GOOD_NAMES, "10")), st.one_of(st.sampled_from(ODD_NAMES), payload))
small = st.integers(0, 3)
quantity = st.sampled_from(("1", "500m", "4Gi", "1.5", 2, "1e3", "0"))


def some(**fields: Values) -> Values:
    """A mapping with any of these fields."""
    return st.fixed_dictionaries({}, optional=fields)


def few(item: Values) -> Values:
    """A short list."""
    return st.lists(item, max_size=2)


def string_map() -> Values:
    """Labels, annotations or a node selector."""
    return st.dictionaries(st.sampled_from(("a", "b.example/c")), st.sampled_from(("x", "y", "")), max_size=2)


def env() -> Values:
    """One environment variable."""
    plain = st.fixed_dictionaries({"name": st.sampled_from(("A", "SLURM_JWT", "POD_CPUS")), "value": word})
    field = st.just({"name": "B", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}})
    return st.one_of(plain, field)


def probe() -> Values:
    """A probe, with or without a handler."""
    return some(
        httpGet=st.just({"path": "/", "port": 80}),
        exec=st.just({"command": ["true"]}),
        periodSeconds=small,
        failureThreshold=st.integers(1, 5),
    )


def security() -> Values:
    """A container's security context."""
    return some(
        privileged=st.booleans(),
        runAsUser=st.integers(0, 2**31),
        capabilities=some(add=few(st.sampled_from(("BPF", "SYS_ADMIN"))), drop=few(st.just("ALL"))),
        readOnlyRootFilesystem=st.booleans(),
    )


def resources() -> Values:
    """Requests and limits."""
    amounts = st.dictionaries(st.sampled_from(("cpu", "memory", "nvidia.com/gpu")), quantity, max_size=3)
    return some(limits=amounts, requests=amounts)


def mount() -> Values:
    """A volume mount."""
    return st.fixed_dictionaries(
        {"name": st.sampled_from(("slurm-etc", "scratch")), "mountPath": st.sampled_from(("/etc/slurm", "/mnt"))},
        optional={"readOnly": st.booleans(), "subPath": name},
    )


def port() -> Values:
    """A container port."""
    return st.fixed_dictionaries(
        {"containerPort": st.sampled_from((22, 6818, 2222))},
        optional={"name": st.sampled_from(("login", "slurmd", "extra")), "protocol": st.sampled_from(("TCP", "UDP"))},
    )


def container() -> Values:
    """A container overlay."""
    return some(
        name=st.sampled_from(("slurmd", "other")),
        image=st.sampled_from(("slurmd:25.11-x", "slurmd:24.11", "repo:5000/slurmd", "x@sha256:0", "")),
        imagePullPolicy=st.sampled_from(("Always", "Never")),
        args=few(word),
        command=few(word),
        env=few(env()),
        envFrom=few(st.just({"configMapRef": {"name": "a"}})),
        ports=few(port()),
        resources=resources(),
        volumeMounts=few(mount()),
        securityContext=security(),
        readinessProbe=probe(),
        livenessProbe=probe(),
        startupProbe=probe(),
        lifecycle=some(preStop=st.just({"exec": {"command": ["true"]}})),
        workingDir=word,
        tty=st.booleans(),
    )


def volume() -> Values:
    """A pod's volume."""
    return st.sampled_from(
        (
            {"name": "scratch", "emptyDir": {}},
            {"name": "slurm-etc", "emptyDir": {"medium": "Memory"}},
            {"name": "data", "hostPath": {"path": "/data"}},
            {"name": "run", "configMap": {"name": "a"}},
        )
    )


def affinity() -> Values:
    """Affinity of one kind or another."""
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"a": "b"}}}
    nodes = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Exists"}]}]}
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    return some(
        podAntiAffinity=st.just({required: [term]}),
        podAffinity=st.just({required: [term]}),
        nodeAffinity=st.just({required: nodes}),
    )


def pod_spec() -> Values:
    """A pod overlay."""
    named = st.builds(lambda one, title: {**one, "name": title}, container(), st.sampled_from(("slurmd", "side")))
    return some(
        hostname=mostly(st.sampled_from(("gpu-", "a", "node")), word),
        containers=few(named),
        initContainers=few(named),
        volumes=few(volume()),
        tolerations=few(some(key=st.just("a"), operator=st.just("Exists"), effect=st.just("NoSchedule"))),
        nodeSelector=string_map(),
        affinity=affinity(),
        dnsConfig=some(searches=few(st.just("example")), nameservers=few(st.just("10.0.0.1"))),
        dnsPolicy=st.just("None"),
        hostNetwork=st.booleans(),
        nodeName=name,
        priorityClassName=name,
        serviceAccountName=name,
        terminationGracePeriodSeconds=small,
        securityContext=some(runAsUser=small, fsGroup=small),
        topologySpreadConstraints=few(
            st.just({"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"})
        ),
        automountServiceAccountToken=st.booleans(),
        imagePullSecrets=few(st.just({"name": "a"})),
        resources=resources(),
    )


def template() -> Values:
    """A pod template overlay."""
    return some(metadata=some(labels=string_map(), annotations=string_map()), spec=pod_spec())


def service() -> Values:
    """A Service overlay."""
    extra = st.fixed_dictionaries({"name": st.sampled_from(("more", "login")), "port": st.sampled_from((22, 80))})
    spec = some(
        type=st.sampled_from(("ClusterIP", "NodePort", "LoadBalancer")),
        externalIPs=few(st.just("192.0.2.1")),
        ports=few(extra),
        selector=string_map(),
        sessionAffinity=st.just("ClientIP"),
    )
    return some(
        metadata=some(labels=string_map(), annotations=string_map()),
        spec=spec,
        port=st.sampled_from((0, 22, 80, 65535)),
        nodePort=st.sampled_from((0, 30000)),
    )


def claim() -> Values:
    """A volume claim template."""
    spec = some(
        accessModes=few(st.just("ReadWriteOnce")),
        resources=st.just({"requests": {"storage": "1Gi"}}),
        storageClassName=name,
    )
    title = mostly(st.sampled_from(("data", "slurm-etc")), word)
    meta = st.fixed_dictionaries({"name": title}, optional={"labels": string_map()})
    return mostly(st.fixed_dictionaries({"metadata": meta, "spec": spec}), some(metadata=meta, spec=spec))


def controller_ref() -> Values:
    """Mostly the Controller that is there."""
    good = st.just({"name": "slurm"})
    return mostly(good, some(name=word, namespace=st.sampled_from((NAMESPACE, "other", ""))))


def key_ref() -> Values:
    """A key of a Secret that is there, or not."""
    good = st.just({"name": "keys", "key": "key"})
    return mostly(good, st.fixed_dictionaries({"key": word}, optional={"name": word}))


def conf_lines() -> Values:
    """Lines of slurm.conf, some of which the operator writes too."""
    lines = (
        "SelectType=select/cons_tres",
        "SlurmctldParameters=enable_stepmgr,idle_on_node_suspend",
        "AuthInfo=ttl=300",
        "AuthAltParameters=disable_token_creation",
        "NodeName=ext[1-4] CPUs=4",
        "PartitionName=extra Nodes=ext1 Default=YES",
        "MaxNodeCount=9",
        "# a comment",
        "",
        "TaskPlugin=task/affinity \\",
        "Include more.conf",
        'Prolog="/a b"',
    )
    good = st.lists(st.sampled_from(lines), max_size=4).map("\n".join)
    return mostly(good, st.one_of(payload, st.text(max_size=20), st.just("\r\nA=b")))


def options() -> Values:
    """`Key=Value` options of a node or a partition."""
    pairs = st.sampled_from(("Weight=10", "Gres=gpu:4", "Features=a,b", "feature=c", "MaxTime=1:00", "Default=YES"))
    odd = st.sampled_from(('A="b"', 'A="b', "Nodes=ALL", "PartitionName=x", "State", "=x", "A=\u00a0B=c"))
    return mostly(
        st.lists(pairs, max_size=3).map(" ".join),
        st.one_of(st.lists(st.one_of(pairs, odd), max_size=3).map(" ".join), payload),
    )


def config_map_refs() -> Values:
    """ConfigMaps with files: mostly good ones."""
    good = st.lists(st.sampled_from(({"name": "scripts"}, {"name": "gres"})), max_size=2)
    return mostly(good, st.one_of(st.none(), few(some(name=word))))


OPEN: dict[str, Values] = {
    "slurmctld": container(),
    "reconfigure": container(),
    "logfile": container(),
    "slurmd": container(),
    "login": container(),
    "initconf": container(),
    "slurmrestd": container(),
    "slurmdbd": container(),
    "template": template(),
    "service": service(),
    "controllerRef": controller_ref(),
    "slurmKeyRef": key_ref(),
    "jwtKeyRef": key_ref(),
    "passwordKeyRef": key_ref(),
    "sssdConfRef": key_ref(),
    "secretRef": key_ref(),
    "accountingRef": st.sampled_from(({"name": "db"}, {"name": "none"}, {})),
    "configFileRefs": config_map_refs(),
    "prologScriptRefs": config_map_refs(),
    "epilogScriptRefs": config_map_refs(),
    "prologSlurmctldScriptRefs": config_map_refs(),
    "epilogSlurmctldScriptRefs": config_map_refs(),
    "volumeClaimTemplates": st.one_of(st.none(), few(claim())),
    "extraConf": st.one_of(conf_lines(), options()),
    "config": options(),
    "clusterName": mostly(
        st.sampled_from(
            (
                "c",
                "my_cluster",
            )
        ),
        word,
    ),
    "host": mostly(
        st.sampled_from(
            (
                "db.example",
                "10.0.0.1",
                "fe80::1",
            )
        ),
        word,
    ),
    "port": mostly(
        st.sampled_from(
            (
                1,
                3306,
                65535,
            )
        ),
        st.just(0),
    ),
    "nodeSets": mostly(
        st.sampled_from((["compute"], ["gpu", "compute"], ["ALL"])),
        st.lists(st.sampled_from(("compute", "ALL", "all", "none", "a\n")), max_size=2),
    ),
    "nodes": mostly(
        st.sampled_from(
            (
                "ext1",
                "+ext[1-2],-compute-0",
                "compute-0",
            )
        ),
        st.one_of(st.sampled_from(("n[0-99999999]", "n[1-")), word),
    ),
    "tresBillingWeights": st.dictionaries(st.sampled_from(("CPU", "Mem", "GRES/gpu", "a b")), word, max_size=2),
    "maxNodes": mostly(
        st.sampled_from(
            (
                0,
                5,
                "7",
                "UNLIMITED",
            )
        ),
        st.sampled_from(
            (
                "x",
                "7\n",
            )
        ),
    ),
    "maxUnavailable": mostly(
        st.sampled_from(
            (
                1,
                3,
                "25%",
            )
        ),
        st.sampled_from(
            (
                -1,
                0,
                "0%",
                "101%",
                "5%\n",
                "x",
            )
        ),
    ),
    "startTime": mostly(
        st.sampled_from(("2026-01-31T22:00:00Z",)),
        st.sampled_from(
            (
                "2026-13-31T22:00:00Z",
                "now",
                "2026-01-31T22:00:00Z\n",
            )
        ),
    ),
    "duration": mostly(
        st.sampled_from(
            (
                "30m",
                "2h",
            )
        ),
        st.sampled_from(
            (
                "10s",
                "0s",
                "x",
                "٣m",
                "",
            )
        ),
    ),
    "lifetime": mostly(
        st.sampled_from(
            (
                "15m",
                "1h30m",
                "999999h",
                "",
            )
        ),
        st.sampled_from(
            (
                "0s",
                "x",
            )
        ),
    ),
    "username": mostly(
        st.sampled_from(
            (
                "alice",
                "svc$",
            )
        ),
        word,
    ),
    "defaultTime": mostly(st.sampled_from(("1:00", "UNLIMITED")), st.just("1:00:")),
    "overSubscribe": mostly(st.sampled_from(("NO", "FORCE:4", "yes")), st.sampled_from(("x", "NO\n"))),
    "scrapeTimeout": mostly(st.just("10s"), word),
    "maxTime": mostly(
        st.sampled_from(
            (
                "1:00",
                "UNLIMITED",
                "1-0",
            )
        ),
        st.sampled_from(
            (
                "x",
                "1:00\n",
            )
        ),
    ),
    "interval": mostly(
        st.sampled_from(("30s",)),
        st.sampled_from(
            (
                "x",
                "30s\n",
            )
        ),
    ),
    "rootSshAuthorizedKeys": mostly(st.just("ssh-ed25519 AAAA me"), payload),
    "extraSshdConfig": mostly(st.just("LoginGraceTime 600\nPermitRootLogin no"), payload),
    "existingClaim": mostly(st.just("state"), word),
    "limits": st.dictionaries(st.just("storage"), quantity, max_size=1),
    "requests": st.dictionaries(st.just("storage"), quantity, max_size=1),
    # Two workers say as much as two thousand.
    "replicas": mostly(
        st.sampled_from(
            (
                0,
                1,
                2,
            )
        ),
        st.sampled_from(
            (
                65534,
                2147483647,
                -1,
            )
        ),
    ),
}


def of_schema(schema: Raw, field: str = "") -> Values:
    """Values that a schema allows, and for strings some that only the rules can judge."""
    if field in OPEN:
        return OPEN[field]
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(st.integers(0, 5), st.sampled_from(("25%", "1")))
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    kind = schema["type"]
    if kind == "object":
        return _object(schema)
    if kind == "array":
        return few(of_schema(schema["items"]))
    if kind == "integer":
        return st.sampled_from(sorted({schema.get("minimum", 0), 1, 9, schema.get("maximum", 9)}))
    return st.booleans() if kind == "boolean" else word


def _object(schema: Raw) -> Values:
    if "properties" not in schema:
        return st.dictionaries(st.sampled_from(("a", "b")), of_schema(schema["additionalProperties"]), max_size=2)
    fields = {field: of_schema(part, field) for field, part in schema["properties"].items()}
    required = {field: fields.pop(field) for field in schema.get("required", ())}
    return st.fixed_dictionaries(required, optional=fields)


NEEDED: dict[str, Raw] = {
    "Controller": {"slurmKeyRef": {"name": "keys", "key": "key"}, "jwtKeyRef": {"name": "keys", "key": "key"}},
    "Accounting": {
        "slurmKeyRef": {"name": "keys", "key": "key"},
        "jwtKeyRef": {"name": "keys", "key": "key"},
        "storageConfig": {"host": "db", "passwordKeyRef": {"name": "keys", "key": "key"}},
    },
    "Token": {"username": "alice", "jwtKeyRef": {"name": "keys", "key": "key"}},
    "NodeSet": {"controllerRef": {"name": "slurm"}},
    "RestApi": {"controllerRef": {"name": "slurm"}},
    "LoginSet": {"controllerRef": {"name": "slurm"}, "sssdConfRef": {"name": "keys", "key": "key"}},
    "Partition": {"controllerRef": {"name": "slurm"}, "nodeSets": ["compute"]},
}


@st.composite
def valid_spec(draw: st.DrawFn, kind: str) -> Raw:
    """What a kind needs, and a few fields more: most of these are let in."""
    properties = schema_of(kind)["properties"]["spec"]["properties"]
    chosen = draw(st.lists(st.sampled_from(sorted(properties)), max_size=4, unique=True))
    more = {field: draw(of_schema(properties[field], field)) for field in chosen}
    return {**copy.deepcopy(NEEDED[kind]), **more}


def any_spec(kind: str) -> Values:
    """Any fields at all: most of these are refused."""
    return of_schema(schema_of(kind)["properties"]["spec"])


@st.composite
def resource(draw: st.DrawFn, kind: str) -> Raw:
    """A resource that is right, nearly right, or spoilt in one place."""
    spec = draw(mostly(valid_spec(kind), any_spec(kind)))
    title = draw(mostly(st.sampled_from(("one", "two")), name))
    meta: Raw = {"name": title, "namespace": NAMESPACE, "uid": "0", **draw(some(labels=string_map()))}
    raw = {"apiVersion": API_VERSION, "kind": kind, "metadata": meta, "spec": spec}
    return draw(spoilt(raw)) if draw(st.integers(0, 5)) == 5 else raw


JUNK = st.one_of(
    st.sampled_from((None, True, -1, 0, 2**40, 1.5, "", [], {}, [None], {"a": None}, {"$patch": "delete"})), payload
)


@st.composite
def spoilt(draw: st.DrawFn, raw: Raw) -> Raw:
    """The resource with one value replaced, taken away or added."""
    result = copy.deepcopy(raw)
    spots = list(places(result))
    holder, key = draw(st.sampled_from(spots))
    change = draw(st.sampled_from(("replace", "remove", "add")))
    if change == "remove":
        del holder[key]
    elif change == "add" and isinstance(holder, dict):
        holder[draw(st.sampled_from(("unknown", "$patch", "replica", "\n")))] = draw(JUNK)
    else:
        holder[key] = draw(JUNK)
    return result


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every place in a value as its holder and key."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from places(item)
