"""What can go wrong with a pod on this machine; the reason becomes the reason of a container's waiting state.

Raised by `bundle`, `volumes`, `network`, `runtime` and the images; read by `container` and `pod`.
"""

from __future__ import annotations

from typing import ClassVar

from kube_runtime.errors import Retryable, Terminal


class NodeError(Retryable):
    """Something on this machine failed; it is tried again."""

    reason: ClassVar[str] = "NodeError"


class CannotRunPods(Terminal):
    """This machine cannot run pods at all; the text says what is missing."""

    reason: ClassVar[str] = "CannotRunPods"


class CommandFailed(NodeError):
    """A program of the machine (ip, runc, mount …) said no."""

    reason: ClassVar[str] = "CommandFailed"


class MountFailed(NodeError):
    """A volume cannot be mounted; the pod waits for it."""

    reason: ClassVar[str] = "FailedMount"


class SandboxFailed(NodeError):
    """The pod got no network."""

    reason: ClassVar[str] = "FailedCreatePodSandBox"


class ImageMissing(NodeError):
    """No root file system stands for this image."""

    reason: ClassVar[str] = "ErrImagePull"


class ConfigInvalid(NodeError):
    """The container cannot be created as its spec says; a changed ConfigMap or Secret may help."""

    reason: ClassVar[str] = "CreateContainerConfigError"


class RunFailed(NodeError):
    """The runtime could not make or start the container."""

    reason: ClassVar[str] = "RunContainerError"
