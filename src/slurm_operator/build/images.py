"""Container images: the default ones, and the Slurm version that a tag speaks of.

Used by the builders for containers whose image nobody named, for the probes that a version can answer, and by the
checker for the slurm.conf keys that a version knows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

REPOSITORY = "ghcr.io/slinkyproject"
TAG = "26.05-ubuntu26.04"
# The first Slurm whose daemons answer HTTP on their own ports.
HTTP_PROBES = (25, 11)

# The images that a privileged worker may run where the administrator names no others.
TRUSTED = (f"{REPOSITORY}/",)

_TAG = re.compile(r":[^:/]*$")
_VERSION = re.compile(r"^v?(\d{2})\.(\d{2})(?:[.\-_]|$)")

Version = tuple[int, int]


def default(name: str) -> str:
    """The image of a daemon when the resource names none."""
    return f"{REPOSITORY}/{name}:{TAG}"


def of(container: Mapping[str, Any], name: str) -> str:
    """The image that a container will run."""
    return str(container.get("image") or default(name))


def repository(image: str) -> str:
    """An image without its tag and digest."""
    return _TAG.sub("", image.partition("@")[0])


def is_trusted(image: str, trusted: Iterable[str]) -> bool:
    """Whether an image is of a list: of a repository in it by any tag or digest, or below an entry that ends in `/`."""
    same = (image, repository(image))
    return any(image.startswith(entry) if entry.endswith("/") else entry in same for entry in trusted if entry)


def slurm_version(image: str) -> Version | None:
    """The Slurm version in an image's tag, such as 25.11 in slurmd:25.11-ubuntu24.04."""
    tag = image.rsplit("/", 1)[-1].partition("@")[0].partition(":")[2]
    match = _VERSION.match(tag)
    return (int(match[1]), int(match[2])) if match else None


def answers_http(image: str) -> bool:
    """Whether the daemon in this image answers HTTP probes; an unknown version is taken for a new one."""
    version = slurm_version(image)
    return version is None or version >= HTTP_PROBES
