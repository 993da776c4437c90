"""The disasters of a world: faults that come at any time, not at a call of a port.

Each function prepares a disaster: it returns an act that causes it, or None if it cannot happen now.
"""

from collections.abc import Callable, Mapping

from stream_app.backends.base import TopicPartition
from stream_app.progress_records import Act, Commit
from stream_app.records import Side
from stream_app.serialization import codec
from stream_app.snapshot.format import SNAPSHOT_KEY, Manifest, parse_snapshots
from tests.simulation.faults import Event, Fault
from tests.simulation.worlds.shape import SMALLEST_BYTES
from tests.simulation.worlds.supervisor import start
from tests.simulation.worlds.world import World, WrongError

MAX_PROCESSES = 4
"""Processes that may be alive together: three workers, and a twin."""

Disaster = Callable[[], None]


def cause_disasters(world: World) -> None:
    """Cause faults that may come at any time."""
    disasters: Mapping[Fault, Callable[[World], Disaster | None]] = {
        Fault.JOIN: _join,
        Fault.LEAVE: _leave,
        Fault.EVICT: _evict,
        Fault.TWIN: _twin,
        Fault.FENCE: _fence,
        Fault.DEPLOY: _deploy,
        Fault.COMPACT: _compact,
        Fault.RETENTION: _delete_inputs,
        Fault.LOSS: _lose_inputs,
        Fault.RESET: _want_reset,
        Fault.SHRUNK: _shrink,
        Fault.GROUP_OFFSETS: _change_offsets,
        Fault.GROWN: _grow,
        Fault.COMMANDS: _want_commands,
        Fault.ERASE: _want_erasure,
    }
    while not world.faults.is_calm:
        world.scheduler.pause(world.draw.choice((0.05, 0.5, 3.0)) * world.draw.random())
        for fault, prepare in disasters.items():
            act = prepare(world)
            if act is not None and world.faults.hit(fault):
                act()


def _join(world: World) -> Disaster | None:
    free = [name for name in ("w1", "w2", "w3") if name not in world.wanted]
    if not free or len(world.processes) >= MAX_PROCESSES:
        return None

    def act() -> None:
        world.say(f"{free[0]} is wanted")
        world.wanted.add(free[0])

    return act


def _leave(world: World) -> Disaster | None:
    able = [process for process in world.processes if not process.is_asked_to_stop]
    if len(world.wanted) < 2 or not able:
        return None

    def act() -> None:
        process = world.draw.choice(able)
        world.say(f"{process.name} is asked to stop")
        process.is_asked_to_stop = True
        world.wanted.discard(process.instance)

    return act


def _evict(world: World) -> Disaster | None:
    members = [process for process in world.processes if process.source.member]
    if not members:
        return None

    def act() -> None:
        process = world.draw.choice(members)
        world.say(f"{process.name} is thrown out of the group")
        process.leave_group()

    return act


def _twin(world: World) -> Disaster | None:
    if not world.processes or world.is_closed or len(world.processes) >= MAX_PROCESSES:
        return None

    def act() -> None:
        instance = world.draw.choice(world.processes).instance
        world.say(f"a second {instance} is started")
        start(world, instance)

    return act


def _fence(world: World) -> Disaster | None:
    if not world.processes:
        return None

    def act() -> None:
        process = world.draw.choice(world.processes)
        world.say(f"the epoch of {process.instance} is raised")
        world.broker.initialise(process.config.transactional_id)

    return act


def _deploy(world: World) -> Disaster | None:
    if world.version:
        return None

    def act() -> None:
        world.say("a new configuration is deployed")
        world.version = 1
        for process in world.processes:
            if world.draw.random() < 0.5:
                process.is_asked_to_stop = True

    return act


def _compact(world: World) -> Disaster | None:
    topic = world.config("w1").topics.changelog
    places = [TopicPartition(topic, number) for number in range(world.shape.partitions)]
    if not any(world.broker.watermarks(place).high for place in places):
        return None

    def act() -> None:
        world.say("the changelog is compacted")
        for place in places:
            world.broker.compact(place)

    return act


def _delete_inputs(world: World) -> Disaster | None:
    """Return an act that deletes inputs as far as permitted; processes with older snapshots will notice it."""
    lows = {number: low for number in range(world.shape.partitions) if (low := _snapshot_offsets(world, number))}
    if not lows:
        return None

    def act() -> None:
        world.say(f"inputs are deleted below {lows}")
        for number, offsets in lows.items():
            for place, offset in zip(world.input_places(number), offsets, strict=True):
                world.broker.delete_before(place, offset)

    return act


def _snapshot_offsets(world: World, number: int) -> tuple[int, int] | None:
    """Return the offsets of a snapshot that progress names."""
    topics = world.config("w1").topics
    acts = [read.value for read in world.read(TopicPartition(topics.progress, number)) if read.key == SNAPSHOT_KEY]
    if not acts:
        return None
    act, changelog = codec.decode_one(acts[-1] or b""), TopicPartition(topics.changelog, number)
    if not isinstance(act, Act):
        raise WrongError(f"{act}: has the key of an act")
    offset = world.draw.choice(parse_snapshots(act.text)).manifest.offset
    records, *_ = world.broker.read(changelog, offset, 1)
    if records.offsets.tolist() != [offset]:
        return None  # the act that names the next snapshot has lost its marker
    return Manifest.from_bytes(records.values[0] or b"", str(changelog)).offsets


def _lose_inputs(world: World) -> Disaster | None:
    """Return an act of retention that is faster than a task, or than its snapshots; the last records are left."""
    number = world.draw.randrange(world.shape.partitions)
    last = {place: rows[-1].offset for place in world.input_places(number) if (rows := world.read(place))}
    if not any(last.values()) or number in world.duties.lost or not _has_committed(world, number):
        return None

    def act() -> None:
        world.duties.lost.add(number)
        for place, offset in last.items():
            before = world.draw.randint(0, offset)
            world.say(f"{place.topic}[{number}] is deleted below {before}")
            world.broker.delete_before(place, before)

    return act


def _has_committed(world: World, number: int) -> bool:
    """Say whether a task has committed offsets; until then, it starts at the first record that exists."""
    progress = world.read(TopicPartition(world.config("w1").topics.progress, number))
    return any(isinstance(codec.decode_one(row.value or b""), Commit) for row in progress)


def _want_reset(world: World) -> Disaster | None:
    """Return an act that asks for the reset of a stream, as if its model had learned nonsense."""
    if world.duties.resets or not any(world.input_ends().values()):
        return None

    def act() -> None:
        world.duties.resets.append(f"s{world.draw.randrange(world.shape.partitions)}")  # configured or not

    return act


def _shrink(world: World) -> Disaster | None:
    name = world.config("w1").topics.dead_letters
    if int(world.broker.topic(name).settings["max.message.bytes"]) == SMALLEST_BYTES:
        return None

    def act() -> None:
        world.say(f"{name} takes {SMALLEST_BYTES} bytes from now on")
        world.broker.alter_topic(name, {"max.message.bytes": str(SMALLEST_BYTES)})

    return act


def _change_offsets(world: World) -> Disaster:
    """Return an act that deletes or changes the group's offsets, which no worker reads."""
    offsets = world.broker.groups.group(world.config("w1").group_id).offsets

    def act() -> None:
        world.faults.events[Event.OFFSETS_CHANGED] += 1
        for number in range(world.shape.partitions):
            changed = world.draw.choice((None, 0, 3, 10**6))
            world.say(f"the group's offsets of task {number} are {changed}")
            for place in world.draw.choice((world.input_places(number)[:1], world.input_places(number))):
                if changed is None:
                    offsets.pop(place, None)
                else:
                    offsets[place] = changed

    return act


def _grow(world: World) -> Disaster | None:
    """Return an act that gives topics more partitions, once the application has recorded its number of tasks."""
    topics = world.config("w1").topics
    able = [name for name in topics if world.broker.topic(name).partitions == world.shape.partitions]
    places = [TopicPartition(topics.progress, number) for number in range(world.shape.partitions)]
    if not able or not any(world.broker.ends(place).stable and world.read(place) for place in places):
        return None

    def act() -> None:
        chosen = world.draw.sample(able, world.draw.randint(1, len(able)))
        world.say(f"more partitions: {', '.join(chosen)}")
        for name in chosen:
            world.broker.grow_topic(name, world.shape.partitions + world.draw.choice((1, 2)))
            if name in (topics.examples, topics.labels):
                side = Side.LABELS if name == topics.labels else Side.EXAMPLES
                sent = next((sent for sent in world.shape.records if sent.side == side), None)
                now_ms = world.clock.now_ms()
                record = (sent.key, sent.value, now_ms, sent.headers) if sent else (b"s", b"", now_ms, ())
                world.broker.append(TopicPartition(name, world.shape.partitions), [record])

    return act


def _want_commands(world: World) -> Disaster | None:
    """Return an act that asks for two commands at once, a few times."""
    if world.duties.will_run_commands or world.faults.hits[Fault.COMMANDS] >= 2 or not any(world.input_ends().values()):
        return None

    def act() -> None:
        world.duties.will_run_commands = True

    return act


def _want_erasure(world: World) -> Disaster | None:
    """Return an act that asks an operator to erase some examples of a stream, most of them known."""
    if world.duties.erasure is not None or not any(world.input_ends().values()):
        return None

    def act() -> None:
        stream = f"s{world.draw.randrange(world.shape.partitions)}"
        numbers = [world.draw.randrange(16) for _ in range(world.draw.choice((1, 1, 3, 12)))]
        world.duties.erasure = stream, [f"{stream}-{number}" for number in numbers]

    return act
