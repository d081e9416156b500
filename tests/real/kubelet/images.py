"""Archives of every image that the tests on a real kubelet run: Slurm, the operator, and the pause image.

In: local mode's image of Slurm, `deploy/Dockerfile`, Debian's packages. Out: OCI archives for `ctr images import`.
The operator's image is made as its Dockerfile says, without Docker: Debian with Python, the requirements by their
hashes, the package; its user, environment and entry point are read out of the Dockerfile itself. What does not change
stays in the cache. Called by the `kubelet` fixture and by `bench/config_latency.py`.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pip
import yaml
from tests.real.kubelet import tools
from tests.real.kubelet.oci import OciImage, oci_archive
from tests.real.kubelet.settings import PAUSE

from slurm_operator.build import images as names
from slurm_operator.local.image import apt, build, recipe, rules, store
from slurm_operator.local.image.errors import CannotBuild
from slurm_operator.local.image.progress import Progress

ROOT = Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
INSTALL = ROOT / "deploy" / "install.yaml"
REQUIREMENTS = ROOT / "requirements" / "operator.txt"
DAEMONS = ("slurmctld", "slurmd", "slurmrestd", "slurmdbd", "login")
# Debian's release with the Python that the Dockerfile starts from.
SUITES = {"3.13": "trixie"}
PACKAGES = ("python3", "ca-certificates", "netbase", "tzdata")
VENV = "/opt/slurm-operator"
FINISH = """\
cd "$1"
rm -rf etc/apt/sources.list etc/apt/sources.list.d/* etc/apt/apt.conf.d/99mmdebstrap
rm -rf var/lib/apt/lists/* var/cache/apt/* var/log/*.log var/log/apt etc/hostname etc/resolv.conf
"""


def say(step: Progress | str) -> None:
    """Progress for the person who waits."""
    text = step if isinstance(step, str) else step.step
    if isinstance(step, str) or not step.done:
        print(f"kubelet-images: {text}", file=sys.stderr, flush=True)


# --- Slurm and pause --------------------------------------------------------------------------------------------------


def slurm_images(version: str = recipe.DEFAULT_VERSION) -> list[OciImage]:
    """The names that the operator uses by default, each with what local mode runs for it."""
    built = build.build(version, store.default_cache(), say)
    wanted = [names.default(daemon) for daemon in DAEMONS]
    found = [rules.resolve(name, rules.DEFAULT, {version: built}) for name in wanted]
    return [
        OciImage(
            name=each.image,
            layers=(each.rootfs,),
            entrypoint=each.entrypoint,
            command=each.command,
            env=each.env,
            user=each.user or "0:0",
        )
        for each in found
    ]


def pause_image(folder: Path) -> OciImage:
    """The program that holds a pod's namespaces: Debian's catatonit, one static file."""
    folder.mkdir(parents=True)
    shutil.copy2(tools.node_folder() / "usr" / "bin" / "catatonit", folder / "pause")
    return OciImage(name=PAUSE, layers=(folder,), entrypoint=("/pause", "-P"), user="65535:65535")


# --- the operator -----------------------------------------------------------------------------------------------------


def last_stage(text: str) -> dict[str, str]:
    """The instructions of a Dockerfile's last stage that tell what runs, by keyword."""
    stage = re.split(r"^FROM ", text.replace("\\\n", " "), flags=re.MULTILINE)[-1]
    kept = ("ENV", "USER", "WORKDIR", "ENTRYPOINT", "CMD")
    lines = (line.split(None, 1) for line in stage.splitlines())
    return {words[0]: words[1] for words in lines if words and words[0] in kept}


def operator_image(layers: tuple[Path, ...]) -> OciImage:
    """The layers under the name that the manifest installs, run as the Dockerfile says."""
    said = last_stage(DOCKERFILE.read_text())
    env = dict(word.split("=", 1) for word in shlex.split(said["ENV"].replace("$PATH", rules.PATH)))
    return OciImage(
        name=f"docker.io/library/{installed_image()}",
        layers=layers,
        entrypoint=tuple(json.loads(said["ENTRYPOINT"])),
        command=tuple(json.loads(said["CMD"])),
        env=env,
        user=said["USER"],
        working_dir=said["WORKDIR"],
    )


def installed_image() -> str:
    """The image that deploy/install.yaml names."""
    for body in yaml.safe_load_all(INSTALL.read_text()):
        if body and body["kind"] == "Deployment":
            return str(body["spec"]["template"]["spec"]["containers"][0]["image"])
    raise CannotBuild(f"{INSTALL} has no Deployment")


def python_version() -> str:
    """The Python that the Dockerfile starts from, as `3.13`."""
    found = re.search(r"^ARG PYTHON=python:(\d+\.\d+)", DOCKERFILE.read_text(), re.MULTILINE)
    if found is None or found[1] not in SUITES:
        raise CannotBuild(f"{DOCKERFILE} starts from a Python that no Debian release here has: {list(SUITES)}")
    return found[1]


def operator_layers(scratch: Path) -> tuple[Path, ...]:
    """Debian with Python, the requirements, the package; the first two out of the cache."""
    cache = store.default_cache() / "operator-image"
    cache.mkdir(parents=True, exist_ok=True)
    with store.lock(store.default_cache(), lambda: say("wait for another build")):
        base = cached(cache, "debian", [PACKAGES, FINISH, python_version()], bootstrap)
        content = [base.name, REQUIREMENTS.read_text()]
        below = cached(cache, "requirements", content, lambda into: install_requirements(base, into))
    layer = scratch / "operator"
    layer.mkdir()
    install_package((below, base), layer)
    return base, below, layer


def cached(cache: Path, name: str, content: object, make: Callable[[Path], None]) -> Path:
    """A folder that depends on nothing but `content`, made once, there as a whole or not at all."""
    digest = hashlib.sha256(json.dumps(content).encode()).hexdigest()[:12]
    target = cache / f"{name}-{digest}"
    if not target.exists():
        say(f"{name} of the operator's image")
        fresh = cache / f"{name}-{digest}{store.UNFINISHED}"
        store.remove_tree(fresh)
        fresh.mkdir()
        make(fresh)
        fresh.rename(target)
    return target


def bootstrap(target: Path) -> None:
    """A Debian root file system with Python and little else."""
    build.require_host(say)
    suite = apt.Suite(SUITES[python_version()], store.default_cache() / "apt" / "operator", apt.host_mirror())
    suite.prepare()
    suite.update()
    download = suite.plan(PACKAGES)
    build.require_room(download, store.default_cache())
    suite.fetch(download, say)
    finish = target.with_suffix(".finish.sh")
    finish.write_text(FINISH)
    try:
        hooks = {"users": "true", "finish": f'sh {finish} "$1"'}
        run(["nice", "-n", "10", *build.command(suite, PACKAGES, target, hooks)])
    finally:
        finish.unlink()


def install_requirements(base: Path, into: Path) -> None:
    """The virtual environment of the Dockerfile's first stage."""
    version = python_version()
    machine = os.uname().machine
    platforms = [f"--platform={kind}_{machine}" for kind in ("manylinux2014", "manylinux_2_17", "manylinux_2_28")]
    with tempfile.TemporaryDirectory(dir=into.parent) as name:
        wheels = Path(name) / "wheels"
        pinned = ["--require-hashes", "--only-binary=:all:", "--no-deps", "-r", str(REQUIREMENTS)]
        foreign = [f"--python-version={version}", "--implementation=cp", *platforms]
        run([sys.executable, "-m", "pip", "-q", "download", "-d", str(wheels), *foreign, *pinned])
        shutil.copy2(REQUIREMENTS, Path(name) / "requirements.txt")
        install = "--no-compile --no-deps --require-hashes --only-binary=:all: -r /mnt/requirements.txt"
        in_layer((base,), into, Path(name), [f"python3 -m venv --without-pip {VENV}", pip_install(install)])


def install_package(below: Sequence[Path], into: Path) -> None:
    """This very source tree, as a wheel."""
    with tempfile.TemporaryDirectory(dir=into.parent) as name:
        wheel = ["wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", f"{name}/wheels", str(ROOT)]
        run([sys.executable, "-m", "pip", "-q", *wheel])
        in_layer(below, into, Path(name), [pip_install("--no-compile --no-deps slurm-operator")])


def pip_install(arguments: str) -> str:
    """pip is lent for the moment: it is not in the image."""
    return f"PYTHONPATH=/mnt/pip {VENV}/bin/python -m pip -q install --no-index --find-links /mnt/wheels {arguments}"


def in_layer(below: Sequence[Path], into: Path, build_folder: Path, commands: Sequence[str]) -> None:
    """Run commands in a root file system; what they write becomes a layer of its own."""
    shutil.copytree(Path(pip.__file__).parent, build_folder / "pip" / "pip")
    for part in ("work", "root"):
        (build_folder / part).mkdir()
    lower = ":".join(str(folder) for folder in below)
    inside = "export PYTHONDONTWRITEBYTECODE=1 PATH=/usr/bin:/bin HOME=/nowhere; " + " && ".join(commands)
    script = f"""\
mount -t overlay overlay -o lowerdir={lower},upperdir={into},workdir={build_folder / "work"} {build_folder / "root"}
mount --bind {build_folder} {build_folder / "root" / "mnt"}
chroot {build_folder / "root"} sh -ec {shlex.quote(inside)}
"""
    run(["nice", "-n", "10", "unshare", "--mount", "--propagation=private", "env", "-i", "sh", "-ec", script])


def run(argv: Sequence[str]) -> None:
    """Run to its end; its own words become the error."""
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CannotBuild(f"'{' '.join(argv[:6])} …' failed:\n{(done.stdout + done.stderr).strip()[-2000:]}")


@contextmanager
def archives(version: str = recipe.DEFAULT_VERSION) -> Iterator[list[Path]]:
    """Everything that a machine needs, as archives that are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="kubelet-images-") as name:
        scratch = Path(name)
        made = {
            "slurm": slurm_images(version),
            "operator": [operator_image(operator_layers(scratch))],
            "pause": [pause_image(scratch / "pause")],
        }
        for archive, content in made.items():
            oci_archive(content, scratch / f"{archive}.tar")
        yield [scratch / f"{archive}.tar" for archive in made]
