"""What lines and files say of each other: each is right by itself, and Slurm refuses or ignores them together."""

from __future__ import annotations

import pytest

from slurm_operator.slurm import conf_cross_checks
from slurm_operator.slurm.conf import Finding
from slurm_operator.slurm.conf_lint import lint, lint_node_options

NO_CGROUPS = {"cgroup.conf": "CgroupPlugin=disabled\n"}


def found(text: str, version: str | None = "26.05", **files: str) -> list[Finding]:
    """What is wrong with a whole slurm.conf and the files beside it, `__` for the dot of their names."""
    named = {name.replace("__", "."): content for name, content in files.items()}
    return lint({"slurm.conf": f"ClusterName=a\n{text}\n", **named}, version=version, complete=True)


@pytest.mark.parametrize(
    ("text", "files", "said"),
    [
        (
            "TaskPlugin=task/cgroup\nProctrackType=proctrack/pgid",
            {"cgroup__conf": "\nCgroupPlugin=disabled\n"},
            "task/cgroup needs cgroups, and CgroupPlugin=disabled is set at cgroup.conf:2: slurmd does not start",
        ),
        (
            "TreeWidth=4",
            {"cgroup__conf": "CgroupPlugin=disabled\n"},
            "CgroupPlugin=disabled needs a ProctrackType in slurm.conf: its default, proctrack/cgroup, needs cgroups",
        ),
        (
            "TaskPlugin=task/cgroup\nJobAcctGatherParams=UsePss,OverMemoryKill",
            {"cgroup__conf": "ConstrainRAMSpace=yes\n"},
            "OverMemoryKill and ConstrainRAMSpace=yes, set at cgroup.conf:1, exclude each other",
        ),
        (
            "JobSubmitPlugins=lua",
            {},
            "job_submit/lua needs job_submit.lua, which is missing; add it to a ConfigMap in configFileRefs",
        ),
        (
            "TopologyPlugin=topology/tree",
            {},
            "topology/tree needs topology.conf or topology.yaml, which is missing; add it to a ConfigMap in",
        ),
        (
            "JobContainerType=job_container/tmpfs",
            {"job_container__conf": "BasePath=/x\n"},
            "job_container/tmpfs needs PrologFlags=Contain; add that line",
        ),
        (
            "PrologFlags=X11\nProctrackType=proctrack/linuxproc",
            {},
            "PrologFlags=X11 cannot be combined with proctrack/linuxproc",
        ),
        ("JobAcctGatherParams=UsePss,NoShared", {}, "UsePss and NoShared exclude each other"),
        ("GresTypes=mps", {}, "GresTypes=mps needs gpu too; did you mean gpu,mps?"),
        (
            "GresTypes=gpu",
            {"gres__conf": "Name=gpu Count=1\nName=gpu File=/dev/a\n"},
            "either all records of gpu have a File or none has: see the record at gres.conf:1",
        ),
    ],
    ids=[
        "task/cgroup without cgroups",
        "the default of ProctrackType",
        "two guards of memory",
        "job_submit.lua",
        "a topology",
        "a job container without its flag",
        "X11",
        "two ways to count memory",
        "mps without gpu",
        "records of gres.conf",
    ],
)
def test_what_stops_a_daemon_is_an_error(text: str, files: dict[str, str], said: str) -> None:
    (error,) = [each for each in found(text, version=None, **files) if each.severity == "error"]
    assert error.without_place.startswith(said)


@pytest.mark.parametrize(
    ("text", "files", "code"),
    [
        ("TaskPlugin=task/none", {"cgroup__conf": "ConstrainCores=yes\n"}, "NoEffect"),
        ("GresTypes=gpu", {"gres__conf": "Name=fpga Count=1\n"}, "NoEffect"),
        ("GresTypes=gpu\nNodeName=a Gres=gpus:1", {}, "NoEffect"),
        ("NodeName=a Gres=gpu:1", {}, "NoEffect"),
        ("TreeWidth=4", {"gres__conf": "Name=gpu Count=1\n"}, "UnusedFile"),
        ("TreeWidth=4", {"job_submit__lua": "x"}, "UnusedFile"),
        ("TreeWidth=4", {"topology__conf": "SwitchName=s Nodes=a\n"}, "UnusedFile"),
        ("JobCompType=jobcomp/lua", {}, "MissingFile"),
        ("GresTypes=gpus", {}, "BadValue"),
    ],
)
def test_what_slurm_ignores_is_a_warning(text: str, files: dict[str, str], code: str) -> None:
    assert [(each.severity, each.code) for each in found(text, **files)] == [("warning", code)]


def test_the_names_of_resources_have_commas_between() -> None:
    (wrong,) = found("GresTypes=gpu;mps")
    assert wrong.without_place == (
        "GresTypes: 'gpu;mps' is not a valid name of a resource (expected names separated by commas, such as gpu,mps);"
        " did you mean gpu,mps?"
    )


@pytest.mark.parametrize(
    ("text", "files"),
    [
        ("ProctrackType=proctrack/linuxproc\nTaskPlugin=task/affinity", {"cgroup__conf": NO_CGROUPS["cgroup.conf"]}),
        ("TaskPlugin=task/cgroup", {"cgroup__conf": "CgroupPlugin=cgroup/v2\nConstrainCores=yes\n"}),
        ("JobSubmitPlugins=all_partitions,lua", {"job_submit__lua": "x"}),
        ("CliFilterPlugins=lua\nCliFilterParameters=cli_filter_lua_path=/opt/f.lua", {}),
        ("TopologyPlugin=topology/none", {}),
        ("GresTypes=gpu,fpga\nNodeName=a Gres=gpu:a100:4,fpga:1", {"gres__conf": "Name=gpu AutoDetect=nvml\n"}),
    ],
)
def test_what_fits_together_is_let_be(text: str, files: dict[str, str]) -> None:
    assert found(text, **files) == []


def test_some_lines_alone_are_not_held_against_files_that_were_not_given() -> None:
    assert lint({"slurm.conf": "JobSubmitPlugins=lua\n"}, complete=True) == []
    assert lint({"slurm.conf": "ClusterName=a\nJobSubmitPlugins=lua\n"}) == []


@pytest.mark.parametrize(
    ("file", "text", "version", "said"),
    [
        ("slurm.conf", "FastSchedule=2", None, "did you mean SlurmdParameters=config_overrides?"),
        ("slurm.conf", "FastSchedule=0", None, "FastSchedule was removed"),
        ("slurm.conf", "MemLimitEnforce=yes", None, "did you mean JobAcctGatherParams=OverMemoryKill?"),
        ("slurm.conf", "CacheGroups=1", None, "CacheGroups was removed long ago"),
        ("cgroup.conf", "TaskAffinity=yes", None, "did you mean TaskPlugin=task/affinity in slurm.conf?"),
        ("cgroup.conf", "ConstrainKmemSpace=no", None, "was removed long ago"),
        ("slurm.conf", "SallocDefaultCommand=x", None, "did you mean LaunchParameters=use_interactive_step?"),
    ],
)
def test_a_key_that_was_removed_names_its_successor(file: str, text: str, version: str | None, said: str) -> None:
    (only,) = lint({file: text + "\n"}, version=version)
    assert (only.code, only.severity) == ("RemovedKey", "error")
    assert said in only.without_place


def test_a_key_that_will_go_is_named_in_time() -> None:
    text = {"slurm.conf": "JobContainerType=job_container/none\n"}
    assert lint(text, version="24.11") == []
    assert [each.code for each in lint(text, version="26.05")] == ["DeprecatedKey"]


@pytest.mark.parametrize(
    ("records", "said"),
    [
        (
            "Name=gpu File=/dev/nvidia[0-1] MultipleFiles=/dev/nvidia[0-1]",
            "File and MultipleFiles exclude each other",
        ),
        ("Name=gpu MultipleFiles=/dev/nvidia0", "MultipleFiles names one file; use File"),
        ("Name=gpu File=/dev/nvidia[0-1] Count=4", "Count=4 does not match File, which names 2"),
        (
            "Name=gpu File=/dev/nvidia0 Flags=no_gpu_env,nvidia_gpu_env",
            "no_gpu_env and the other *_env flags exclude each other",
        ),
        (
            "Name=gpu File=/dev/nvidia0\nName=gpu Count=1",
            "either all records of gpu have a File or none has: see the record at gres.conf:1",
        ),
        (
            "Name=gpu File=/dev/nvidia0\nName=gpu File=/dev/nvidia1 Type=a100",
            "either all records of gpu have a Type or none has: see the record at gres.conf:1",
        ),
        (
            "Name=gpu Count=1\nName=gpu Count=2",
            "gpu already has a record without File or Type: see the record at gres.conf:1",
        ),
    ],
)
def test_records_of_gres_that_slurmd_refuses_are_found(records: str, said: str) -> None:
    assert said in [each.message for each in found("GresTypes=gpu", gres__conf=f"{records}\n")]


@pytest.mark.parametrize(
    "records",
    [
        "Name=gpu File=/dev/nvidia[0-1]",
        "Name=gpu File=/dev/nvidia0 Type=a100\nName=gpu File=/dev/nvidia1 Type=h100",
        "Name=gpu File=/dev/nvidia[0-",
        "Name=gpu File=/dev/nvidia0\nName=shard Count=8 File=/dev/nvidia0",
    ],
    ids=["a list of files", "two types", "a list that is no list", "shards of one device"],
)
def test_records_of_gres_without_a_contradiction_are_not_called_one(records: str) -> None:
    codes = {each.code for each in found("GresTypes=gpu,shard", gres__conf=f"{records}\n")}
    assert "Contradiction" not in codes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("SlurmdUser=slurm", "slurmd runs as root in a worker, and does not start with SlurmdUser=slurm"),
        ("PrologFlags=NoHold,Contain", "PrologFlags=NoHold cannot be combined with Contain or X11"),
        ("MCSParameters=enforced", "MCSParameters needs MCSPlugin"),
    ],
)
def test_keys_that_stop_a_daemon_together_are_found(text: str, said: str) -> None:
    assert said in [each.message for each in found(text)]


def test_a_lua_filter_may_be_somewhere_else() -> None:
    named = "CliFilterPlugins=lua\nCliFilterParameters=cli_filter_lua_path=/opt/filter.lua"
    assert [each for each in found(named) if each.code == "MissingFile"] == []


@pytest.mark.parametrize(
    ("options", "said"),
    [("Feature=gpu Gres=gpu:2", []), ("", []), ("Featur=gpu", ["Featur"])],
    ids=["right", "none", "a slip"],
)
def test_options_of_a_node_are_read_as_slurmd_reads_them(options: str, said: list[str]) -> None:
    found_ = lint_node_options(options, None)
    assert len(found_) == len(said)
    assert all(word in each.message for word, each in zip(said, found_, strict=True))


def test_any_number_of_gres_is_gone_through_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A ConfigMap holds a hundred thousand of them, and whoever lints them has others to serve."""
    splits, names = [0], conf_cross_checks._gres_names

    def counted(some: conf_cross_checks.ConfigFiles) -> frozenset[str]:
        splits[0] += 1
        return names(some)

    monkeypatch.setattr(conf_cross_checks, "_gres_names", counted)
    types, asked = (",".join(f"{word}{number}" for number in range(2000)) for word in ("known", "other"))
    records = "".join(f"Name=known{number}\n" for number in range(2000))
    said = found(f"GresTypes={types}\nNodeName=n0 Gres={asked}", gres__conf=records)
    unknown = [each for each in said if each.code == "NoEffect"]
    assert (len(unknown), {each.suggestion for each in unknown}) == (conf_cross_checks.MAX_UNKNOWN_GRES, {None})
    assert splits[0] <= 2
