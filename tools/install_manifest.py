"""Write deploy/install.yaml: everything that the operator needs, for those without Helm.

In: the charts, and a helm (the one that the tests build, or the one on PATH). Out: definitions, then the operator and
its admission server in namespace slinky. Run by `make golden` where there is a helm; a test fails when it is stale.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
CHARTS = ROOT / "deploy" / "charts"
TARGET = ROOT / "deploy" / "install.yaml"
NAMESPACE = "slinky"
HEADER = """\
# The operator with its kinds and its admission server, in namespace slinky:
#   kubectl apply --server-side -f install.yaml
# Written by tools/install_manifest.py out of the charts; change those, then run `make golden`.
"""
ORDER = ("Namespace", "CustomResourceDefinition", "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role")

Object = dict[str, Any]
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def text(run: Run) -> str:
    """The whole file; `run` runs helm with arguments."""
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": _labels()}}
    rendered = run(
        "template",
        "slurm-operator",
        str(CHARTS / "slurm-operator"),
        "--namespace",
        NAMESPACE,
        "--set",
        "crds.enabled=true,crds.keep=false",
        "--skip-tests",
    ).stdout
    objects = [namespace, *(_plain(each) for each in yaml.safe_load_all(rendered) if each)]
    objects.sort(key=_place)
    return HEADER + "".join("---\n" + yaml.safe_dump(each, sort_keys=False, width=120) for each in objects)


def _labels() -> dict[str, str]:
    # Our own pods keep to the strictest profile that Kubernetes has.
    return {"pod-security.kubernetes.io/enforce": "restricted"}


def _plain(value: Object) -> Object:
    """Without the words of Helm, which has no part in this."""
    metadata = value["metadata"]
    metadata["labels"].pop("helm.sh/chart", None)
    metadata["labels"].pop("app.kubernetes.io/managed-by", None)
    return value


def _place(value: Object) -> tuple[int, str, str]:
    kind = value["kind"]
    return ORDER.index(kind) if kind in ORDER else len(ORDER), kind, value["metadata"]["name"]


def helm() -> str | None:
    """A helm, if there is one."""
    built = sorted((Path.home() / ".cache" / "slurm-operator").glob("helm-[0-9]*"))
    return str(built[0]) if built else shutil.which("helm")


def main() -> int:
    """Write the file, or say why not."""
    program = helm()
    if program is None:
        sys.stderr.write("install.yaml is left as it is: there is no helm (make helm-tools)\n")
        return 0

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([program, *arguments], capture_output=True, text=True, check=True)  # noqa: S603

    TARGET.write_text(text(run))
    sys.stdout.write(f"wrote {TARGET.name}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
