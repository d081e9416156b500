"""One container of a pod: made, started, probed, restarted with backoff, stopped.

In: its spec and its pod (`Home`). Out: a `ContainerRecord` on disk after every step, from which a new agent goes on: a
container that runs is watched again, never started again. `pod` makes one of these per container.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

import aiohttp
import msgspec

from kube_local.node import bundle, environment, host, identity, probes, records, runtime, volumes
from kube_local.node.bundle import Bind, Device, Plan, ResolvedImage
from kube_local.node.errors import ConfigInvalid, NodeError, RunFailed
from kube_local.node.identity import UserFiles
from kube_local.node.paths import PodPaths
from kube_local.node.probes import Answer, Tally, Target, Thresholds
from kube_local.node.records import ContainerRecord, Ended
from kube_local.node.runtime import Exit, Runtime
from kube_local.node.sources import Object, Place
from kube_local.node.status import Kind, View
from kube_local.node.volumes import Referred
from kube_runtime.backoff import Backoff, RetryWaits
from kube_runtime.times import parse_seconds, seconds_text

log = logging.getLogger(__name__)

FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS, FORGIVEN_AFTER_SECONDS = 10.0, 300.0, 600.0
_BACKOFF = Backoff(first=0.5, limit=10.0, jitter=0.0)
CANCEL_TIMEOUT_SECONDS = 10.0
_MESSAGE_BYTES = 4096
_MIN_GRACE_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class Tools:
    """What every container on this machine is run with."""

    runtime: Runtime
    images: Callable[[str], ResolvedImage]
    session: aiohttp.ClientSession
    allowed: frozenset[int] = frozenset()
    devices: tuple[Device, ...] = ()
    # The cgroup controllers of this machine: "cpu", "memory" …; limits of others are left out.
    controllers: frozenset[str] = frozenset({"cpu", "memory"})
    # Containers that are made at once; more of them would only make all of them late.
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(6))
    backoff: tuple[float, float] = (FIRST_BACKOFF_SECONDS, MAX_BACKOFF_SECONDS)


class Home(Protocol):
    """What a container needs of its pod."""

    paths: PodPaths
    tools: Tools
    pod: Object
    cgroup: str
    # Set whenever the pod was touched: a container that waits for something looks again.
    touched: asyncio.Event

    def place(self) -> Place: ...
    def hostname(self) -> str: ...
    def namespaces(self) -> dict[str, str]: ...
    async def referred(self) -> Referred: ...
    def changed(self) -> None: ...
    def record_event(self, kind: str, reason: str, note: str) -> None: ...


@dataclass(slots=True)
class Container:
    """One container."""

    home: Home
    spec: Object
    kind: Kind
    record: ContainerRecord = field(init=False)
    ready: bool = False
    over: bool = False
    stopping: bool = False
    started: asyncio.Event = field(default_factory=asyncio.Event)
    _task: asyncio.Task[None] | None = None
    _gone: asyncio.Event = field(default_factory=asyncio.Event)
    _waits: RetryWaits = field(default_factory=lambda: RetryWaits(_BACKOFF))
    _ill: str = ""

    def __post_init__(self) -> None:
        name = str(self.spec["name"])
        found = records.load(records.container_file(self.home.paths.container(name)), ContainerRecord)
        self.record = found or ContainerRecord(name=name, image=str(self.spec.get("image", "")))
        # A new agent must not make running pods unready: until it has asked, they are as the API knows them.
        self.ready = self._runs_on() and self._was_ready()

    def _runs_on(self) -> bool:
        record = self.record
        return (
            record.state == "running" and record.boot == host.boot_id() and host.is_alive(record.pid, record.pid_start)
        )

    def _was_ready(self) -> bool:
        if not self.spec.get("readinessProbe"):
            return self.record.started
        known = (self.home.pod.get("status") or {}).get("containerStatuses") or ()
        inits = (self.home.pod.get("status") or {}).get("initContainerStatuses") or ()
        wanted = f"runc://{self.record.container_id}"
        return any(one.get("containerID") == wanted and one.get("ready") for one in (*known, *inits))

    @property
    def name(self) -> str:
        """Its name in the pod."""
        return self.record.name

    @property
    def folder(self) -> Path:
        """The bundle of the current start."""
        return self.home.paths.attempt(self.name, self.record.restarts)

    def view(self) -> View:
        """How it is now, for the status."""
        return View(self.kind, self.record, self.ready, self.over)

    @property
    def task(self) -> asyncio.Task[None] | None:
        """What runs it, once it has begun."""
        return self._task

    def begin(self) -> asyncio.Task[None]:
        """Run it until it will not be started again."""
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name=f"container {self.name}")
        return self._task

    def is_done(self) -> bool:
        """An init container that has succeeded already, or anything that stays ended."""
        return self.record.state == "ended" and not self._restarts()

    # --- the life of a container ----------------------------------------------------------------------------------

    async def _run(self) -> None:
        waits = RetryWaits(_BACKOFF)
        while True:
            try:
                return await self._run_once()
            except Exception:
                # A machine that is short of something must not leave a container alone: the record says where it is.
                log.exception("container %s of pod %s", self.name, self.home.paths.folder.name)
            await asyncio.sleep(waits.next())

    async def _run_once(self) -> None:
        self._adopt()
        while True:
            if self.record.state != "running":
                if self.is_done():
                    break
                if not await self._start_again():
                    continue
            await self._supervise()
            if self.stopping or self.is_done():
                break
        self.over = True
        self.started.set()
        self.home.changed()

    def _adopt(self) -> None:
        """Take over what an earlier agent left."""
        record = self.record
        if record.state not in {"running", "creating"}:
            return
        same_boot = record.boot == host.boot_id()
        if record.state == "running" and same_boot:
            if record.started:
                self.started.set()
            return
        if record.state == "creating":
            # It had not run yet, or nobody knows: made again from the start under the same number.
            self._keep(state="waiting" if record.ended is None else "ended", reason="", message="")
            return
        self._note_end(Exit(255, 0.0, lost=True), "the machine was restarted")

    async def _start_again(self) -> bool:
        await self._back_off()
        try:
            async with self.home.tools.gate:
                await self._start()
        except RunFailed as error:
            await self._could_not_start(error)
            return False
        except (NodeError, OSError) as error:
            await self._wait_and_retry(error)
            return False
        self._waits.reset()
        return True

    async def _could_not_start(self, error: RunFailed) -> None:
        """The runtime refused: that counts as a start that ended at once."""
        self.home.record_event("Warning", "Failed", f"Error: {error}")
        await self._remove_bundle()
        ended = Ended(
            exit_code=128,
            reason="StartError",
            message=str(error)[:_MESSAGE_BYTES],
            finished_at=seconds_text(time.time()),
        )
        self._keep(state="ended", ended=ended, reason="", message="")

    async def _wait_and_retry(self, error: Exception) -> None:
        reason = error.reason if isinstance(error, NodeError) else "CreateContainerError"
        if reason == "ErrImagePull" and self._waits.failures:
            reason = "ImagePullBackOff"
        if (self.record.reason, self.record.message) != (reason, str(error)):
            self.home.record_event("Warning", "FailedMount" if reason == "FailedMount" else "Failed", f"Error: {error}")
        state = "ended" if self.record.ended is not None else "waiting"
        self._keep(state=state, reason=reason, message=str(error))
        self.home.touched.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(self._waits.next()):
                await self.home.touched.wait()

    async def _back_off(self) -> None:
        """Wait before a restart: none before the first, then ever longer."""
        record = self.record
        if record.ended is None or record.state != "ended":
            return
        first, most = self.home.tools.backoff
        finished = parse_seconds(record.ended.finished_at) or 0.0
        # One that never started did not run long.
        ran = finished - (parse_seconds(record.ended.started_at) or finished)
        pause = 0.0 if ran > FORGIVEN_AFTER_SECONDS else record.backoff
        left = pause - (time.time() - finished)
        if left > 0:
            which = f"restarting failed container {self.name} in pod {self.home.pod['metadata']['name']}"
            self._keep(reason="CrashLoopBackOff", message=f"back-off {int(pause)}s {which}")
            self.home.record_event("Warning", "BackOff", f"Back-off {which}")
            await asyncio.sleep(left)
        self._keep(
            backoff=min(max(first, pause * 2), most), restarts=record.restarts + 1, last=record.ended, ended=None,
            reason="", message="", state="waiting", container_id="", started=False, hooked=False,
        )  # fmt: skip

    # --- starting -------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        home, tools, name = self.home, self.home.tools, self.name
        image = tools.images(str(self.spec.get("image", "")))
        plan = await self._plan(image)
        container_id = f"{home.pod['metadata']['uid']}.{name}.{self.record.restarts}"
        self._keep(
            state="creating", container_id=container_id, boot=host.boot_id(), image=str(self.spec.get("image", "")),
            image_id=image.digest, started=False, hooked=False,
        )  # fmt: skip
        noted = f"; {image.note}" if image.note else ""
        home.record_event(
            "Normal", "Pulled", f'Container image "{self.spec.get("image", "")}" already present on machine{noted}'
        )
        await tools.runtime.delete(container_id)
        await asyncio.to_thread(self._make_bundle, plan, image)
        made = await tools.runtime.create(
            container_id,
            self.folder,
            home.paths.log(name, self.record.restarts),
            terminal=bool(self.spec.get("tty")),
        )
        home.record_event("Normal", "Created", f"Created container: {name}")
        await tools.runtime.start(container_id)
        self._keep(
            state="running", pid=made.pid, pid_start=made.pid_start, monitor=made.monitor,
            monitor_start=made.monitor_start, started_at=seconds_text(time.time()), reason="", message="",
        )  # fmt: skip
        home.record_event("Normal", "Started", f"Started container {name}")

    async def _plan(self, image: ResolvedImage) -> Plan:
        home = self.home
        referred = await home.referred()
        values = environment.build(home.pod, self.spec, referred, home.place(), image.env, home.hostname())
        args = environment.arguments(self.spec, image.entrypoint, image.command, values)
        if not args:
            raise ConfigInvalid(f"container {self.name} has no command and its image has no entry point")
        log_file = str(self.spec.get("terminationMessagePath") or "/dev/termination-log")
        binds = volumes.binds(home.pod, self.spec, home.paths, referred, values)
        return Plan(
            pod=home.pod,
            container=self.spec,
            rootfs=str(self.folder / "root"),
            args=args,
            env=values,
            working_dir=str(self.spec.get("workingDir") or image.working_dir or "/"),
            user=identity.user(home.pod, self.spec, image.user, _user_files(image.rootfs)),
            binds=(*binds, Bind(str(self.folder / "termination-log"), log_file)),
            namespaces=home.namespaces(),
            cgroup=f"{home.cgroup}/{self.name}-{self.record.restarts}",
            allowed=home.tools.allowed,
            devices=home.tools.devices,
            controllers=home.tools.controllers,
        )

    def _make_bundle(self, plan: Plan, image: ResolvedImage) -> None:
        folder = self.folder
        host.remove_tree(folder)
        host.overlay(image.rootfs, folder)
        (folder / "termination-log").touch()
        (folder / "termination-log").chmod(0o666)
        binds = [volumes.pin(bind, folder / "sub-paths" / str(number)) for number, bind in enumerate(plan.binds)]
        plan = replace(plan, binds=tuple(binds))
        (folder / "config.json").write_bytes(msgspec.json.encode(bundle.config(plan)))
        for old in range(self.record.restarts - 2, -1, -1):
            stale = self.home.paths.log(self.name, old)
            if not stale.exists():
                break
            stale.unlink()
            stale.with_suffix(".log.1").unlink(missing_ok=True)

    async def _remove_bundle(self) -> None:
        if self.record.container_id:
            await self.home.tools.runtime.delete(self.record.container_id)
        await asyncio.to_thread(host.remove_tree, self.folder)

    # --- running --------------------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        self._gone.clear()
        self._ill = ""
        watchers = [asyncio.create_task(self._care(), name=f"care {self.name}")]
        try:
            ended = await self.home.tools.runtime.wait(self.record, self.folder)
        finally:
            await end(*watchers)
        self._gone.set()
        message = await asyncio.to_thread(self._termination_message)
        self._note_end(ended, message)
        await self._remove_bundle()

    async def _care(self) -> None:
        """Hook and probes of a running container."""
        try:
            if not self.record.hooked and not await self._post_start():
                return
            if not self.record.started:
                await self._wait_for_startup()
            self._keep(started=True, hooked=True)
            self.started.set()
            if not self.spec.get("readinessProbe"):
                self._set_ready(True)
            async with asyncio.TaskGroup() as group:
                group.create_task(self._watch_readiness())
                group.create_task(self._watch_liveness())
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("container %s: its probes failed", self.name)

    async def _post_start(self) -> bool:
        hook = (self.spec.get("lifecycle") or {}).get("postStart")
        if not hook:
            return True
        answer = await self._hook(hook, 3600.0)
        if answer.good:
            self._keep(hooked=True)
            return True
        self.home.record_event("Warning", "FailedPostStartHook", f"PostStartHook failed: {answer.output}")
        await self._end_ill("FailedPostStartHook")
        return False

    async def _hook(self, hook: Object, seconds: float) -> Answer:
        if "sleep" in hook:
            await asyncio.sleep(min(float(hook["sleep"].get("seconds") or 0), seconds))
            return Answer(True)
        return await probes.ask(hook, self._target(), seconds)

    def _target(self) -> Target:
        return Target(self.home.place().ip, self.spec, self._execute, self.home.tools.session)

    async def _execute(self, command: list[str], seconds: float) -> Answer:
        try:
            done = await self.home.tools.runtime.execute(self.record.container_id, command, self.folder, seconds)
        except (NodeError, OSError) as error:
            return Answer(False, str(error))
        if done is None:
            return Answer(False, f"command timed out: {' '.join(command)[:200]} timed out after {seconds:g}s")
        return Answer(done.code == 0, (done.out + done.err).decode("utf-8", "replace")[-1000:].strip())

    async def _wait_for_startup(self) -> None:
        probe = self.spec.get("startupProbe")
        if probe and not await self._eagerly("Startup", probe):
            await self._end_ill("failed startup probe")
            # The end of the container cancels us.
            await asyncio.Event().wait()

    async def _eagerly(self, which: str, probe: Object) -> bool:
        """Ask until the first verdict."""
        limits = Thresholds.of(probe)
        tally = Tally(limits)
        await asyncio.sleep(limits.initial_delay)
        pauses = probes.pauses(limits)
        counts = True
        while True:
            answer = await probes.ask(probe, self._target(), limits.timeout)
            if not answer.good and counts:
                self._unhealthy(which, answer)
            verdict = tally.note(answer.good) if answer.good or counts else None
            if verdict is not None:
                return verdict
            pause = next(pauses)
            counts = pause.counts
            await asyncio.sleep(pause.seconds)

    async def _watch_readiness(self) -> None:
        probe = self.spec.get("readinessProbe")
        if not probe:
            return
        while not self.ready:
            self._set_ready(await self._eagerly("Readiness", probe))
        await self._steadily("Readiness", probe, self._set_ready)

    async def _watch_liveness(self) -> None:
        probe = self.spec.get("livenessProbe")
        if not probe:
            return
        await asyncio.sleep(Thresholds.of(probe).initial_delay)
        dead = asyncio.Event()
        asking = asyncio.create_task(self._steadily("Liveness", probe, lambda good: None if good else dead.set()))
        try:
            await dead.wait()
        finally:
            asking.cancel()
        await self._end_ill("failed liveness probe")

    async def _steadily(self, which: str, probe: Object, report: Callable[[bool], None]) -> None:
        limits = Thresholds.of(probe)
        tally = Tally(limits)
        while True:
            await asyncio.sleep(limits.period)
            answer = await probes.ask(probe, self._target(), limits.timeout)
            if not answer.good:
                self._unhealthy(which, answer)
            verdict = tally.note(answer.good)
            if verdict is not None:
                report(verdict)

    def _unhealthy(self, which: str, answer: Answer) -> None:
        if not self.stopping:
            self.home.record_event("Warning", "Unhealthy", f"{which} probe failed: {answer.output}")

    def _set_ready(self, ready: bool) -> None:
        if ready != self.ready and not self.stopping:
            self.ready = ready
            self.home.changed()

    async def _end_ill(self, why: str) -> None:
        """End it so that it is started again."""
        self._ill = why
        self.home.record_event("Normal", "Killing", f"Container {self.name} {why}, will be restarted")
        probe = self.spec.get("livenessProbe") or {}
        seconds = probe.get("terminationGracePeriodSeconds")
        default = (self.home.pod.get("spec") or {}).get("terminationGracePeriodSeconds")
        await self._terminate(float(seconds if seconds is not None else default if default is not None else 30))

    # --- ending ---------------------------------------------------------------------------------------------------

    async def stop(self, deadline: Callable[[], float]) -> None:
        """End it for good: hook, TERM, and KILL when the deadline (monotonic seconds) has come."""
        self.stopping = True
        self.ready = False
        if self.record.state == "running":
            self.home.record_event("Normal", "Killing", f"Stopping container {self.name}")
            await self._stop_running(deadline)
        if self._task is not None:
            await end(self._task)
        self.over = True

    async def _stop_running(self, deadline: Callable[[], float]) -> None:
        task = self.begin()
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        left = deadline() - time.monotonic()
        if hook and left > 0:
            await self._pre_stop(hook, left, task)
        runtime.send(self.record, signal.SIGTERM)
        # A hook or the containers before it may have used the grace up: a kubelet leaves some to everyone.
        least = time.monotonic() + (_MIN_GRACE_SECONDS if hook or self.kind is Kind.SIDECAR else 0.0)
        while not task.done() and time.monotonic() < max(deadline(), least):
            # The deadline may come nearer meanwhile: somebody deletes with less grace.
            await asyncio.wait({task}, timeout=min(0.5, max(0.01, max(deadline(), least) - time.monotonic())))
        if not task.done():
            runtime.send(self.record, signal.SIGKILL)
            await asyncio.wait({task}, timeout=20)

    async def _pre_stop(self, hook: Object, left: float, task: asyncio.Task[None]) -> None:
        asking = asyncio.create_task(self._hook(hook, left))
        await asyncio.wait({asking, task}, return_when=asyncio.FIRST_COMPLETED)
        if not asking.done():
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
        elif not asking.result().good:
            self.home.record_event("Warning", "FailedPreStopHook", f"PreStopHook failed: {asking.result().output}")

    async def _terminate(self, grace: float) -> None:
        hook = (self.spec.get("lifecycle") or {}).get("preStop")
        until = time.monotonic() + grace
        if hook:
            await self._hook(hook, grace)
        runtime.send(self.record, signal.SIGTERM)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(_MIN_GRACE_SECONDS if hook else 0.0, until - time.monotonic())):
                await self._gone.wait()
        runtime.send(self.record, signal.SIGKILL)

    def _restarts(self) -> bool:
        """Whether an ended container is started again."""
        ended = self.record.ended
        if ended is None:
            return True
        if self.stopping:
            return False
        if self.kind is Kind.SIDECAR:
            return True
        policy = (self.home.pod.get("spec") or {}).get("restartPolicy") or "Always"
        if self.kind is Kind.INIT:
            return ended.exit_code != 0 and policy != "Never"
        return policy == "Always" or (policy == "OnFailure" and ended.exit_code != 0)

    def _termination_message(self) -> str:
        try:
            # The container may have written any amount of it.
            with (self.folder / "termination-log").open("rb") as file:
                return file.read(_MESSAGE_BYTES).decode("utf-8", "replace")
        except OSError:
            return ""

    def _note_end(self, ended: Exit, message: str) -> None:
        reason = "OOMKilled" if ended.out_of_memory else "Completed" if ended.code == 0 else "Error"
        finished = seconds_text(ended.at) if ended.at else seconds_text(time.time())
        self.ready = False
        self.started.clear()
        record = Ended(
            exit_code=ended.code,
            reason="ContainerStatusUnknown" if ended.lost else reason,
            message=message,
            started_at=self.record.started_at,
            finished_at=finished,
            container_id=self.record.container_id,
        )
        self._keep(state="ended", ended=record, pid=0, monitor=0, started=False, reason="", message="")

    def forget(self) -> None:
        """As if it had never run: after a reboot, init containers run once more."""
        self._keep(state="waiting", ended=None, started=False, hooked=False, reason="", message="")

    def _keep(self, **changes: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **changes)
        records.save(records.container_file(self.home.paths.container(self.name)), self.record)
        self.home.changed()


async def end(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks and wait for their end, but not for ever: one that hangs must not keep its pod."""
    for task in tasks:
        task.cancel()
    done, left = await asyncio.wait(tasks, timeout=CANCEL_TIMEOUT_SECONDS) if tasks else (set(), set())
    for task in left:
        log.error("task %s does not end and is left behind", task.get_name())
    for task in done:
        if not task.cancelled() and task.exception() is not None:
            log.error("task %s failed", task.get_name(), exc_info=task.exception())


def _user_files(rootfs: Path) -> UserFiles:
    texts = {}
    for name in ("passwd", "group"):
        try:
            texts[name] = (rootfs / "etc" / name).read_text(errors="replace")
        except OSError:
            texts[name] = ""
    return UserFiles(**texts)


def is_sidecar(spec: Mapping[str, Any]) -> bool:
    """Whether an init container stays beside the others."""
    return spec.get("restartPolicy") == "Always"
