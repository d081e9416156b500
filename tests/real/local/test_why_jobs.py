"""Jobs that wait on a real cluster, on each Slurm version: the true cause with its numbers, and the next command.

The table is in `waiting.py`. Needs root; where it cannot run it is skipped loudly.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.real.local.e2e.cluster import CannotRun
from tests.real.local.test_why import Broken
from tests.real.local.waiting import WAITING, Waiting, manifest, prepare, without_key

from slurm_operator.diagnose.reasons import REASONS, limit_of
from slurm_operator.local.image import store

pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(600),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-why-jobs"),
]
VERSIONS = ("24.11", "26.05")


@pytest.fixture(scope="module", params=VERSIONS)
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    """A cluster of two workers with accounting."""
    folder: Path = tmp_path_factory.mktemp("jobs")
    (folder / "manifest.yaml").write_text(manifest(request.param))
    made = Broken(folder / "cluster", request.param)
    made.name = "why-jobs"
    try:
        made.prepare()
    except CannotRun as error:
        pytest.skip(f"no local cluster: {error}")
    try:
        where = ("-f", str(folder / "manifest.yaml"))
        # One partition is DOWN, and so never ready.
        made.local("up", "--nodes", "3", "--slurm", request.param, "--no-wait", *where)
        made.until("the workers are ready", lambda: made.condition("nodeset", "compute") == "True", 180)
        made.until("the login pod is ready", lambda: made.condition("loginset", "login") == "True", 180)
        prepare(made)
        yield made
    finally:
        made.reset()


@pytest.mark.parametrize("case", WAITING.values(), ids=WAITING)
def test_what_waits_has_its_cause_and_a_command(cluster: Broken, case: Waiting) -> None:
    with case.make(cluster) as made:
        target, _, first = made.partition(" ")
        said = cluster.expect(target, case.code, "")
        assert any(part.format(first=first) in said["sentence"] for part in case.words.split("|")), said
        assert case.command.replace("{first}", first) in said["command"], said
        assert f"why {target}" not in said["command"]
        assert said["ok"] == case.ok, said


def test_the_command_for_a_lost_key_brings_the_same_key_back(cluster: Broken) -> None:
    before = cluster.secret("slurm-auth-jwt", "jwt.key")
    with without_key(cluster) as target:
        command = cluster.why(target)["command"].replace("kubectl ", f"{shlex.quote(cluster.kubectl_program)} ")
        environment = {**os.environ, "KUBECONFIG": str(cluster.home.kubeconfig)}
        subprocess.run(["bash", "-c", command], env=environment, check=True, timeout=60)
        assert cluster.secret("slurm-auth-jwt", "jwt.key") == before


@pytest.mark.parametrize("version", VERSIONS)
def test_every_reason_that_this_slurm_knows_has_a_text(version: str) -> None:
    """They stand beside each other in Slurm's library."""
    libraries = sorted(store.default_cache().glob(f"**/{version}*/**/libslurmfull.so"))
    if not libraries:
        pytest.skip(f"there is no image of Slurm {version}")
    text = libraries[0].read_bytes()
    start = max(text.find(b"\0InvalidReason\0"), text.find(b"\0InvaildReason\0"))
    names = {found.decode() for found in re.findall(rb"[A-Z][A-Za-z]+(?=\0)", text[start : text.find(b"\0../", start)])}
    assert {"PartitionTimeLimit", "QOSGrpCpuLimit", "ReservationDeleted"} <= names
    unknown = [name for name in names if name not in REASONS and limit_of(name) is None]
    assert set(unknown) <= {"InvalidReason", "InvaildReason"}
