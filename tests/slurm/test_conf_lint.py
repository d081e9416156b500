"""The linter: every mistake of the list is found, at its place; good files are left alone."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slurm_operator.slurm.conf import Finding
from slurm_operator.slurm.conf_keys import (
    FILES,
    SLURM_CONF,
)
from slurm_operator.slurm.conf_lint import MAX_SUGGESTIONS, lint

OPERATOR_FILE = """\
#
### GENERAL ###
ClusterName=default_slurm
SlurmUser=slurm
SlurmctldHost=slurm-controller-0(slurm-controller-0.slurm-controller-internal.default)
SlurmctldPort=6817
SlurmctldAddr=slurm-controller.default
StateSaveLocation=/var/spool/slurmctld/default_slurm
SlurmdUser=root
SlurmdPort=6818
SlurmdSpoolDir=/var/spool/slurmd
MaxNodeCount=1024
#
### LOGGING ###
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmSchedLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.log
#
### PLUGINS & PARAMETERS ###
AuthType=auth/slurm
CredType=cred/slurm
AuthAltTypes=auth/jwt
AuthAltParameters=jwt_key=/etc/slurm/jwt.key,jwks=/etc/slurm/jwks.json
AuthInfo=use_client_ids
SlurmctldParameters=enable_configless,reconfig_on_restart
#
### ACCOUNTING ###
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=slurm-accounting
AccountingStoragePort=6819
#
### SLURMCTLD PROLOG & EPILOG ###
PrologSlurmctld=/etc/slurm/a.sh
PrologSlurmctld=/etc/slurm/b.sh
Prolog=90-x.sh
Epilog=91-y.sh
#
### NODESET & PARTITION ###
NodeSet=compute Feature=compute
PartitionName=compute Nodes=compute State=UP MaxTime=UNLIMITED\x20
PartitionName=all Nodes=ALL Default=YES
"""


def codes(findings: list[Finding]) -> list[tuple[str, int, int]]:
    return [(finding.code, finding.line, finding.column) for finding in findings]


def conf(text: str, **context: object) -> list[Finding]:
    return lint({"slurm.conf": text}, **context)  # type: ignore[arg-type]  # each test names its own keywords


@pytest.mark.parametrize("version", [None, "24.11", "25.05.1", "25.11", "26.05.5"])
def test_the_file_that_the_operator_writes_is_clean_in_every_version(version: str | None) -> None:
    assert conf(OPERATOR_FILE, version=version, live_node_count=1024) == []


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        pytest.param("Bogus=1\n", ("UnknownKey", 1, 1), id="unknown key"),
        pytest.param("PartitionName=p Nodes=ALL Foo=bar\n", ("UnknownKey", 1, 27), id="unknown partition key"),
        pytest.param("NodeName=a Foo=bar\n", ("UnknownKey", 1, 12), id="unknown node key"),
        pytest.param("SlurmctldTimeout=abc\n", ("BadValue", 1, 18), id="bad number"),
        pytest.param("SelectType=select/nosuch\n", ("UnknownPlugin", 1, 12), id="unknown plugin"),
        pytest.param("PartitionName=p Nodes=ALL MaxTime=xyz\n", ("BadValue", 1, 35), id="bad time"),
        pytest.param("PartitionName=p Nodes=ALL State=SIDEWAYS\n", ("BadValue", 1, 33), id="bad state"),
        pytest.param("PartitionName=p Nodes=\n", ("EmptyValue", 1, 17), id="no nodes"),
        pytest.param('PartitionName=p Nodes=""\n', ("EmptyNodes", 1, 17), id="empty nodes"),
        pytest.param("PartitionName=p Nodes=a[1\n", ("BadHostList", 1, 23), id="malformed nodes"),
        pytest.param("NodeSet=foo\n", ("EmptyNodeSet", 1, 1), id="a node set of nothing"),
        pytest.param("NodeSet=a Feature=x\nNodeSet=a Feature=y\n", ("DuplicateNodeSet", 2, 1), id="a node set twice"),
        pytest.param("NodeName=a\nNodeSet=a Feature=x\n", ("NodeSetIsNode", 2, 1), id="a node set named like a node"),
        pytest.param("NodeName=a[1-3]\nNodeName=a2\n", ("DuplicateNode", 2, 1), id="a node twice"),
        pytest.param("NodeName=ALL\n", ("ReservedName", 1, 1), id="a node called ALL"),
        pytest.param(
            "PartitionName=p Nodes=ALL\nPartitionName=p Nodes=ALL\n",
            ("DuplicatePartition", 2, 1),
            id="a partition twice",
        ),
        pytest.param(
            "PartitionName=p Nodes=ALL Default=YES\nPartitionName=q Nodes=ALL Default=yes\n",
            ("SecondDefault", 2, 27),
            id="two defaults",
        ),
        pytest.param("Include nofile\n", ("MissingInclude", 1, 9), id="a missing include"),
        pytest.param("MailDomain=\x07\n", ("ControlCharacter", 1, 12), id="a control character"),
        pytest.param("AccountingStoreJobComment=YES\n", ("RemovedKey", 1, 1), id="a removed key"),
        pytest.param("PowerAction=x Program=/a\n", ("MissingKey", 1, 1), id="a power action without place"),
        pytest.param("SlurmUser=a TreeWidth=4\n", ("TrailingText", 1, 13), id="two keys on a line"),
    ],
)
def test_what_breaks_a_cluster_is_an_error_at_its_place(text: str, finding: tuple[str, int, int]) -> None:
    errors = [found for found in conf(text) if found.severity == "error"]
    assert codes(errors) == [finding]


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        pytest.param("TreeWidth=5\ntreewidth=6\n", ("DuplicateKey", 2, 1), id="a key twice"),
        pytest.param(
            "PartitionName=p Nodes=ALL State=UP State=DOWN\n", ("DuplicateKey", 1, 36), id="twice in a record"
        ),
        pytest.param("TreeWidth+=5\n", ("OperatorIgnored", 1, 1), id="an operator"),
        pytest.param("ControlMachine=x\n", ("IgnoredKey", 1, 1), id="an ignored key"),
        pytest.param("ReturnToService=3\n", ("BadValue", 1, 17), id="out of range"),
        pytest.param("KillWait=030\n", ("OctalNumber", 1, 10), id="an octal number"),
        pytest.param("StateSaveLocation=rel/x\n", ("RelativePath", 1, 19), id="a relative path"),
        pytest.param("PartitionName=p State=UP\n", ("NoNodes", 1, 1), id="a partition without nodes"),
        pytest.param(
            "PartitionName=p Nodes=ALL DefMemPerCPU=1 DefMemPerNode=2\n", ("ExclusiveKeys", 1, 27), id="exclusive keys"
        ),
        pytest.param("ClusterName=c\nPartitionName=p Nodes=a\n", ("UnknownNode", 2, 23), id="a node from nowhere"),
    ],
)
def test_what_slurm_takes_but_not_as_written_is_a_warning(text: str, finding: tuple[str, int, int]) -> None:
    found = conf(text)
    assert codes(found) == [finding]
    assert found[0].severity == "warning"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("NodeSet=p Feature=p\nPartitionName=p Nodes=p\n", id="a node set and its partition share a name"),
        pytest.param("PartitionName=DEFAULT Nodes=ALL\nPartitionName=p State=UP\n", id="nodes by default"),
        pytest.param("PartitionName=DEFAULT State=UP\nPartitionName=DEFAULT MaxTime=5\n", id="many DEFAULT lines"),
        pytest.param("NodeName=DEFAULT CPUs=2\nNodeName=DEFAULT Weight=2\n", id="many DEFAULT nodes"),
        pytest.param("ClusterName=c\nNodeName=n[1-4]\nPartitionName=p Nodes=n[1-2],n4\n", id="nodes of the file"),
        pytest.param("ClusterName=c\nPartitionName=p Nodes=feature{x}\n", id="a function of Slurm's"),
        pytest.param("PartitionName=p Nodes=unknown\n", id="a fragment cannot know all nodes"),
        pytest.param("PartitionName=p Nodes=ALL Default=YES\nPartitionName=q Nodes=ALL Default=NO\n", id="one default"),
        pytest.param("NodeName=a State=CLOUD+DRAIN\nDownNodes=a State=DOWN Reason=x\n", id="two states"),
        pytest.param("AccountingStorageUser=x\nGetEnvTimeout=2\n", id="keys that 24.11 still reads"),
        pytest.param("ClusterName=c\nPreemptType=preempt/qos\nPreemptMode=SUSPEND,GANG\n", id="preemption"),
        pytest.param("ClusterName=c\nPreemptMode=OFF\nPreemptType=preempt/none\n", id="no preemption"),
        pytest.param("ClusterName=c\nFirstJobId=1\nMaxJobId=100\n", id="job ids in order"),
        pytest.param("NodeName=n1 CPUs=4\nNodeSet=all Nodes=n1\n", id="a node set of nodes"),
        pytest.param("PREEMPTMODE=CANCEL\n", id="half of a pair in a fragment"),
    ],
)
def test_good_lines_have_no_findings(text: str) -> None:
    assert conf(text, version="24.11") == []


@pytest.mark.parametrize(
    ("lines", "place"),
    [
        pytest.param("PreemptMode=REQUEUE\n", 2, id="a mode without type"),
        pytest.param("PreemptType=preempt/qos\n", 2, id="a type without mode"),
        pytest.param("PreemptType=preempt/qos\nPreemptMode=SUSPEND\n", 3, id="suspend without gang"),
        pytest.param("MaxJobId=10\nFirstJobId=20\n", 3, id="first above last"),
        pytest.param("SlurmSchedLogLevel=1\n", 2, id="a log level without file"),
        pytest.param("MCSParameters=x\n", 2, id="parameters without plugin"),
    ],
)
def test_keys_that_slurm_refuses_together_are_found_in_a_whole_file(lines: str, place: int) -> None:
    assert [(finding.code, finding.line) for finding in conf("ClusterName=c\n" + lines)] == [("Contradiction", place)]


def test_unknown_names_are_errors_once_the_cluster_is_known() -> None:
    text = "NodeName=n1\nPartitionName=p Nodes=n1,known,gpu,comput,other[1-7]\nPartitionName=q Nodes=ALL\n"
    (finding,) = conf(text, known_nodesets=["compute", "gpu"], known_nodes=["known"])
    assert (finding.code, finding.severity, finding.suggestion) == ("UnknownNode", "error", "compute")
    assert "comput, other1, other2, other3, other4 and 3 more" in finding.message


def test_a_malformed_list_is_reported_once_and_names_nobody() -> None:
    found = conf("NodeName=a[1\nPartitionName=p Nodes=b[2-1],c\n", known_nodes=[])
    assert [finding.code for finding in found] == ["BadHostList", "BadHostList"]


def test_all_is_every_node_only_when_it_stands_alone() -> None:
    assert conf("PartitionName=p Nodes=all\n", known_nodes=[]) == []
    assert [finding.code for finding in conf("PartitionName=p Nodes=ALL,n1\n", known_nodes=["n1"])] == ["UnknownNode"]


def test_two_partitions_with_the_same_unknown_list_are_both_named() -> None:
    found = conf("PartitionName=p Nodes=x\nPartitionName=q Nodes=x\n", known_nodesets=[])
    assert [finding.line for finding in found] == [1, 2]


@pytest.mark.parametrize(
    ("text", "live", "low"),
    [
        ("MaxNodeCount=5\n", 6, True),
        ("MaxNodeCount=6\n", 6, False),
        ("MaxNodeCount=9\nMaxNodeCount=5\n", 6, True),
        ("MaxNodeCount=UNLIMITED\n", 6, False),
        ("NodeName=n[1-8]\nMaxNodeCount=5\n", 6, False),
        ("TreeWidth=4\n", 6, False),
    ],
)
def test_room_for_fewer_nodes_than_live_is_an_error(text: str, live: int, low: bool) -> None:
    found = [finding.code for finding in conf(text, live_node_count=live) if finding.severity == "error"]
    assert found == (["MaxNodeCountTooLow"] if low else [])


def test_keys_of_the_operator_may_not_be_set() -> None:
    found = conf("slurmctldhost=evil\nTreeWidth=4\n", owned={"SlurmctldHost", "SlurmUser"})
    assert codes(found) == [("OwnedKey", 1, 1)]


def test_an_unknown_key_comes_with_a_guess_and_hides_the_rest_of_its_line() -> None:
    (finding,) = conf("PartionName=p Nodes=ALL\n")
    assert (finding.code, finding.suggestion) == ("UnknownKey", "PartitionName")


def test_a_newer_slurm_may_know_more_keys() -> None:
    (finding,) = conf("BrandNew=1\n", version="27.05")
    assert finding.severity == "warning"


def test_a_power_action_with_a_place_is_clean() -> None:
    assert conf('PowerAction=off Program="/sbin/off now" Location=slurmd\n', version="26.05") == []


def test_ignored_keys_depend_on_the_version() -> None:
    assert [finding.code for finding in conf("GetEnvTimeout=2\n", version="25.05")] == ["IgnoredKey"]


def test_all_findings_come_at_once_sorted_by_place() -> None:
    files = {
        "slurm.conf": "B=1\nInclude a.conf\nInclude a.conf\nA=1\n",
        "a.conf": "TreeWidth=x\n",
        "gres.conf": "Name=gpu Bogus=1\n",
        "readme.txt": "not linted\n",
    }
    found = lint(files)
    assert [(finding.file, finding.line, finding.code) for finding in found] == [
        ("a.conf", 1, "DuplicateKey"),
        ("a.conf", 1, "BadValue"),
        ("gres.conf", 1, "UnknownKey"),
        ("slurm.conf", 1, "UnknownKey"),
        ("slurm.conf", 4, "UnknownKey"),
    ]


def test_a_file_may_have_a_path() -> None:
    found = lint({"/etc/slurm/cgroup.conf": "Bogus=yes\n"})
    assert [(finding.file, finding.code) for finding in found] == [("/etc/slurm/cgroup.conf", "UnknownKey")]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cgroup.conf", "CgroupPlugin=cgroup/v2\nIgnoreSystemd=yes\n"),
        ("cgroup.conf", "CgroupPlugin=disabled\nMaxRAMPercent=97.5\nEnableExtraControllers=io,pids\n"),
        (
            "slurmdbd.conf",
            "AuthType=auth/slurm\nDbdHost=a\nDbdPort=6819\nStorageType=accounting_storage/mysql\nPurgeJobAfter=12months\n",
        ),
        (
            "gres.conf",
            "AutoDetect=nvml\nName=gpu Type=a100 File=/dev/nvidia[0-3] Cores=0-7 Count=4\nNodeName=n[1-2] Name=mps",
        ),
        ("topology.conf", "SwitchName=s0 Switches=s[1-2]\nSwitchName=s1 Nodes=n[1-4] LinkSpeed=5\n"),
        ("topology.conf", "BlockName=b1 Nodes=n[1-4]\nBlockSizes=4,8\n"),
        (
            "plugstack.conf",
            "# x\noptional /usr/lib/a.so arg=1\nREQUIRED b.so # y\n\ninclude /etc/slurm/plugstack.conf.d/*\n",
        ),
        ("topology.yaml", "- topology: t\n  flat: true\n"),
    ],
)
def test_good_files_beside_slurm_conf_are_clean(name: str, text: str) -> None:
    assert lint({name: text}, version="26.05") == []


@pytest.mark.parametrize(
    ("name", "text", "finding"),
    [
        ("cgroup.conf", "ConstrainCores=maybe\n", ("BadValue", 1, 16)),
        ("cgroup.conf", "CgroupPlugin=cgroup/v3\n", ("BadValue", 1, 14)),
        ("slurmdbd.conf", "PurgeJobAfter=12years\n", ("BadValue", 1, 15)),
        ("slurmdbd.conf", "TreeWidth=4\n", ("UnknownKey", 1, 1)),
        ("slurmdbd.conf", "DbdPort=0\n", ("BadValue", 1, 9)),
        ("cgroup.conf", "CgroupReleaseAgentDir=/x\n", ("RemovedKey", 1, 1)),
        ("gres.conf", "Name=gpu NodeName=n1\n", ("UnknownKey", 1, 10)),
        ("gres.conf", "AutoDetect=nvlm\n", ("BadValue", 1, 12)),
        ("gres.conf", "Name=gpu Count=many\n", ("BadValue", 1, 16)),
        ("topology.conf", "SwitchName=s0 Nodes=n[1\n", ("BadHostList", 1, 21)),
        ("plugstack.conf", "optionl /a.so\n", ("UnknownKeyword", 1, 1)),
        ("plugstack.conf", "  required\n", ("EmptyValue", 1, 3)),
        ("plugstack.conf", "include # nothing\n", ("EmptyValue", 1, 1)),
        ("plugstack.conf", "optional a\x01\n", ("ControlCharacter", 1, 11)),
        ("topology.yaml", "[]: 3\n", ("BadStructure", 1, 1)),
    ],
)
def test_mistakes_in_files_beside_slurm_conf_are_found(name: str, text: str, finding: tuple[str, int, int]) -> None:
    assert codes(lint({name: text})) == [finding]


def test_a_file_of_rubbish_gets_a_bounded_number_of_guesses() -> None:
    found = conf("".join(f"TreeWidht{n}=1\n" for n in range(200)))
    assert sum(finding.suggestion is not None for finding in found) == MAX_SUGGESTIONS
    assert len(found) == 200


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("TreeWidth={}", id="value"),
        pytest.param("SelectType=select/{}", id="plugin"),
        pytest.param("{}=1", id="key"),
        pytest.param("PartitionName={}", id="name"),
        pytest.param("Include {}", id="file"),
        pytest.param("A=1 {}", id="rest"),
    ],
)
def test_a_message_about_a_megabyte_stays_short(line: str) -> None:
    found = conf(line.format("x" * 1_000_000))
    assert found
    assert all(len(str(finding)) < 800 for finding in found)


def test_a_list_of_too_many_names_is_an_error() -> None:
    found = conf("PartitionName=p Nodes=" + ",".join(f"n{n}" for n in range(100_001)))
    assert [finding.code for finding in found] == ["BadHostList"]


def test_a_bomb_of_names_is_survived() -> None:
    nodes = "".join(f"NodeName=n{n}x[0-99999]\n" for n in range(12))
    partitions = "".join(f"PartitionName=p{n} Nodes=n{n}x[0-99999]\n" for n in range(12))
    assert conf("ClusterName=c\n" + nodes + partitions) == []


NAMES = st.sampled_from([*FILES, "topology.yaml", "plugstack.conf"])

LINES = st.text(alphabet='=\\#"[]{}-,: \nNodeNamePartitionNameInclude1', max_size=80)


@given(NAMES, st.one_of(st.text(), LINES), st.sampled_from([None, "24.11", "26.05", "nonsense"]))
def test_no_text_makes_the_linter_raise(name: str, text: str, version: str | None) -> None:
    for finding in lint({name: text, "a": text}, version=version, known_nodes=["a"], live_node_count=3):
        assert finding.line >= 1
        assert finding.column >= 1
        assert finding.message


@given(st.sampled_from(sorted(SLURM_CONF)), st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=20))
def test_no_value_of_any_key_makes_the_linter_raise(key: str, value: str) -> None:
    for finding in conf(f'{key}="{value}"\n', version="25.11"):
        assert finding.line == 1
