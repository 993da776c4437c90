"""The producer of a world: sends its inputs, alone and in transactions."""

from collections.abc import Sequence
from functools import partial
from itertools import count

from stream_app.backends.memory.transaction import EmbeddedTransaction
from stream_app.errors import TransactionAbortedError
from stream_app.record_columns import OutputRecords
from tests.simulation.faults import Event, Fault
from tests.simulation.worlds.world import PRODUCER, World
from tests.support.rows import Sent


def send(world: World, records: Sequence[Sent]) -> None:
    """Send records, with event times of the present year; the brokers may refuse their times."""
    for sent in map(world.year.shifted, records):
        place = world.input_places(sent.partition)[sent.side]
        try:
            world.broker.append(place, [(sent.key, sent.value, sent.time_ms, sent.headers)])
        except TransactionAbortedError as refused:
            world.say(f"a producer: {refused}")
            world.faults.events[Event.REFUSED_TIME] += 1


def produce(world: World) -> None:
    """Send the remaining inputs, in bursts."""
    left = list(world.shape.records[world.shape.before :])
    ids = (f"{PRODUCER}{number}" for number in count(1))
    while left:
        burst = 1 + int(5 * world.draw.random())
        now, left = left[:burst], left[burst:]
        if world.faults.hit(Fault.QUIET):
            world.year.pass_weeks()
        if world.faults.hit(Fault.SLOW):
            left = [*now, *left]
            now, left = [], left[world.year.send_slowly(left, partial(send, world)) :]
        if world.faults.hit(Fault.ABORTED_INPUT):
            ghosts = [sent._replace(headers=(("ghost", b""),)) for sent in now]
            _send_in_transaction(world, next(ids), ghosts, commits=False)
        if world.faults.hit(Fault.OPEN_INPUT):
            _send_in_transaction(world, next(ids), now, commits=True)
        else:
            send(world, now)
        if not world.faults.is_calm:
            world.scheduler.pause(world.shape.gap_s * world.draw.random())
    if world.faults.hit(Fault.QUIET):
        world.year.pass_weeks()
    world.is_all_sent = True


def _send_in_transaction(world: World, transactional_id: str, records: Sequence[Sent], *, commits: bool) -> None:
    """Send records in a transaction, which ends some seconds later."""
    transaction = EmbeddedTransaction(world.broker, transactional_id, 60.0)
    transaction.initialise()
    transaction.begin()
    now_ms = world.clock.now_ms()
    shifted = map(world.year.shifted, records)
    for sent in [one for one in shifted if one.time_ms >= now_ms - world.shape.oldest_ms]:
        headers = {0: sent.headers} if sent.headers else {}
        one = OutputRecords.of([sent.key], [sent.value], [sent.time_ms], headers)
        transaction.produce(world.input_places(sent.partition)[sent.side], one)
    world.open_inputs += 1

    def end() -> None:
        world.open_inputs -= 1
        (transaction.commit if commits else transaction.abort)()

    world.later(3.0 * world.draw.random() ** 2, end)
