"""Write deploy/crds: one file for each kind, from `slurm_operator.api`.

Run by `make golden`; a test fails when a file is stale.
"""

from __future__ import annotations

import sys
from pathlib import Path

from slurm_operator.api.crd import definitions
from slurm_operator.cli.render import as_yaml

FOLDER = Path(__file__).parents[1] / "deploy/crds"


def files() -> dict[str, str]:
    """File names and their content."""
    return {f"{crd['spec']['names']['plural']}.yaml": "".join(as_yaml([crd])) for crd in definitions()}


if __name__ == "__main__":
    for name, text in files().items():
        (FOLDER / name).write_text(text)
    sys.stdout.write(f"wrote {len(files())} files to {FOLDER.name}\n")
