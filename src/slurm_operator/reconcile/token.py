"""One reconcile of a Token: sign when needed, write the Secret, come back before it expires.

In: a key. Out: the Secret with a token, and a status. `plan/token.py` decides whether it is renewed. Run by the
controller that `reconcile/operator.py` starts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kube_runtime.client.objects import RawObject
from kube_runtime.clock import Clock
from kube_runtime.errors import OperatorError
from kube_runtime.loop.controller import Result
from kube_runtime.loop.queue import Key
from kube_runtime.times import seconds_text
from slurm_operator.admission import rules
from slurm_operator.api.meta import SecretKeySelector
from slurm_operator.api.problem import errors
from slurm_operator.api.token import Token
from slurm_operator.build import names, token
from slurm_operator.build.metadata import Object
from slurm_operator.build.refs import Refs
from slurm_operator.plan.actions import Action, Apply, Create, PatchMetadata, Plan
from slurm_operator.plan.ownership import NAME_TAKEN_REQUEUE_SECONDS, Foreign, NameTaken, judge_live, taken
from slurm_operator.plan.token import RENEW_AT_LIFETIME_SHARE, Held, Renewal, read, renewal
from slurm_operator.reconcile.execute import Executor, claimant_of
from slurm_operator.reconcile.observe import Observer
from slurm_operator.reconcile.owned import MISSING_REQUEUE_SECONDS
from slurm_operator.reconcile.report import write_status
from slurm_operator.slurm.token import mint
from slurm_operator.status import workload
from slurm_operator.status.conditions import DEGRADED, PROGRESSING, READY, ConditionDraft, no, yes


@dataclass(frozen=True, slots=True)
class Tokens:
    """The reconcile function of Tokens."""

    observer: Observer
    executor: Executor
    clock: Clock
    new_id: Callable[[], str]

    async def __call__(self, key: Key) -> Result:
        """One reconcile."""
        raw = self.observer.get("Token", key.namespace, key.name)
        decoded = self.observer.resource("Token", key.namespace, key.name)
        if raw is None or decoded is None or raw.metadata.deletion_timestamp:
            return Result()
        refs = self.observer.refs(key.namespace)
        cr = decoded.resource
        found = decoded.problems if not isinstance(cr, Token) else errors(rules.check(cr, None, refs))
        if not isinstance(cr, Token) or found:
            await self._write_status(raw, workload.refused(found), None)
            return Result()
        return await self._reconcile(cr, raw, refs)

    async def _reconcile(self, cr: Token, raw: RawObject, refs: Refs) -> Result:
        ref = cr.jwt_key_ref
        key = refs.secrets.get(ref.name, {}).get(ref.key) if ref else None
        if not key:
            await self._write_status(raw, workload.failed("ReferenceNotFound", _missing(ref, refs)), None)
            return Result(MISSING_REQUEUE_SECONDS)
        now = self.clock.now().timestamp()
        live = self.observer.get("Secret", cr.namespace, names.token_secret(cr))
        stand_ins = self._stand_ins(cr, live)
        found = judge_live(claimant_of(raw, "Token", stand_ins), "Secret", live)
        if isinstance(found, Foreign):
            return await self._taken(raw, taken(claimant_of(raw, "Token"), "Secret", names.token_secret(cr), found))
        secret = refs.secrets.get(names.token_secret(cr))
        held = read((secret or {}).get(token.secret_key(cr), b"").decode("ascii", "replace"), key)
        wanted = renewal(held, user=token.username(cr), refresh=cr.spec.refresh, exists=secret is not None, now=now)
        if wanted.needed:
            try:
                held = await self._issue(cr, raw, live, key, int(now), stand_ins)
            except NameTaken as error:
                return await self._taken(raw, str(error))
            except OperatorError as error:
                await self._write_status(raw, workload.failed(error.reason, str(error)), held)
                raise
        await self._write_status(raw, _drafts(held, wanted), held)
        if wanted.needed and cr.spec.refresh:
            return Result(token.lifetime(cr) * RENEW_AT_LIFETIME_SHARE)
        return Result(wanted.wait)

    async def _taken(self, raw: RawObject, message: str) -> Result:
        await self._write_status(raw, workload.blocked(NameTaken.reason, message), None)
        return Result(NAME_TAKEN_REQUEUE_SECONDS)

    def _stand_ins(self, cr: Token, live: RawObject | None) -> frozenset[str]:
        """The Go operator gives a token's Secret to the Secret with the key; it holds that token and nothing else."""
        ref = cr.jwt_key_ref
        key = self.observer.get("Secret", cr.namespace, ref.name) if ref is not None else None
        held = (live.content().get("data") or {}).keys() if live is not None else ()
        return frozenset({key.metadata.uid}) if key is not None and set(held) == {token.secret_key(cr)} else frozenset()

    async def _issue(
        self, cr: Token, raw: RawObject, live: RawObject | None, key: bytes, now: int, stand_ins: frozenset[str]
    ) -> Held | None:
        user, life = token.username(cr), int(token.lifetime(cr))
        jwt = mint(key, user=user, now=now, life=life, token_id=self.new_id())
        secret = token.secret(cr, jwt)
        action: Action = Apply(secret, live) if cr.spec.refresh else Create(secret)
        stages = (_taken_over(live, secret), (action,)) if cr.spec.refresh else ((action,),)
        plan = Plan(tuple(stage for stage in stages if stage))
        await self.executor.execute(plan, raw, "Token", stand_ins=stand_ins)
        return read(jwt, key)

    async def _write_status(self, raw: RawObject, drafts: list[ConditionDraft], held: Held | None) -> None:
        times = {"issuedAt": held.issued, "expiresAt": held.ends} if held is not None else {}
        fields = {key: seconds_text(value) for key, value in times.items()}
        await write_status(self.executor, self.clock, "Token", raw, drafts, fields)


def _missing(ref: SecretKeySelector | None, refs: Refs) -> str:
    if ref is None:
        return "spec.jwtKeyRef is required"
    if ref.name not in refs.secrets:
        return f"Secret {ref.name!r} is not in this namespace"
    return f"Secret {ref.name!r} has no key {ref.key!r}"


def _taken_over(live: RawObject | None, secret: Object) -> tuple[Action, ...]:
    """The Go operator's Secrets belong to the key's Secret; an object has one controller, here it is the Token."""
    if live is None or not any(owner.controller and owner.kind == "Secret" for owner in live.metadata.owner_references):
        return ()
    meta, owners = live.metadata, tuple(secret["metadata"]["ownerReferences"])
    return (PatchMetadata("v1", "Secret", meta, owners=owners),)


def _drafts(held: Held | None, wanted: Renewal) -> list[ConditionDraft]:
    if held is None:
        return [
            no(READY, "KeyChanged", wanted.why),
            no(PROGRESSING, "Settled", "delete the Secret to get a new token"),
            yes(DEGRADED, "KeyChanged", wanted.why),
        ]
    message = "the token in the Secret is signed with the current key"
    return [
        yes(READY, "Issued", message),
        no(PROGRESSING, "Settled", message),
        no(DEGRADED, "AsExpected", message),
    ]
