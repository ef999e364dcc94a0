"""A nightly named quick, and its nights: what tests of a nightly define, measure and close."""

from datetime import UTC, datetime, timedelta

from tests.unit.synthetic_report import Shape, write_run
from tierbench import names
from tierbench.postprocess.history.rows import NightMark, write_night_mark
from tierbench.submit.nightly import record, steps
from tierbench.submit.nightly.record import Change, Night
from tierbench.submit.pool import PoolError

NOW = datetime(2026, 6, 10, 12, 0, tzinfo=UTC)
LAST = datetime(2026, 6, 10, 2, 30, tzinfo=UTC)
SHAPE = Shape(rates={"direct": 400.0, "lan-xrootd": 200.0}, batches=(8,), samples=False)
SINCE_NS = round((LAST - timedelta(days=1)).timestamp() * 1e9)
SENTENCE = "Worse: lan-xrootd/root, 152 → 131 Mb/s (−14 %, −17…−11)."  # noqa: RUF001
WORSE = Change("worse", "lan", SINCE_NS, "WARNING", sentence=SENTENCE)


def measured(nightly, planned=LAST, run=True, **changes):
    """A night that has ended well, and of which nobody was told yet."""
    night = Night(planned.timestamp(), "measured", counts={"VALID": 6}, ended_wall_s=planned.timestamp() + 600)
    night = record.write(nightly, night.now(**changes))
    if run:
        directory = write_run(record.folder(nightly, night) / names.NIGHT_RUN, SHAPE)
        write_night_mark(directory, NightMark("quick", int(planned.timestamp() * 1e9)))
    return night


def close(nightly, night):
    return steps.finish(nightly, record.folder(nightly, night))


def fails(why):
    def fail(*_, **__):
        raise PoolError(why)

    return fail
