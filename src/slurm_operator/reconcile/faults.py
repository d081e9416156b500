"""What an unexpected error looks like on the object whose reconcile met it.

In: the key of an object, and a `Fault` of the loop. Out: conditions with the fault's id, and an event when it is new.
Nothing of the error's own text is shown: it may hold anything. The log has it, under the same id. Called by
`kube_runtime/loop/controller.py`; wired by `operator.py`.
"""

from __future__ import annotations

from dataclasses import dataclass

from kube_runtime.clock import Clock
from kube_runtime.loop.controller import Fault
from kube_runtime.loop.queue import Key
from slurm_operator.plan.actions import Plan, RecordEvent
from slurm_operator.reconcile.execute import Executor
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.report import write_unreconciled_status
from slurm_operator.status import workload


@dataclass(frozen=True, slots=True)
class FaultReports:
    """Reports faults on the objects of one kind."""

    kind: str
    observer: Observer
    executor: Executor
    clock: Clock

    async def __call__(self, key: Key, fault: Fault) -> None:
        """Write the conditions and, once, an event; the event is also sent when the conditions could not be written."""
        raw = self.observer.get(self.kind, key.namespace, key.name)
        if raw is None:
            return
        drafts = workload.fault(fault.id, fault.text)
        try:
            await write_unreconciled_status(self.executor, self.clock, self.kind, raw, drafts)
        finally:
            if fault.is_new:
                event = RecordEvent(drafts[0].reason, drafts[0].message, warning=True)
                await self.executor.execute(Plan(((event,),)), raw, self.kind)
