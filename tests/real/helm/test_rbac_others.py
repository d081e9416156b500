"""The admission server and `kubectl slurm` with exactly the roles that they are shipped with, on a real kube-apiserver.

The API server calls the admission server itself, over the certificate that it made and published. Each of its rights is
missing once at its start: it lives, and names the right. People who may only look see everything and change nothing.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from tests.real.helm.admitting import WEBHOOK, Place, admitting
from tests.real.helm.rbac_world import (
    CORE,
    NAMES,
    OURS,
    RBAC,
    Json,
    Process,
    eventually,
    install,
    make_cluster,
    resources,
    rights,
    roles,
    rules_without,
)
from tests.real.kube.cluster import real_cluster

pytestmark = [pytest.mark.real_kube, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def place(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Place]:
    """The place, for the whole module."""
    folder = tmp_path_factory.mktemp("roles")
    async with real_cluster(folder, controllers=True) as cluster, cluster.session() as http:
        await install(http)
        await make_cluster(http)
        yield Place(cluster, http, folder)


# The admission server


async def refusal(place: Place, body: Json, plural: str) -> str:
    """Why something does not come in."""
    status, answer = await place.call("POST", f"{OURS}/{plural}?dryRun=All", body)
    assert status >= 400, "it came in"
    return str(answer["message"])


async def test_the_admission_server_works_with_its_role_and_names_each_right_that_is_missing(place: Place) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await place.call("POST", f"{CORE}/persistentvolumeclaims", {"metadata": {"name": "state"}, "spec": claim})
    bodies = {path.rpartition("/")[2]: body for path, body in resources()}
    controller = {**bodies["controllers"], "metadata": {"name": "two"}}
    controller["spec"] = controller["spec"] | {
        "ha": {"enabled": True, "backups": 1},
        "persistence": {"enabled": True, "existingClaim": "state"},
    }
    async with admitting(place) as process:

        async def is_refused() -> bool:
            words = "claim 'state' allows ReadWriteOnce; backup controllers need ReadWriteMany"
            return words in await refusal(place, controller, "controllers")

        # Its caches may learn of the claim a moment later.
        await eventually(is_refused)
        assert "can-i" not in process.log.read_text()
        assert process.ended == []
        for right in rights(WEBHOOK):
            await place.call("PATCH", right.role, {"rules": rules_without(right, WEBHOOK)})
            since = process.log.stat().st_size
            await process.restart()
            try:
                await eventually(lambda at=since, what=right.can_i: said(process, at, what))  # type: ignore[misc]  # bound
            except TimeoutError:
                pytest.fail(f"nobody said {right.can_i}: {process.log.read_text()[since:][-3000:]}")
            finally:
                await place.call("PATCH", right.role, {"rules": roles(WEBHOOK)[right.role]["rules"]})
            assert process.ended == []
        await process.restart()
        await eventually(is_refused)
    assert "Traceback" not in process.log.read_text()


async def said(process: Process, since: int, words: str) -> bool:
    """Whether the log says something."""
    with process.log.open() as log:
        log.seek(since)
        return words in log.read()


# People


async def slurm(place: Place, account: str, *arguments: str) -> tuple[int, str, str]:
    """`kubectl slurm` as an account."""
    command = [sys.executable, "-m", "slurm_operator.cli.kubectl.main", "-n", "slurm"]
    command += ["--kubeconfig", str(await place.kubeconfig(account)), *arguments]
    child = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await child.communicate()
    return child.returncode or 0, out.decode(), err.decode()


async def person(place: Place, name: str, role: str) -> None:
    """An account that is bound to a role in the namespace of the cluster."""
    await place.call("POST", "/api/v1/namespaces/slinky/serviceaccounts", {"metadata": {"name": name}})
    subject = {"kind": "ServiceAccount", "name": name, "namespace": "slinky"}
    ref = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role}
    binding = {"metadata": {"name": name}, "subjects": [subject], "roleRef": ref}
    status, answer = await place.call("POST", f"{RBAC}/namespaces/slurm/rolebindings", binding)
    assert status == 201, answer


async def test_who_may_only_look_sees_everything_and_changes_nothing(place: Place) -> None:
    # Kubernetes' own role for looking, into which ours is put.
    await person(place, "viewer", "view")

    async def is_aggregated() -> bool:
        _, role = await place.call("GET", f"{RBAC}/clusterroles/view")
        return "slinky.slurm.net" in json.dumps(role)

    await eventually(is_aggregated)
    code, out, err = await slurm(place, "viewer", "status")
    assert code in (0, 1), err
    assert "Traceback" not in err
    for name in (NAMES["controllers"], NAMES["nodesets"], NAMES["partitions"]):
        assert name in out
    code, _, err = await slurm(place, "viewer", "partition", "drain", "all")
    assert code != 0
    assert "kubectl auth can-i patch partitions.slinky.slurm.net -n slurm" in err
    assert "Traceback" not in err


async def test_who_may_not_even_look_is_told_which_right_is_missing(place: Place) -> None:
    await place.call("POST", "/api/v1/namespaces/slinky/serviceaccounts", {"metadata": {"name": "nobody"}})
    code, _, err = await slurm(place, "nobody", "status")
    assert code != 0
    assert "kubectl auth can-i list" in err
    assert "Traceback" not in err
