"""Kubeconfigs and exec plugins, written for a test."""

from __future__ import annotations

import stat
import sys
from pathlib import Path
from typing import Any

import msgspec
import yaml

from kube_runtime.client import kubeconfig


def config(**parts: Any) -> dict[str, Any]:
    """A kubeconfig with one context; `user` and `cluster` add to its entries."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "main",
        "clusters": [{"name": "c", "cluster": {"server": "https://one:6443", **parts.get("cluster", {})}}],
        "users": [{"name": "u", "user": parts.get("user", {"token": "t"})}],
        "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u", **parts.get("context", {})}}],
    }


def write(path: Path, content: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    return path


async def authorization(target: kubeconfig.Target) -> str:
    return (await target.credentials.current()).authorization


def plugin_script(folder: Path, answer: str, *, code: int = 0) -> str:
    """A plugin that notes its surroundings and prints an answer."""
    script = write(
        folder / "plugin",
        f"#!{sys.executable}\nimport os, sys\n"
        f"open({str(folder / 'calls')!r}, 'a').write(os.environ['KUBERNETES_EXEC_INFO'] + chr(10))\n"
        f"open({str(folder / 'env')!r}, 'w').write(os.environ.get('EXTRA', '') + ' ' + ' '.join(sys.argv[1:]))\n"
        f"print({answer!r})\nprint('it broke', file=sys.stderr)\nsys.exit({code})\n",
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return "./plugin"


def credential(version: str, **status: str) -> str:
    return msgspec.json.encode({"apiVersion": version, "kind": "ExecCredential", "status": status}).decode()


def exec_user(command: str, version: str, **more: Any) -> dict[str, Any]:
    return {"exec": {"command": command, "apiVersion": version, "interactiveMode": "Never", **more}}
