"""How long the clients of Kafka wait, in seconds."""

REQUEST_S = 15.0
"""A request that a live broker answers in milliseconds. A new leader is elected within 6-9 s, so this is enough."""

LEADER_REQUEST_S = 2.0
"""One attempt within `REQUEST_S`. The client keeps asking a leader that has died until the attempt is over."""

STABLE_OFFSETS_S = 30.0
"""Waiting for committed offsets that the open transaction of a dead instance holds: transaction.timeout.ms, the
interval at which the broker checks it (10 s), and as much again."""

TRANSACTION_S = 10.0
"""A call of a transaction. Equal to `transaction.timeout.ms`: the broker aborts what is open for longer, so there is no
point in waiting any further."""

INITIALISE_S = 30.0
"""Initialising a transactional producer. A coordinator that has just started reads its log first, and a transaction
that is being completed takes time too."""

TRANSACTION_ATTEMPT_S = 5.0
"""One attempt within `TRANSACTION_S` or `INITIALISE_S`. The next attempt continues where this one stopped."""

RETRY_PAUSE_S = 0.01
"""Between two attempts, so that an error that is returned at once does not cause a busy loop."""

QUEUE_ROOM_S = 30.0
"""Waiting for room in a full send queue. It empties at the broker's speed (256 MB at 10 MB/s); if nothing moves,
the records expire earlier."""

CLOSE_S = 5.0
"""Aborting a transaction at a clean stop. What stays open is ended by the next start or by the broker's timeout."""

OUTAGE_EFFECTS_S = 60.0
"""A failure so soon after an outage may be a consequence of the outage: twice `STABLE_OFFSETS_S`."""

PROBE_INTERVAL_S = 1.0
"""Between two questions of a member that has lost all brokers whether one is back."""

PROBE_S = 2.0
"""One such request. A broker on a busy machine answers in this time, and the member has no other work."""

LOST_CLIENT_S = 15.0
"""Each time that a client has reached no broker for this long, it is compared with a new client. It tries to connect
every second, but it can lose the address of a broker that stopped in an orderly way."""

SILENCE_S = 5.0
"""An idle member that has heard from no broker for this long asks one, since `/ready` promises an answer in 15 s."""
