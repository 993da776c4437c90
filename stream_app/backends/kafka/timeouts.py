"""How long the clients of Kafka wait, in seconds."""

REQUEST_S = 15.0
"""A request that a live broker answers in milliseconds. A new leader is elected within 6-9 s, so this is enough."""

NEW_PARTITIONS_S = 120.0
"""New partitions get leaders. One broker on a busy machine took 20 s for two thousand of them."""

LEADER_REQUEST_S = 2.0
"""One attempt within `REQUEST_S`. The client keeps asking a leader that has died until the attempt is over."""

TRANSACTION_S = 10.0
"""A call of a transaction. Equal to `transaction.timeout.ms`: the broker aborts what is open for longer, so there is no
point in waiting any further."""

INITIALISE_S = 30.0
"""Initialising a transactional producer. A coordinator that has just started reads its log first, and a transaction
that is being completed takes time too."""

COORDINATOR_ATTEMPT_S = 0.5
"""One question to the coordinator of a group. The client waits for a change of a connection, which may never come,
before it looks for the coordinator again; so several short questions find it sooner than a long one."""

LOST_CALL_S = 2.0
"""A call of a transaction that has not returned after this time, and then for this time while a broker answers other
requests, does not return: the client has lost its request."""

TRANSACTION_ATTEMPT_S = 1.0
"""One attempt within `TRANSACTION_S` or `INITIALISE_S`. The next attempt continues where this one stopped; between two
attempts the client hands over its errors, so that a password that has become wrong is reported within seconds."""

RETRY_PAUSE_S = 0.01
"""Between two attempts, so that an error that is returned at once does not cause a busy loop."""

QUEUE_ROOM_S = 30.0
"""Waiting for room in a full send queue. It empties at the broker's speed (256 MB at 10 MB/s); if nothing moves,
the records expire earlier."""

CLOSE_S = 5.0
"""Aborting a transaction at a clean stop. What stays open is ended by the next start or by the broker's timeout."""

OUTAGE_EFFECTS_S = 60.0
"""A failure so soon after an outage may be a consequence of the outage: twice the time after which the broker has
aborted what was open, `transaction.timeout.ms` and the interval at which it checks (10 s), with as much again."""

REFUSED_INTERVAL_S = 60.0
"""Least time between two lines about the same refusal of a broker."""

PROBE_INTERVAL_S = 1.0
"""Between two questions of a member that has lost all brokers whether one is back."""

PROBE_S = 2.0
"""One such request. A broker on a busy machine answers in this time, and the member has no other work."""

REJOIN_INTERVAL_S = 10.0
"""Least time between two fatal errors of a member that joins again: a rival causes them within seconds, a frozen
coordinator not twice within a session."""

LOST_CLIENT_S = 15.0
"""Each time that a client has reached no broker for this long, it is compared with a new client. It tries to connect
every second, but it can lose the address of a broker that stopped in an orderly way."""

SILENCE_S = 5.0
"""An idle member that has heard from no broker for this long asks one, since `/ready` promises an answer in 15 s."""
