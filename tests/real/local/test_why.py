"""A real cluster broken on purpose in ninety ways, on each Slurm version: `kubectl slurm why` names each true cause.

Breaks that do not touch each other are made side by side, in waves. All of a wave are asked about at the same moments,
by what `kubectl slurm why` itself calls, until each has its cause: an answer on the way may say that something is not
there yet, but every cause that is named must be the true one. At the end of each version stands the count. Needs root;
where it cannot run it is skipped loudly.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.real.local import breaking, broken, waiting
from tests.real.local.e2e.cluster import NAMESPACE, CannotRun, LocalCluster
from tests.real.local.table import Score, Wave, ask, ask_doctor
from tests.real.local.table import broken as broken_by

from slurm_operator.cli.kubectl.command import Where, judged
from slurm_operator.cli.kubectl.explain import explained
from slurm_operator.cli.kubectl.main import main as kubectl_slurm
from slurm_operator.cli.kubectl.view import answer_data
from slurm_operator.diagnose.reasons import REASONS, limit_of
from slurm_operator.local.image import store

pytestmark = [
    pytest.mark.real_slurm,
    pytest.mark.timeout(900),
    pytest.mark.skipif(os.geteuid() != 0, reason="a local cluster needs root"),
    pytest.mark.xdist_group("local-why"),
]

Json = dict[str, Any]
VERSIONS = ("24.11", "26.05")
WELL_SECONDS = 240.0
WELL = ("controller/slurm", "accounting/slurm", "restapi/slurm", "nodeset/compute", "loginset/login", "partition/short")
WAVES: dict[str, Wave] = {"from the start": broken.WAVE, **waiting.WAVES, **breaking.WAVES}


class Broken(LocalCluster):
    """A cluster that is asked why."""

    # The job that a wave stands on.
    first = ""

    def why(self, target: str) -> Json:
        """What `kubectl slurm why` says."""
        where = ["--kubeconfig", str(self.home.kubeconfig), "-n", NAMESPACE]
        done = CliRunner().invoke(kubectl_slurm, [*where, "why", target, "-o", "json"], catch_exceptions=False)
        assert done.exit_code in (0, 1), done.output
        found: Json = json.loads(done.stdout)
        assert found["ok"] == (done.exit_code == 0)
        return found

    def why_all(self, targets: Iterable[str]) -> dict[str, Json]:
        """What it would say of each, all asked at one moment."""
        names = list(targets)
        where = Where(str(self.home.kubeconfig), "", NAMESPACE)
        _, answers = asyncio.run(judged(where, lambda facts: [explained(facts, name) for name in names]))
        return {name: answer_data(answer) for name, answer in zip(names, answers, strict=True)}

    def says(self, *arguments: str) -> str:
        """What a command of `kubectl slurm` prints for people when all is well."""
        where = ["--kubeconfig", str(self.home.kubeconfig), "-n", NAMESPACE]
        done = CliRunner().invoke(kubectl_slurm, [*where, *arguments], catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    def doctor(self) -> list[Json]:
        """What `kubectl slurm doctor` says."""
        where = ["--kubeconfig", str(self.home.kubeconfig), "-n", NAMESPACE]
        done = CliRunner().invoke(kubectl_slurm, [*where, "doctor", "-o", "json"], catch_exceptions=False)
        found: list[Json] = json.loads(done.stdout)
        assert done.exit_code == (0 if all(each["ok"] for each in found) else 1), done.output
        return found

    @property
    def kubectl_program(self) -> str:
        """Where kubectl is."""
        return str(self._kubectl)

    def apply(self, *objects: Json) -> None:
        self.kubectl("apply", "-f", "-", stdin=self._list(objects))

    def remove(self, *objects: Json) -> None:
        self.kubectl("delete", "--ignore-not-found", "--wait=false", "-f", "-", stdin=self._list(objects))

    def _list(self, objects: Iterable[Json]) -> str:
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        return text.replace("VERSION", self.version)

    def _has_no_job(self) -> bool:
        cancel = "scancel -u alice && scancel -u root && squeue -h"
        done = self.attempt("exec", "slurm-controller-0", "-c", "slurmctld", "--", "sh", "-c", cancel)
        return done.returncode == 0 and not done.stdout.strip()

    def settle(self) -> None:
        """Whatever was broken is mended: no job is left, and `why` finds nothing wrong with anything that is good."""
        # A slurmctld that was broken may be replaced under our hands.
        self.until("no job is left", self._has_no_job, WELL_SECONDS)
        said: dict[str, Json] = {}

        def is_well() -> bool:
            said.update(self.why_all(WELL))
            return all(each["ok"] for each in said.values())

        try:
            self.until("everything is well again", is_well, WELL_SECONDS)
        except AssertionError as error:
            raise AssertionError(f"{error}: {[each for each in said.values() if not each['ok']]}") from error


@pytest.fixture(scope="module", params=VERSIONS)
def version(request: pytest.FixtureRequest) -> str:
    """The Slurm version."""
    return str(request.param)


@pytest.fixture(scope="module")
def score(version: str) -> Score:
    """What is counted for a version."""
    return Score()


@pytest.fixture(scope="module")
def cluster(version: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broken]:
    """A good cluster of two workers, with accounting and a login pod."""
    folder: Path = tmp_path_factory.mktemp("why")
    manifest = folder / "manifest.yaml"
    manifest.write_text(waiting.manifest(version))
    made = Broken(folder / "cluster", version)
    made.name = f"why-{version.replace('.', '-')}"
    try:
        made.prepare()
    except CannotRun as error:
        pytest.skip(f"no local cluster: {error}")
    try:
        # One partition is DOWN, and so never ready.
        made.local("up", "--nodes", "3", "--slurm", version, "--no-wait", "-f", str(manifest))
        # Otherwise every name stands for some image.
        rules = made.home.rules
        rules.write_text(rules.read_text().replace("match: '*'", "match: library/*"))
        for kind, name in (target.split("/") for target in WELL):
            made.until(f"{kind} {name} is ready", lambda k=kind, n=name: made.condition(k, n) == "True", 300)  # type: ignore[misc]
        waiting.prepare(made)
        yield made
    finally:
        made.reset()


@pytest.mark.parametrize("wave", WAVES.values(), ids=WAVES)
def test_each_break_has_its_true_cause_and_is_well_when_it_is_mended(cluster: Broken, score: Score, wave: Wave) -> None:
    with broken_by(cluster, wave) as made:
        results = ask(cluster, wave, made)
        score.results.extend(results)
        score.doctor.append(ask_doctor(cluster, wave, results))
        print("", *results, score.doctor[-1], sep="\n")
    cluster.settle()
    assert [str(each) for each in (*results, score.doctor[-1]) if not each.is_good] == []


def test_a_good_cluster_has_no_cause_and_the_commands_say_so(cluster: Broken) -> None:
    for target in (*WELL, "node/compute-0"):
        assert cluster.why(target)["ok"], target
    # What the breaks left under way, such as a partition whose jobs Slurm still lists, is listed and not wrong.
    cluster.until("nothing is wrong", lambda: all(each["ok"] for each in cluster.doctor()), WELL_SECONDS)
    assert cluster.says("doctor").splitlines()[-1] == "nothing is wrong"
    # Here the list of what is under way comes last.
    assert "nothing is wrong" in cluster.says("status").splitlines()


def test_the_command_for_a_lost_key_brings_the_same_key_back(cluster: Broken) -> None:
    before = cluster.secret("slurm-auth-jwt", "jwt.key")
    with waiting.without_key(cluster) as target:
        command = cluster.why(target)["command"].replace("kubectl ", f"{shlex.quote(cluster.kubectl_program)} ")
        environment = {**os.environ, "KUBECONFIG": str(cluster.home.kubeconfig)}
        subprocess.run(["bash", "-c", command], env=environment, check=True, timeout=60)
        assert cluster.secret("slurm-auth-jwt", "jwt.key") == before


def test_kubectl_finds_the_plugin_of_a_local_cluster(cluster: Broken) -> None:
    said = cluster.local("kubectl", "slurm", "--namespace", NAMESPACE, "partition", "list", "-o", "json")
    assert "short" in [row["name"] for row in json.loads(said)]


def test_every_reason_that_this_slurm_knows_has_a_text(version: str) -> None:
    """They stand beside each other in Slurm's library."""
    libraries = sorted(store.default_cache().glob(f"**/slurm-{version}-*/**/libslurmfull.so"))
    if not libraries:
        pytest.skip(f"there is no image of Slurm {version}")
    text = libraries[0].read_bytes()
    start = max(text.find(b"\0InvalidReason\0"), text.find(b"\0InvaildReason\0"))
    names = {found.decode() for found in re.findall(rb"[A-Z][A-Za-z]+(?=\0)", text[start : text.find(b"\0../", start)])}
    assert {"PartitionTimeLimit", "QOSGrpCpuLimit", "ReservationDeleted"} <= names
    unknown = [name for name in names if name not in REASONS and limit_of(name) is None]
    assert set(unknown) <= {"InvalidReason", "InvaildReason"}


def test_the_table_has_its_counts(version: str, score: Score) -> None:
    print(f"\n{score.summary(version)}")
    if len(score.results) < sum(len(wave.rows) for wave in WAVES.values()):
        pytest.skip("not the whole table was run")
    assert score.meets_the_bar, score.summary(version)
