"""slurm.conf: its only writer.

In: a Controller and `Refs`. Out: the text, section by section in a fixed order, and which partitions it accepts. Called
by `build/controller.py` and by `slurm-operator render --slurm-conf`. Every value is checked on its way in; lines are
sorted, so the same world always gives the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from slurm_operator.api import text
from slurm_operator.api.accounting import Accounting
from slurm_operator.api.controller import Controller
from slurm_operator.api.meta import LocalObjectReference
from slurm_operator.api.nodeset import NodeSet
from slurm_operator.api.problem import Path
from slurm_operator.api.restapi import RestApi
from slurm_operator.build import images, names, partition
from slurm_operator.build.errors import InvalidSpec
from slurm_operator.build.partition import Acceptance, Claimed
from slurm_operator.build.refs import Refs
from slurm_operator.slurm import conf, hostlist

FILE = "slurm.conf"
STATE_DIR = "/var/spool/slurmctld"
LOG_DIR = "/var/log/slurm"
ETC = "/etc/slurm"

# The first Slurm whose slurmrestd makes, changes and deletes partitions.
LIVE_PARTITIONS = (26, 5)
EXTRA_HEADER = "### EXTRA CONFIG ###"

MIN_NODES = 1024
MAX_NODES = 65533
NODE_GROWTH_FACTOR = 2

AUTH_ALT = "AuthAltParameters"
AUTH_INFO = "AuthInfo"
CTLD_PARAMETERS = "SlurmctldParameters"
RECONFIG_FLAGS = "ReconfigFlags"

# What a cluster stands or falls with; a second value would win silently and cut the daemons off.
OWNED_KEYS = frozenset(
    {
        "AuthAltTypes",
        "AuthType",
        "ClusterName",
        "CredType",
        "SlurmUser",
        "SlurmctldHost",
        "SlurmctldPort",
        "SlurmdPort",
        "StateSaveLocation",
    }
)

Line = str | tuple[str, str | int]
Section = tuple[str, list[Line]]


@dataclass(frozen=True, slots=True)
class SlurmConf:
    """The text of slurm.conf and what became of each wish for a partition."""

    text: str
    partitions: tuple[Acceptance, ...] = ()
    # The text where slurmrestd changes partitions, and where it does not; `text` is the one that the images promise.
    with_live_partitions: str = ""
    without_live_partitions: str = ""

    def text_for(self, *, live_partitions: bool | None) -> str:
        """The text for what slurmrestd offers; None where it has not said."""
        if live_partitions is None:
            return self.text
        return self.with_live_partitions if live_partitions else self.without_live_partitions


def slurm_conf(cr: Controller, refs: Refs) -> SlurmConf:
    """The slurm.conf of a cluster."""
    refs.demand_readable(cr)
    if cr.spec.external:
        return SlurmConf(write(_external(cr, refs)))
    extra = extra_conf(cr.spec.extra_conf)
    document = conf.parse(extra)
    nodesets = refs.nodesets_of(cr)
    partitions = refs.partitions_of(cr)
    found = tuple(partition.acceptances(nodesets, partitions, claimed(document, with_nodes=bool(partitions))))
    before: list[Section] = [("GENERAL", _general(cr, nodesets, refs, document)), ("LOGGING", _logging())]
    after: list[Section] = [
        ("ACCOUNTING", accounting_lines(refs.accounting_of(cr))),
        ("SLURMCTLD PROLOG & EPILOG", list(_slurmctld_scripts(cr, refs))),
        ("PROLOG & EPILOG", list(_scripts(cr, refs))),
        ("NODESET & PARTITION", list(_nodes_and_partitions(nodesets, found))),
        ("EXTRA CONFIG", [extra] if extra else []),
    ]

    def written(*, live: bool) -> str:
        own = managed(cr, live_partitions=live)
        plugins, more = ("PLUGINS & PARAMETERS", _plugins(cr, own)), ("MERGED CONFIG", list(merged(document, own)))
        return write(section for section in (*before, plugins, *after, more) if section[1])

    texts = {live: written(live=live) for live in (True, False)}
    return SlurmConf(texts[takes_partitions_live(cr, refs)], found, texts[True], texts[False])


def write(sections: Iterable[Section]) -> str:
    """Sections as text; every value is checked."""
    lines: list[str] = []
    for title, content in sections:
        lines += ["#", f"### {title} ###"]
        lines += [line if isinstance(line, str) else _pair(*line) for line in content]
    return "\n".join(lines) + "\n"


def _pair(key: str, value: str | int) -> str:
    problem = text.config_value(str(value))
    if problem:
        raise InvalidSpec(("spec",), f"{key}: {problem}")
    return f"{key}={value}"


def extra_conf(extra: str | None) -> str:
    """The user's lines, checked, without a line end."""
    problem = text.config_text(extra or "")
    if problem:
        raise InvalidSpec(("spec", "extraConf"), problem)
    return (extra or "").replace("\r\n", "\n").rstrip("\n")


def claimed(document: conf.Document, *, with_nodes: bool = True) -> Claimed:
    """The partitions, nodes and default that extraConf holds itself; only a Partition asks for the nodes."""
    records = list(document.all("PartitionName"))
    if len(records) > partition.MAX_PARTITIONS:
        message = f"declares {len(records)} partitions; at most {partition.MAX_PARTITIONS} are allowed"
        raise InvalidSpec(("spec", "extraConf"), message)
    defaults = [record.value for record in records if _is_yes(record.attribute("Default"))]
    return Claimed(
        partitions=frozenset(record.value for record in records),
        nodes=_nodes(record.value for record in document.all("NodeName")) if with_nodes else frozenset(),
        nodesets=frozenset(record.value for record in document.all("NodeSet")),
        default=defaults[-1] if defaults else None,
    )


def _is_yes(entry: conf.Entry | None) -> bool:
    return entry is not None and entry.value.lower() == "yes"


def _nodes(lists: Iterable[str]) -> frozenset[str]:
    """The hosts of all lists; a line may name a hundred thousand, but all of them together no more."""
    hosts: list[str] = []
    for written in lists:
        try:
            hosts += hostlist.expand(written, limit=hostlist.MAX_NAMES - len(hosts))
        except hostlist.HostListError:
            # The linter reports it; here it only means that no partition can name these hosts.
            continue
    return frozenset(hosts)


def _general(cr: Controller, nodesets: tuple[NodeSet, ...], refs: Refs, document: conf.Document) -> list[Line]:
    lines: list[Line] = [("ClusterName", checked_cluster_name(cr)), ("SlurmUser", "slurm")]
    lines += [("SlurmctldHost", host) for host in controller_hosts(cr)]
    lines.append(("SlurmctldPort", names.SLURMCTLD_PORT))
    if cr.replicas == 1:
        # With backups, clients must see every host: one address in front of them all may lead to a standby.
        lines.append(("SlurmctldAddr", names.short_host(names.controller(cr), cr.namespace)))
    lines += [
        ("StateSaveLocation", f"{STATE_DIR}/{cr.cluster_name}"),
        ("SlurmdUser", "root"),
        ("SlurmdPort", names.SLURMD_PORT),
        ("SlurmdSpoolDir", "/var/spool/slurmd"),
    ]
    if document.get("MaxNodeCount") is None:
        lines.append(("MaxNodeCount", max_node_count(nodesets, refs.kubernetes_nodes)))
    return lines


def checked_cluster_name(cr: Controller) -> str:
    """Slurm's ClusterName."""
    problem = text.cluster_name(cr.cluster_name)
    if problem:
        raise InvalidSpec(("spec", "clusterName"), problem)
    return cr.cluster_name


def controller_hosts(cr: Controller) -> Iterator[str]:
    """Name and address of each controller pod, the primary first."""
    service = names.controller_internal(cr)
    for ordinal in range(cr.replicas):
        pod = names.controller_pod(cr, ordinal)
        yield f"{pod}({pod}.{service}.{cr.namespace})"


def max_node_count(nodesets: Iterable[NodeSet], kubernetes_nodes: int) -> int:
    """Room for twice the nodes that are asked for, in powers of two so that it seldom changes."""
    wanted = sum(kubernetes_nodes if each.is_daemon else each.spec.replicas for each in nodesets)
    room = MIN_NODES
    while room < wanted * NODE_GROWTH_FACTOR:
        room *= 2
    return min(room, MAX_NODES)


def _logging() -> list[Line]:
    return [
        ("SlurmctldLogFile", f"{LOG_DIR}/slurmctld.log"),
        ("SlurmSchedLogFile", f"{LOG_DIR}/slurmctld.log"),
        ("SlurmdLogFile", f"{LOG_DIR}/slurmd.log"),
    ]


def managed(cr: Controller, *, live_partitions: bool) -> dict[str, tuple[str, ...]]:
    """List options that the operator needs; a user's items are added to them."""
    own: dict[str, tuple[str, ...]] = {
        AUTH_ALT: jwt_parameters(has_jwks=cr.spec.jwks_key_ref is not None),
        AUTH_INFO: ("use_client_ids",),
        CTLD_PARAMETERS: ("enable_configless", "reconfig_on_restart"),
    }
    # Without it a reconfigure or restart forgets what was changed live; with it, what only the file says is ignored.
    return {**own, RECONFIG_FLAGS: ("KeepPartInfo",)} if live_partitions else own


def takes_partitions_live(cr: Controller, refs: Refs) -> bool:
    """Whether partitions are changed through slurmrestd, as far as is known without asking it."""
    version = images.slurm_version(images.of(cr.spec.slurmctld, "slurmctld"))
    return cr.name in refs.served and version is not None and version >= LIVE_PARTITIONS


def may_serve_partitions(restapi: RestApi) -> bool:
    """Whether the image of a slurmrestd does not tell that it is too old to change partitions."""
    version = images.slurm_version(images.of(restapi.spec.slurmrestd, "slurmrestd"))
    return version is None or version >= LIVE_PARTITIONS


def keeps_partitions(text: str) -> bool:
    """Whether a slurm.conf that was written here counts on live partitions."""
    return f"{RECONFIG_FLAGS}=KeepPartInfo" in text.partition(EXTRA_HEADER)[0].splitlines()


def jwt_parameters(*, has_jwks: bool) -> tuple[str, ...]:
    """Where auth/jwt finds its keys."""
    jwt = f"jwt_key={ETC}/jwt.key"
    return (jwt, f"jwks={ETC}/jwks.json") if has_jwks else (jwt,)


def _plugins(cr: Controller, needed: Mapping[str, tuple[str, ...]]) -> list[Line]:
    own = {key: ",".join(items) for key, items in needed.items()}
    lines: list[Line] = [
        ("AuthType", "auth/slurm"),
        ("CredType", "cred/slurm"),
        ("AuthAltTypes", "auth/jwt"),
        (AUTH_ALT, own[AUTH_ALT]),
        (AUTH_INFO, own[AUTH_INFO]),
        (CTLD_PARAMETERS, own[CTLD_PARAMETERS]),
        *([(RECONFIG_FLAGS, own[RECONFIG_FLAGS])] if RECONFIG_FLAGS in own else []),
    ]
    return [*lines, ("MetricsType", "metrics/openmetrics")] if cr.spec.metrics.enabled else lines


def accounting_lines(accounting: Accounting | None) -> list[Line]:
    """Where slurmctld sends its accounting."""
    if accounting is None:
        return [("AccountingStorageType", "accounting_storage/none")]
    outside = accounting.spec.external_config if accounting.spec.external else None
    host = outside.host if outside else names.accounting(accounting)
    return [
        ("AccountingStorageType", "accounting_storage/slurmdbd"),
        ("AccountingStorageHost", checked_host(host, ("spec", "externalConfig", "host"))),
        ("AccountingStoragePort", outside.port if outside else names.SLURMDBD_PORT),
    ]


def checked_host(host: str, path: Path) -> str:
    """A host name that may stand in a configuration file."""
    problem = text.host(host)
    if problem:
        raise InvalidSpec(path, problem)
    return host


def _slurmctld_scripts(cr: Controller, refs: Refs) -> Iterator[Line]:
    for key, field, wanted in (
        ("PrologSlurmctld", "prologSlurmctldScriptRefs", cr.spec.prolog_slurmctld_script_refs),
        ("EpilogSlurmctld", "epilogSlurmctldScriptRefs", cr.spec.epilog_slurmctld_script_refs),
    ):
        yield from ((key, f"{ETC}/{file}") for file in script_files(wanted, field, refs))


def _scripts(cr: Controller, refs: Refs) -> Iterator[Line]:
    for key, field, wanted in (
        ("Prolog", "prologScriptRefs", cr.spec.prolog_script_refs),
        ("Epilog", "epilogScriptRefs", cr.spec.epilog_script_refs),
    ):
        yield from ((key, file) for file in script_files(wanted, field, refs))


def script_files(wanted: tuple[LocalObjectReference, ...] | None, field: str, refs: Refs) -> list[str]:
    """The file names that referenced ConfigMaps hold, sorted."""
    files: set[str] = set()
    for index, ref in enumerate(wanted or ()):
        path: Path = ("spec", field, index, "name")
        for file in refs.config_map(ref.name, path):
            problem = text.file_name(file)
            if problem:
                raise InvalidSpec(path, f"ConfigMap {ref.name!r}: {problem}")
            files.add(file)
    return sorted(files)


def _nodes_and_partitions(nodesets: tuple[NodeSet, ...], found: tuple[Acceptance, ...]) -> Iterator[Line]:
    lines = {
        acceptance.resource: acceptance.line for acceptance in found if acceptance.kind == "NodeSet" and acceptance.line
    }
    written: set[str] = set()
    for nodeset in nodesets:
        name = nodeset.slurm_name
        problem = text.slurm_name(name)
        if problem:
            raise InvalidSpec(("spec", "template", "spec", "hostname"), f"NodeSet {nodeset.name!r}: {problem}")
        if name not in written:
            yield f"NodeSet={name} Feature={name}"
        written.add(name)
        if nodeset.name in lines:
            yield lines[nodeset.name]
    yield from (acceptance.line for acceptance in found if acceptance.kind == "Partition" and acceptance.line)


def merged(document: conf.Document, own: dict[str, tuple[str, ...]]) -> Iterator[Line]:
    """List options that both the operator and the user set, with the items of both."""
    for key in sorted(own):
        theirs = document.get(key)
        if theirs is None or " " in theirs:
            continue
        taken = {item.partition("=")[0].lower() for item in own[key]}
        added = {item for item in theirs.split(",") if item and item.partition("=")[0].lower() not in taken}
        yield key, ",".join(sorted({*own[key], *added}))


def _external(cr: Controller, refs: Refs) -> list[Section]:
    outside = cr.spec.external_config
    if outside is None:
        raise InvalidSpec(("spec", "externalConfig"), "is required when external is true")
    return [
        (
            "GENERAL",
            [
                ("ClusterName", checked_cluster_name(cr)),
                ("SlurmUser", "slurm"),
                ("SlurmctldHost", checked_host(outside.host, ("spec", "externalConfig", "host"))),
                ("SlurmctldPort", outside.port),
            ],
        ),
        (
            "PLUGINS & PARAMETERS",
            [("AuthType", "auth/slurm"), ("CredType", "cred/slurm"), ("AuthAltTypes", "auth/jwt")],
        ),
        ("ACCOUNTING", accounting_lines(refs.accounting_of(cr))),
    ]
