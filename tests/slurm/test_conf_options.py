"""Names inside SchedulerParameters and its sisters: none of Slurm's own is unknown, a misspelled one is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from slurm_operator.slurm.conf_lint import lint
from slurm_operator.slurm.conf_options import OPTION_LISTS

NAMES: dict[str, dict[str, list[str]]] = yaml.safe_load((Path(__file__).parent / "option_names.yaml").read_text())


@pytest.mark.parametrize(
    ("version", "key"), [(version, key) for version, keys in NAMES.items() for key in keys], ids=str
)
def test_every_name_of_the_manual_is_known_in_its_version(version: str, key: str) -> None:
    for name in NAMES[version][key]:
        found = lint({"slurm.conf": f"{key}={name}\n"}, version=version)
        assert [each.without_place for each in found] == []


def test_every_list_of_options_is_held_against_the_manual() -> None:
    # These have the options of another list, or none in the manual.
    assert set(OPTION_LISTS) - {"SbcastParameters"} <= {key for keys in NAMES.values() for key in keys}


@pytest.mark.parametrize(
    ("text", "version", "said"),
    [
        (
            "SchedulerParameters=bf_continue,bf_intervall=30",
            "26.05",
            "Slurm does not know the option 'bf_intervall' here, and ignores it; did you mean bf_interval?",
        ),
        (
            "SlurmctldParameters=enable_configles",
            "24.11",
            "Slurm does not know the option 'enable_configles' here, and ignores it; did you mean enable_configless?",
        ),
        (
            "SchedulerParameters=bf_interval=thirty",
            "24.11",
            "bf_interval=thirty is not a number",
        ),
        (
            "SchedulerParameters=bf_window",
            "24.11",
            "bf_window needs a number, as in bf_window=1",
        ),
        (
            "SchedulerParameters=bf_hetjob_prio=most",
            "24.11",
            "bf_hetjob_prio=most is not one of min, avg, max",
        ),
        (
            "LaunchParameters=srun_exclusive_allocation",
            "24.11",
            "srun_exclusive_allocation needs Slurm 25.05 or newer, this is 24.11",
        ),
        (
            "SchedulerParameters=no_env_cache",
            "26.05",
            "Slurm knows no_env_cache only up to 25.11, this is 26.05",
        ),
    ],
    ids=["a slip", "another slip", "no number", "no value", "no choice", "too new", "gone"],
)
def test_what_slurm_passes_over_in_silence_is_a_warning(text: str, version: str, said: str) -> None:
    (found,) = lint({"slurm.conf": text + "\n"}, version=version)
    assert (found.severity, found.without_place) == ("warning", f"{text.partition('=')[0]}: {said}")


@pytest.mark.parametrize(
    "text",
    [
        "SchedulerParameters=BF_Continue,,bf_interval=-1",
        "AuthInfo=/run/munge/munge.socket.2",
        "SlurmctldParameters=reconfig_on_restart",
    ],
)
def test_forms_that_slurm_takes_are_let_be(text: str) -> None:
    for version in ("24.11", "25.05", "25.11", "26.05"):
        assert lint({"slurm.conf": text + "\n"}, version=version) == []
