"""Which refusals by a trial pod count, as a table: what was left out of the pod, and what slurmd says."""

from __future__ import annotations

import pytest

from slurm_operator.build.worker_trial import WorkerKind
from slurm_operator.plan.worker_trial_refusal import lacking

FILES = {"slurm.conf": "ClusterName=a\nTaskPlugin=task/site\n"}
ADDED = {"slurm.conf": f"{FILES['slurm.conf']}PluginDir=/usr/lib64/slurm:/opt/site/plugins\n"}
NO_PLUGIN = "fatal: failed to initialize task plugin; error: cannot find task plugin for task/site"
NOT_FOUND_BY_24_11 = (
    "error: Couldn't find the specified plugin name for task/site looking at all files; "
    "error: cannot find task plugin for task/site; error: cannot create task context for task/site"
)
NO_LIBRARY = (
    "error: plugin_load_from_file: dlopen(/usr/lib64/slurm/task_site.so): libsite.so.1: cannot open shared object "
    "file: No such file or directory"
)
ONE_FILE = "/usr/lib64/slurm/task_site.so"
ENV_FROM = "the variables of Secret site"
EVERYTHING = ("/opt/apps", ONE_FILE, "$SITE_KEY", "$LD_LIBRARY_PATH", ENV_FROM)

DOUBTED = {
    "a path that was left out": ("/opt/apps", "error: /opt/apps: is empty", "/opt/apps"),
    "what is beneath it": ("/opt/apps", "error: /opt/apps/x.so: no such file", "/opt/apps"),
    "a plugin that may be anywhere": ("/opt/apps", NO_PLUGIN, "/opt/apps"),
    "a plugin that Slurm 26.05 does not find": (
        "/opt/apps",
        "fatal: Unable to initialize proctrack; error: cannot create proctrack context for proctrack/site",
        "/opt/apps",
    ),
    "a plugin that Slurm 24.11 does not find": (
        "/opt/apps",
        NOT_FOUND_BY_24_11,
        "/opt/apps",
    ),
    "a plugin whose file was left out": (ONE_FILE, "error: no context for task/site", ONE_FILE),
    "a plugin with a long name": ("/x/node_features_my_own.so", "fatal: no plugin node_features/my_own", "/x/node"),
    "its file in another folder": (ONE_FILE, "error: /usr/lib/slurm/task_site.so: file not found", ONE_FILE),
    "a library that may be anywhere": ("/opt/apps", NO_LIBRARY, "/opt/apps"),
    "a library that the linker is told of": ("$LD_LIBRARY_PATH", NO_LIBRARY, "$LD_LIBRARY_PATH"),
    "a plugin of spank by its name alone": (
        "/opt/apps",
        "error: spank: plugstack.conf:1: Failed to load plugin site.so. Aborting.",
        "/opt/apps",
    ),
    "a variable by its name": ("$SITE_KEY", "fatal: SITE_KEY has no value", "$SITE_KEY"),
    "a variable of a Secret": (ENV_FROM, "fatal: SITE_KEY is not set", ENV_FROM),
    "a thing that a variable may hold": ("$SITE_KEY", "fatal: node_features: cannot read its key", "$SITE_KEY"),
    "the environment": (ENV_FROM, "fatal: missing variable", ENV_FROM),
}


@pytest.mark.parametrize(("left_out", "reason", "expected"), DOUBTED.values(), ids=DOUBTED)
def test_a_refusal_is_doubted_that_may_be_about(left_out: str, reason: str, expected: str) -> None:
    assert lacking(WorkerKind(("a",), {}, (left_out,)), reason, FILES).startswith(expected)
    assert lacking(WorkerKind(("a",), {}), reason, FILES) == ""


@pytest.mark.parametrize("folder", ["/opt/site", "/opt/site/plugins", "/opt/site/plugins/more"])
def test_a_complaint_about_plugins_is_doubted_where_a_folder_of_plugins_was_left_out(folder: str) -> None:
    kind = WorkerKind(("a",), {}, ("/home", folder))
    assert lacking(kind, "fatal: failed to initialize task plugin", ADDED) == folder
    assert lacking(kind, "fatal: failed to initialize task plugin", FILES) == ""


COUNTED = {
    "an unknown key": "error: _parse_next_key: Parsing error at unrecognized key: Nonsense",
    "an unknown key of another file": (
        "fatal: Could not open/read/parse cgroup.conf file cgroup.conf; error: Parsing error at unrecognized key: Wrong"
    ),
    "a wrong value": "fatal: Invalid SlurmdTimeout: -5",
    "a count of gres": "fatal: gres/gpu count 4 is more than the 2 that were configured",
    "a value that is not set": "fatal: Count is not set",
    "a device with its place": "fatal: can't stat gres.conf file /dev/nosuch0: No such file or directory",
    "a plugin with its place": "error: spank: /usr/lib/nosuch.so: Does not exist or not a regular file.",
    "a folder with its place": "fatal: Unable to create /proc/nosuch/slurmd: No such file or directory",
    "a folder with a longer name": "error: /opt/apps2/x.so: no such file",
    "a file of Slurm's own": "error: job_container: could not open job_container.conf",
    "no cgroups": "fatal: cgroup namespace 'freezer' not mounted. aborting",
    "a plugin of another version": "error: Couldn't load specified plugin name for task/old: Incompatible version",
    "a plugin that does not like a value": (
        "error: task/old: Level=9 is too high; error: cannot create task context for task/old"
    ),
    "what another plugin says of cgroups": (
        "fatal: init: CgroupPlugin=disabled in cgroup.conf is not compatible with task/cgroup."
    ),
    "a key that gres.conf does not know": (
        "fatal: error opening/reading gres.conf; error: Parsing error at unrecognized key: Nonsense; "
        "error: Parse error in file gres.conf line 1: ' Nonsense=1'"
    ),
    "a plugin of spank with its place": (
        "error: plugin_load_from_file: dlopen(/opt/x/y.so): /opt/x/y.so: cannot open shared object file: No such file "
        "or directory; error: spank: plugstack.conf:1: Failed to load plugin /opt/x/y.so. Aborting."
    ),
    "a symbol": "error: dlopen(/usr/lib64/slurm/x.so): undefined symbol: slurm_nosuch",
}


@pytest.mark.parametrize("reason", COUNTED.values(), ids=COUNTED)
def test_a_refusal_counts_whatever_was_left_out_if_it_is_about(reason: str) -> None:
    assert lacking(WorkerKind(("a",), {}, EVERYTHING), reason, FILES) == ""


def test_a_plugin_that_the_image_lacks_is_in_no_variable() -> None:
    assert lacking(WorkerKind(("a",), {}, ("$SITE_KEY",)), NO_PLUGIN, FILES) == ""
