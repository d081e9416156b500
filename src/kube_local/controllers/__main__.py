"""`python -m kube_local.controllers --kubeconfig FILE --volumes FOLDER [--dns ADDRESS]`: one process.

Started and kept alive by the supervisor of local mode. Exit code 0 when asked to stop, 1 when a part of it ended.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys
from pathlib import Path

from kube_local.controllers.run import run
from kube_local.controllers.settings import Settings
from kube_runtime.client import kubeconfig
from kube_runtime.client.client import Client
from kube_runtime.errors import OperatorError
from kube_runtime.loop.run import Ending

log = logging.getLogger("kube_local.controllers")


def main(arguments: list[str] | None = None) -> int:
    """Run until asked to stop."""
    given = _parser().parse_args(arguments)
    logging.basicConfig(level=given.log_level.upper(), format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    settings = Settings(
        volumes=given.volumes.resolve(),
        dns_address=given.dns,
        dns_port=given.dns_port,
        cluster_domain=given.cluster_domain,
    )
    try:
        ending = asyncio.run(_run(given.kubeconfig, settings))
    except OperatorError as error:
        log.error("%s", error)  # noqa: TRY400  # for people: the traceback says nothing more
        return 1
    log.info("ended: %s", ending.value)
    return 0 if ending is Ending.ASKED else 1


async def _run(path: str, settings: Settings) -> Ending:
    async with Client.to(kubeconfig.find(path=path)) as client:
        return await run(client, settings)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="slurm-operator local controllers", description=__doc__)
    parser.add_argument("--kubeconfig", required=True, help="how to reach the API server")
    parser.add_argument("--volumes", required=True, type=Path, help="folder in which volumes are made")
    parser.add_argument("--dns", default="", help="address that the DNS server listens on; none without it")
    parser.add_argument("--dns-port", type=int, default=53)
    parser.add_argument("--cluster-domain", default="cluster.local")
    parser.add_argument("--log-level", default="info", choices=["debug", "info", "warning", "error"])
    return parser


if __name__ == "__main__":
    sys.exit(main())
