"""Writes the software bill of materials, in CycloneDX 1.6, of what the operator's image holds.

In: requirements/operator.txt, whose versions and hashes are complete. Out: JSON on standard output, the same bytes for
the same file. Run by releases; `tests/docs/test_sbom.py` holds it against what is installed.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
import uuid
from pathlib import Path
from typing import Any

from slurm_operator import __version__

ROOT = Path(__file__).resolve().parents[1]
LOCKED = ROOT / "requirements" / "operator.txt"
_PIN = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;\\]+)")
_HASH = re.compile(r"--hash=sha256:([0-9a-f]{64})")


def components(text: str) -> list[dict[str, Any]]:
    """Every pinned package, with the hashes of the files that it may be installed from."""
    found: list[dict[str, Any]] = []
    for block in re.split(r"\n(?=\S)", text):
        pin = _PIN.match(block)
        if pin is None:
            continue
        name, version = pin[1].lower().replace("_", "-"), pin[2]
        reference = f"pkg:pypi/{name}@{version}"
        hashes = [{"alg": "SHA-256", "content": each} for each in sorted(_HASH.findall(block))]
        found.append(
            {
                "type": "library",
                "bom-ref": reference,
                "name": name,
                "version": version,
                "purl": reference,
                "externalReferences": [{"type": "distribution", "url": reference, "hashes": hashes}],
            }
        )
    return sorted(found, key=lambda each: str(each["bom-ref"]))


def document(text: str, version: str) -> dict[str, Any]:
    """The whole bill; its serial number follows from its content."""
    listed = components(text)
    digest = hashlib.sha256(json.dumps([version, listed], sort_keys=True).encode()).digest()
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.UUID(bytes=digest[:16], version=5)}",
        "version": 1,
        "metadata": {"component": {"type": "application", "name": "slurm-operator", "version": version}},
        "components": listed,
    }


def main() -> None:
    """Print the bill."""
    json.dump(document(LOCKED.read_text(), __version__), sys.stdout, indent=2)
    sys.stdout.write("\n")


if __name__ == "__main__":
    main()
