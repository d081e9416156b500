"""What can go wrong with images; each text says what to do."""

from __future__ import annotations

from typing import ClassVar

from kube_runtime.errors import Retryable, Terminal


class ImageError(Terminal):
    """An image cannot be had on this machine as it is."""

    reason: ClassVar[str] = "ImageUnavailable"


class CannotBuild(ImageError):
    """This machine lacks something that building an image needs."""

    reason: ClassVar[str] = "CannotBuildImage"


class UnknownVersion(ImageError):
    """No Debian suite on the mirror has that Slurm."""

    reason: ClassVar[str] = "UnknownSlurmVersion"


class ImageMissing(ImageError):
    """The image was not built yet."""

    reason: ClassVar[str] = "ImageMissing"


class InvalidRules(ImageError):
    """The file with the rules cannot be used."""

    reason: ClassVar[str] = "InvalidImageRules"


class BuildInterrupted(Retryable):
    """The mirror broke, or a part of the build was killed; what was downloaded is kept."""

    reason: ClassVar[str] = "ImageBuildInterrupted"
