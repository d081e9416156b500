"""The API client: one method per verb, typed answers, typed errors, bounded waits.

In: a resource descriptor, names and plain dictionaries. Out: slim Structs. `cache` reads through it and `write` writes
through it; Leases, access reviews and local mode's stand-in for a kubelet go straight. `requests` builds, `transport`
sends, `decode` reads; what is left is when to resend:

* reads again after any failure to answer, 429, 500, 503 and 504;
* applies, versioned puts and deletes by uid only when the server cannot have acted: never sent, or 429 or 503;
* anything once more after a 401, with credentials read again;
* nothing else. Retry-After is honoured when it is short, and handed to the caller in `retry_after` when it is not.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Any, Generic, Unpack

import msgspec

from kube_runtime.backoff import Backoff, RetryWaits
from kube_runtime.client import requests
from kube_runtime.client.decode import (
    Page,
    Unreadable,
    WatchEvent,
    decode_event,
    decode_object,
    decode_page,
    decode_served,
    decode_status,
    split_lines,
)
from kube_runtime.client.errors import (
    BadAnswer,
    Expired,
    Forbidden,
    KubeError,
    NotFound,
    ServerError,
    ServerTimeout,
    TooManyRequests,
    Unauthorized,
    Unavailable,
    Unreachable,
    from_status,
)
from kube_runtime.client.kubeconfig import Target
from kube_runtime.client.missing_right import MissingRight
from kube_runtime.client.objects import PODS, Resource, Scale, T
from kube_runtime.client.remote import MAX_OUTPUT_BYTES, CommandResult, run
from kube_runtime.client.requests import DeleteOptions, LogOptions, Repeat, Request, Selection, WriteOptions
from kube_runtime.client.timing import Timing
from kube_runtime.client.transport import USER_AGENT, HttpResponse, HttpTransport, Limits, Transport

PAGE_ITEMS = 500
MAX_RETRY_AFTER_DIGITS = 9
# Each wait is spread over its second half: a thousand clients must not return at once.
_BACKOFF = Backoff(first=0.05, limit=5.0, jitter=1.0)


@dataclass(frozen=True, slots=True)
class Retries:
    """How often and how long to try again within one call."""

    attempts: int = 4
    backoff: Backoff = _BACKOFF
    # A server that wants us away for longer than this gets its wish from the reconcile queue, not from a held worker.
    max_retry_after_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Call:
    """One request as it went, for metrics."""

    request: Request
    code: int
    seconds: float
    # The right that it took and that is not there.
    denied: MissingRight | None = None


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """A whole list at one resourceVersion."""

    items: tuple[T, ...]
    resource_version: str
    unreadable: tuple[Unreadable, ...] = ()


def _no_report(_: Call) -> None:
    return None


def _no_callback() -> None:
    return None


@dataclass(slots=True)
class Client:
    """Talks to one API server."""

    transport: Transport
    timing: Timing = field(default_factory=Timing)
    retries: Retries = field(default_factory=Retries)
    report: Callable[[Call], None] = _no_report
    # Asked before every attempt of a write, and once more when its connection is there.
    fence: Callable[[], None] | None = None

    @classmethod
    def to(
        cls,
        target: Target,
        *,
        timing: Timing | None = None,
        limits: Limits | None = None,
        user_agent: str = USER_AGENT,
    ) -> Client:
        """A client for a target out of `kubeconfig`."""
        return cls(HttpTransport(target, limits or Limits(), user_agent), timing or Timing())

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self.transport.close()

    def fenced(self, fence: Callable[[], None]) -> Client:
        """The same client, whose writes are sent only while `fence` does not raise; both report to the same place."""

        def report(call: Call) -> None:
            # Looked up at each call: who counts requests is often set after the writer is made.
            self.report(call)

        return replace(self, fence=fence, report=report)

    # Reading

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        """One object."""
        return await self._object(requests.get(resource, namespace, name), resource.type)

    async def serves(self, resource: Resource[Any]) -> bool:
        """Whether the server knows this kind."""
        try:
            body = await self.send(requests.discovery(resource))
        except NotFound:
            return False
        return resource.plural in decode_served(body)

    async def get_scale(self, resource: Resource[Any], name: str, namespace: str = "") -> Scale:
        """The scale subresource of one object."""
        return await self._object(requests.get(resource, namespace, name, "scale"), Scale)

    async def pages(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        limit: int = PAGE_ITEMS,
        seconds: float | None = None,
        **selection: Unpack[Selection],
    ) -> AsyncGenerator[Page[T], None]:
        """The pages of one consistent list. `Expired` out of a later page means: start over."""
        token = ""
        while True:
            request = requests.list_page(resource, namespace, limit=limit, token=token, **selection)
            request = msgspec.structs.replace(request, seconds=seconds)
            page = decode_page(await self.send(request), resource, request.what)
            yield page
            token = page.token
            if not token:
                return

    async def list(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        limit: int = PAGE_ITEMS,
        seconds: float | None = None,
        **selection: Unpack[Selection],
    ) -> Listing[T]:
        """A whole list. When its continue token expires on the way, it is read once more in one piece."""
        try:
            pages = self.pages(resource, namespace, limit=limit, seconds=seconds, **selection)
            return _joined([page async for page in pages])
        except Expired:
            pages = self.pages(resource, namespace, limit=0, seconds=seconds, **selection)
            return _joined([page async for page in pages])

    async def watch(
        self,
        resource: Resource[T],
        namespace: str = "",
        *,
        resource_version: str,
        seconds: int = 240,
        silence: float | None = None,
        opened: Callable[[], None] = _no_callback,
        **selection: Unpack[Selection],
    ) -> AsyncGenerator[WatchEvent[T], None]:
        """Events after a resourceVersion, until the server ends the watch or it fails; never tried again here.

        `silence` bounds the wait for the next byte, by default a little over the whole watch; `opened` is called once
        the server has agreed to it, which may be long before there is an event.
        """
        request = requests.watch(resource, namespace, resource_version=resource_version, seconds=seconds, **selection)
        request = msgspec.structs.replace(request, seconds=seconds + 15.0 if silence is None else silence)
        async with aclosing(self._lines(request, "application/json", opened=opened)) as lines:
            async for line in lines:
                yield decode_event(line, resource, request.what)

    async def logs(
        self, namespace: str, pod: str, *, seconds: float = 30.0, **options: Unpack[LogOptions]
    ) -> AsyncGenerator[str, None]:
        """The lines that a container printed; with `follow` until it ends, whatever the silence between them."""
        request = requests.logs(PODS, namespace, pod, **options)
        request = msgspec.structs.replace(request, seconds=0.0 if options.get("follow") else seconds)
        async with aclosing(self._lines(request, "", whole=False)) as lines:
            async for line in lines:
                yield line.decode("utf-8", "replace")

    async def run(
        self,
        namespace: str,
        pod: str,
        command: Sequence[str],
        *,
        container: str = "",
        stdin: bytes | None = None,
        seconds: float = 30.0,
        max_bytes: int = MAX_OUTPUT_BYTES,
    ) -> CommandResult:
        """Run a command in a container and wait for its end."""
        request = requests.run_in_pod(PODS, namespace, pod, command, container=container, stdin=stdin is not None)
        try:
            return await run(self.transport, request, stdin, seconds, max_bytes)
        except Unauthorized:
            self.transport.refused()
            raise

    # Writing

    async def create(
        self, resource: Resource[T], body: Mapping[str, Any], namespace: str = "", **options: Unpack[WriteOptions]
    ) -> T:
        """Create one object."""
        return await self._object(requests.create(resource, namespace, body, **options), resource.type)

    async def make(
        self, resource: Resource[Any], body: Mapping[str, Any], namespace: str = "", **options: Unpack[WriteOptions]
    ) -> str:
        """Create one object and read its resourceVersion alone: a server that can sends only its metadata back."""
        request = requests.create(resource, namespace, body, **options)
        request = msgspec.structs.replace(request, accept=requests.METADATA_ONLY)
        return decode_status(await self.send(request), request.what)

    async def replace(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        **options: Unpack[WriteOptions],
    ) -> T:
        """Put a whole object; give the resourceVersion that it was made from."""
        return await self._object(requests.replace(resource, namespace, name, body, **options), resource.type)

    async def apply(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, Any],
        namespace: str = "",
        *,
        force: bool = True,
        **options: Unpack[WriteOptions],
    ) -> T:
        """Server-side apply of one object or subresource, as `field_manager`."""
        request = requests.apply(resource, namespace, name, body, force=force, **options)
        return await self._object(request, resource.type)

    async def merge_patch(
        self,
        resource: Resource[T],
        name: str,
        patch: Mapping[str, Any],
        namespace: str = "",
        **options: Unpack[WriteOptions],
    ) -> T:
        """Merge a patch; a resourceVersion in it makes it conditional."""
        return await self._object(requests.patch(resource, namespace, name, patch, **options), resource.type)

    async def scale(
        self, resource: Resource[Any], name: str, replicas: int, namespace: str = "", *, dry_run: bool = False
    ) -> Scale:
        """Set the number of replicas through the scale subresource."""
        body = {"spec": {"replicas": replicas}}
        request = requests.patch(resource, namespace, name, body, subresource="scale", dry_run=dry_run)
        return await self._object(request, Scale)

    async def delete(
        self, resource: Resource[Any], name: str, namespace: str = "", **options: Unpack[DeleteOptions]
    ) -> str:
        """Delete one object, if it is still the one with that uid and resourceVersion; its version if it goes later."""
        request = requests.delete(resource, namespace, name, **options)
        return decode_status(await self.send(request), request.what)

    # Sending

    async def _object(self, request: Request, wanted: type[T]) -> T:
        return decode_object(await self.send(request), wanted, request.what)

    async def send(self, request: Request) -> bytes:
        """Send until answered, as often as the request allows; the body of a success, or a typed error."""
        waits = RetryWaits(self.retries.backoff, self.timing.random)
        relogin = True
        for attempt in range(1, self.retries.attempts + 1):
            try:
                return await self._send_once(request)
            except Unauthorized:
                self.transport.refused()
                if not relogin:
                    raise
                relogin = False
            except KubeError as error:
                wait = self._wait(request, error, waits)
                if wait is None or attempt == self.retries.attempts:
                    raise
                await self.timing.clock.sleep(wait)
        return await self._send_once(request)

    def _wait(self, request: Request, error: KubeError, waits: RetryWaits) -> float | None:
        if not may_repeat(request.repeat, error):
            return None
        asked = error.retry_after or 0.0
        if asked > self.retries.max_retry_after_seconds:
            return None
        return max(asked, waits.next())

    async def _send_once(self, request: Request) -> bytes:
        if self.fence is not None and request.method != "GET":
            self.fence()
            request = msgspec.structs.replace(request, fence=self.fence)
        started, code, denied = self.timing.clock.monotonic(), 0, None
        try:
            async with self.transport.open(request) as answer:
                code = answer.code
                body = await answer.read()
                _check(answer, body, request, "application/json")
                return body
        except Forbidden as error:
            denied = error.right
            raise
        finally:
            self.report(Call(request, code, self.timing.clock.monotonic() - started, denied))

    async def _lines(
        self, request: Request, content_type: str, *, whole: bool = True, opened: Callable[[], None] = _no_callback
    ) -> AsyncGenerator[bytes, None]:
        """A stream is reported when it begins: what it shows, that it was allowed, is known by then."""
        started, code, denied, begun = self.timing.clock.monotonic(), 0, None, False
        try:
            async with self.transport.open(request) as answer:
                code = answer.code
                body = b"" if _is_success(code) else await answer.read()
                _check(answer, body, request, content_type)
                begun = True
                self.report(Call(request, code, self.timing.clock.monotonic() - started))
                opened()
                async with aclosing(split_lines(answer.chunks(), request.what, whole=whole)) as lines:
                    async for line in lines:
                        yield line
        except Unauthorized:
            self.transport.refused()
            raise
        except Forbidden as error:
            denied = error.right
            raise
        finally:
            if not begun:
                self.report(Call(request, code, self.timing.clock.monotonic() - started, denied))


def _joined(pages: Sequence[Page[T]]) -> Listing[T]:
    items = tuple(item for page in pages for item in page.items)
    unreadable = tuple(item for page in pages for item in page.unreadable)
    return Listing(items, pages[-1].resource_version, unreadable)


def may_repeat(repeat: Repeat, error: KubeError) -> bool:
    """Whether a request may be sent again after this error."""
    if repeat is Repeat.NEVER:
        return False
    if isinstance(error, TooManyRequests | Unavailable):
        return True
    if isinstance(error, Unreachable):
        return repeat is Repeat.ALWAYS or not error.sent
    return repeat is Repeat.ALWAYS and isinstance(error, ServerTimeout | ServerError | BadAnswer)


def _is_success(code: int) -> bool:
    return 200 <= code < 300


def _check(answer: HttpResponse, body: bytes, request: Request, content_type: str) -> None:
    if not _is_success(answer.code):
        after = _retry_after(answer.headers)
        raise from_status(answer.code, body, request.what, after, sent=request.body)
    got = answer.headers.get("Content-Type", "")
    if content_type and got.partition(";")[0].strip() != content_type:
        raise BadAnswer(f"{request.what}: the answer is {got or 'untyped'}, not {content_type}")


def _retry_after(headers: Mapping[str, str]) -> float | None:
    text = headers.get("Retry-After", "").strip()
    # The API server only sends seconds; a date would need a clock that both sides share. More digits say nothing.
    return float(text[:MAX_RETRY_AFTER_DIGITS]) if text.isascii() and text.isdecimal() else None
