"""A server in memory with a clock that stands still and counted uids, and a small client for it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.local.virtual_time import VirtualLoop

from kube_local.apiserver import ApiServer, Response

CRDS = Path(__file__).parents[3] / "deploy" / "crds"
MERGE = "application/merge-patch+json"
WIDGET = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Widget, plural: widgets, shortNames: [wd]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources:
      status: {}
      scale:
        specReplicasPath: .spec.replicas
        statusReplicasPath: .status.replicas
        labelSelectorPath: .status.selector
    additionalPrinterColumns:
    - {name: Size, type: string, jsonPath: .spec.size}
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              size: {type: string, default: small, enum: [small, large]}
              replicas: {type: integer, minimum: 0}
          status:
            type: object
            x-kubernetes-preserve-unknown-fields: true
  - name: v1beta1
    served: true
    storage: false
    schema:
      openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}
"""


@dataclass(slots=True)
class Clock:
    """A clock that tests move."""

    now: float = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass(slots=True)
class Api:
    """Requests in process; `ok` answers the body and insists on success."""

    server: ApiServer

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "",
    ) -> Response:
        """Any request."""
        headers = {"Content-Type": content_type, "Accept": accept, "User-Agent": "tester/1"}
        return await self.server.handle(method, path, query, headers, body)

    async def ok(self, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """A request that must succeed."""
        response = await self.send(method, path, body, **more)
        assert response.status < 300, response.body
        return response.json()

    async def fails(self, code: int, method: str, path: str, body: Any = None, **more: Any) -> Any:
        """A request that must fail with this code; answers the Status."""
        response = await self.send(method, path, body, **more)
        assert response.status == code, (response.status, response.body)
        return response.json()

    async def create(self, path: str, body: Mapping[str, Any], **more: Any) -> Any:
        """A new object."""
        return await self.ok("POST", path, body, **more)

    async def merge(self, path: str, patch: Any, **more: Any) -> Any:
        """A merge patch."""
        return await self.ok("PATCH", path, patch, content_type=MERGE, **more)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server(clock: Clock) -> ApiServer:
    numbers = itertools.count(1)
    return ApiServer(clock=clock, uid=lambda: f"uid-{next(numbers)}", suffix=lambda: "abcde")


@pytest.fixture
def api(server: ApiServer) -> Api:
    return Api(server)


@pytest.fixture
async def widgets(api: Api) -> Api:
    """The api, with the kind Widget."""
    await api.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(WIDGET))
    return api


@pytest.fixture
def own_definitions() -> list[dict[str, Any]]:
    """The CRDs of this project, where they are generated already."""
    found = [yaml.safe_load(path.read_text()) for path in sorted(CRDS.glob("*.yaml"))]
    if not found:
        pytest.skip("deploy/crds is empty")
    return found


@pytest.fixture
def in_virtual_time() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Runs a coroutine to its end in virtual time."""

    def run(coroutine: Coroutine[Any, Any, None]) -> None:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.run(coroutine)

    return run
