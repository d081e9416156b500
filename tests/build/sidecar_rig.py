"""The sidecar's program as its container runs it, with small stand-ins for Slurm's commands.

In: folders whose `..data` link moves as a kubelet moves it, and a folder `world` that the stand-ins in `sidecar_fakes`
read and write. Out: the verdicts, read as the operator reads them, and what is in force. Needs no root and no Slurm.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from slurm_operator.build import sidecar
from slurm_operator.plan.config import Verdict, content_hash, last_verdict

FAKES = Path(__file__).parent / "sidecar_fakes"
# Long enough for a machine under load; nothing waits as long when all is well.
PATIENCE_SECONDS = 30.0
SETTINGS = {
    "RECONFIGURE_INTERVAL": "0.01",
    "PARSE_LIMIT": "10",
    "TRIAL_LIMIT": "10",
    "RECONFIGURE_LIMIT": "10",
    "ANSWER_LIMIT": "10",
    "RECONFIGURE_SPACING": "0",
    "RETRY_AFTER": "",
}
BASE = "ClusterName=a\nMaxNodeCount=10\n"


def files(extra: str = "", **more: str) -> dict[str, str]:
    """A configuration with lines and files added."""
    return {"slurm.conf": BASE + extra, "cgroup.conf": "CgroupPlugin=disabled\n", **more}


def wait_for(true: Callable[[], object], what: str, explain: Callable[[], str]) -> None:
    """Until it is so."""
    end = time.monotonic() + PATIENCE_SECONDS
    while not true():
        assert time.monotonic() < end, f"waited for {what}\n{explain()}"
        time.sleep(0.01)


@dataclass
class Sidecar:
    """The running program and the volumes that it reads."""

    folder: Path
    process: subprocess.Popen[bytes] | None = None
    count: int = 0

    def __post_init__(self) -> None:
        for name in ("etc", "good", "candidate", "keys", "world", "bin"):
            (self.folder / name).mkdir()
        for name in ("scontrol", "slurmctld", "squeue"):
            (self.folder / "bin" / name).symlink_to(FAKES / name)
        # From the beginning: bash remembers where it found a command.
        for name in ("cp", "ln", "sed", "tail"):
            (self.folder / "bin" / name).symlink_to(FAKES / "hooked")
        (self.folder / "keys" / "slurm.key").write_text("secret")
        self.tell("up")
        self.tell("nodes", "3\n")
        self.tell("calls")

    @property
    def etc(self) -> Path:
        return self.folder / "etc"

    @property
    def environment(self) -> dict[str, str]:
        folders = {"SLURM_CONF_DIR": "etc", "WORLD": "world"}
        folders |= {f"CONFIG_{name.upper()}_DIR": name for name in ("good", "candidate", "keys")}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        return {"PATH": path, "HOSTNAME": "ctl", **{key: str(self.folder / name) for key, name in folders.items()}}

    def start(self, good: Mapping[str, str] | None = None, /, **settings: str) -> None:
        """Run it; with the files that pods start from, where they are there yet."""
        if good is not None:
            self.publish(good, to="good")
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                ["bash", "-c", sidecar.program()],
                env={**self.environment, **SETTINGS, **settings},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def begin(self, good: Mapping[str, str] | None = None, /, **settings: str) -> None:
        """Run it until slurmctld is known to have started."""
        self.start(files() if good is None else good, **settings)
        self.wait(self.verdicts, "the first verdict")

    def stop(self) -> int | None:
        """End it as a kubelet does; its exit code."""
        if self.process is None or self.process.poll() is not None:
            return None
        self.process.terminate()
        try:
            return self.process.wait(PATIENCE_SECONDS)
        finally:
            self.kill()

    def kill(self) -> None:
        """End it and what it started."""
        if self.process is not None:
            try:
                os.killpg(self.process.pid, signal.SIGKILL)
            except ProcessLookupError:
                return
            finally:
                self.process.wait(PATIENCE_SECONDS)

    def write(self, content: Mapping[str, str], *, to: str = "candidate", **note: str) -> str:
        """Files in a folder that nobody reads yet; gives its name."""
        self.count += 1
        version = self.folder / to / f"..{self.count}"
        version.mkdir()
        for name, text in content.items():
            (version / name).write_text(text)
        if note:
            (version / ".candidate").write_text("".join(f"{key}={value}\n" for key, value in note.items()))
        return version.name

    def publish(self, content: Mapping[str, str], *, to: str = "candidate", **note: str) -> str:
        """Put files in place as a kubelet does; gives their hash."""
        data, version = self.folder / to / "..data", self.write(content, to=to, **note)
        before = data.resolve() if data.is_symlink() else None
        link = data.with_name("..data_tmp")
        link.symlink_to(version)
        link.rename(data)
        if before is not None:
            shutil.rmtree(before)
        return content_hash(content)

    def judged(self, content: Mapping[str, str], **note: str) -> Verdict:
        """The verdict on these files."""
        before = len(self.verdicts())
        hash_ = self.publish(content, **note)
        self.wait(lambda: any(each.hash == hash_ for each in self.verdicts()[before:]), "a verdict")
        return next(each for each in self.verdicts()[before:] if each.hash == hash_)

    def wait(self, true: Callable[[], object], what: str) -> None:
        wait_for(true, what, self.log)

    def wait_for_log(self, text: str) -> None:
        self.wait(lambda: text in self.log(), text)

    def wait_for_call(self, name: str, times: int = 1) -> None:
        self.wait(lambda: self.calls().count(name) >= times, f"{name} {times} times")

    def log(self) -> str:
        return (self.folder / "log").read_text()

    def verdicts(self) -> list[Verdict]:
        """All verdicts so far, as the operator reads them."""
        return [found for line in self.log().splitlines() if (found := last_verdict([line])) is not None]

    def in_force(self) -> str:
        """The slurm.conf that slurmctld reads."""
        return (self.etc / "slurm.conf").read_text()

    def tell(self, name: str, text: str = "") -> None:
        """Something that the stand-ins look at."""
        (self.folder / "world" / name).write_text(text)

    def untell(self, name: str) -> None:
        (self.folder / "world" / name).unlink()

    def hook(self, command: str, text: str) -> None:
        """What happens first when the program calls cp, ln, sed or tail."""
        self.tell(f"on.{command}", text)

    def calls(self) -> list[str]:
        """What was asked of Slurm, in order, without questions that change nothing."""
        return (self.folder / "world" / "calls").read_text().splitlines()
