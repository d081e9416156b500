"""The life of the admission server's certificate: every API server trusts what it meets, at every minute."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.x509.verification import PolicyBuilder, Store, VerificationError

from slurm_operator.admission import certificates
from slurm_operator.admission.certificates import Held, Hold, Publish, Published, Rest, Step

HOSTS = ("webhook.slinky.svc",)
START = datetime(2026, 1, 1, tzinfo=UTC)
# How old a bundle an API server may still act on, and how wrong its clock may be.
LAG = timedelta(minutes=10)
SKEWS = (timedelta(minutes=-5), timedelta(0), timedelta(minutes=5))


@dataclasses.dataclass
class World:
    """A Secret and a webhook configuration, and what API servers remember of it."""

    held: Held | None = None
    bundle: bytes = b""
    since: datetime | None = None
    # (time, bundle), newest last.
    history: list[tuple[datetime, bytes]] = dataclasses.field(default_factory=list)

    def look(self, now: datetime) -> Step:
        return certificates.plan(self.held, [Published(self.bundle, self.since)], HOSTS, now)

    def take(self, step: Step, now: datetime) -> None:
        match step:
            case Hold():
                # Through the Secret's own form, as a restarted server would read it.
                written = {key: value for key, value in certificates.written(step.held).items() if value is not None}
                self.held = certificates.read(written)
            case Publish():
                self.bundle, self.since = step.bundle, now
                self.history.append((now, step.bundle))

    def remembered(self, now: datetime) -> set[bytes]:
        """Every bundle that some API server may act on now."""
        kept = [bundle for time, bundle in self.history if time > now - LAG]
        older = [bundle for time, bundle in self.history if time <= now - LAG]
        return {*kept, *older[-1:]}


def trusted(bundle: bytes, certificate: bytes, now: datetime) -> bool:
    store = Store([x509.load_pem_x509_certificate(each) for each in certificates.certificates_in(bundle)])
    verifier = PolicyBuilder().store(store).time(now).build_server_verifier(x509.DNSName(HOSTS[0]))
    try:
        verifier.verify(x509.load_pem_x509_certificate(certificate), [])
    except VerificationError:
        return False
    return True


def gaps(world: World, now: datetime) -> list[str]:
    assert world.held is not None
    return [
        f"{now} with a clock {skew} off"
        for bundle in world.remembered(now)
        for skew in SKEWS
        if not trusted(bundle, world.held.certificate, now + skew)
    ]


def settle(world: World, now: datetime) -> datetime:
    """Take steps until one of them is to rest; until when."""
    for _ in range(10):
        step = world.look(now)
        if isinstance(step, Rest):
            return step.until
        world.take(step, now)
    pytest.fail("no rest in ten steps")


def live_on(world: World, days: int, pause_after: int, pause: timedelta) -> list[str]:
    """Some hundred days in which the server is dead for a while after one of its writes."""
    found: list[str] = []
    now, end, writes = START, START + timedelta(days=days), 0
    while now < end:
        step = world.look(now)
        if isinstance(step, Rest):
            # Nothing changes in between, but the hours do, and what API servers remember.
            following = min(step.until, now + timedelta(days=15))
            for moment in (now, now + LAG, following - timedelta(seconds=1)):
                found += gaps(world, max(now, min(moment, following))) if world.history else []
            now = following
            continue
        world.take(step, now)
        writes += 1
        if writes == pause_after:
            if world.held is not None and world.history:
                found += gaps(world, now)
            now += pause
        if world.history:
            found += gaps(world, now)
    return found


@pytest.mark.parametrize("pause_after", range(1, 21), ids=lambda number: f"dead after write {number}")
@pytest.mark.parametrize(
    "pause", [timedelta(0), timedelta(hours=3), timedelta(days=20)], ids=["restarts at once", "3 h", "20 days"]
)
def test_400_days_pass_without_a_minute_of_distrust(pause_after: int, pause: timedelta) -> None:
    world = World()
    assert live_on(world, 400, pause_after, pause) == []
    assert world.held is not None
    assert len({bundle for _, bundle in world.history}) >= 8


def test_the_next_ca_is_trusted_before_it_is_served() -> None:
    world = World()
    until = settle(world, START)
    assert world.held is not None
    first = world.held.certificate
    moment = until + timedelta(minutes=1)
    settle(world, moment)
    assert len(certificates.certificates_in(world.bundle)) == 2
    assert world.held.certificate == first
    settle(world, moment + certificates.OVERLAP)
    assert world.held.certificate != first


def test_the_overlap_counts_from_the_publication_not_from_the_making() -> None:
    world = World()
    moment = settle(world, START) + timedelta(minutes=1)
    world.take(world.look(moment), moment)
    assert world.held is not None
    assert world.held.next is not None
    late = moment + timedelta(hours=5)
    assert isinstance(world.look(late), Publish)
    world.take(world.look(late), late)
    assert isinstance(world.look(late), Rest)


def test_an_old_ca_goes_once_nobody_serves_it() -> None:
    world = World()
    moment = settle(world, START) + timedelta(minutes=1)
    for _ in range(3):
        moment = settle(world, moment)
    assert len(certificates.certificates_in(world.bundle)) == 1


@pytest.mark.parametrize(
    "spoil",
    [
        {"tls.crt": b"rubbish"},
        {"tls.key": b""},
        {"since": b"yesterday"},
        {"ca.crt": b""},
        {"ca.crt": b"-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"},
    ],
    ids=lambda each: "spoilt " + next(iter(each)),
)
def test_a_spoilt_secret_is_made_anew(spoil: dict[str, bytes]) -> None:
    step = certificates.plan(None, [], HOSTS, START)
    assert isinstance(step, Hold)
    data = {key: value for key, value in certificates.written(step.held).items() if value is not None}
    assert certificates.read(data) is not None
    assert certificates.read({**data, **spoil}) is None


def test_a_bundle_that_somebody_changed_is_published_again() -> None:
    world = World()
    settle(world, START)
    good, world.bundle = world.bundle, b""
    settle(world, START)
    assert world.bundle == good
