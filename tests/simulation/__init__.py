"""Simulate workers over an in-process log with faults of every kind, in one thread and in virtual time.

    python -m tests.simulation --seed N       run one seed again, with a trace
    python -m tests.simulation --seeds A:B    run many, and count how often each kind of fault hit
    python -m tests.simulation --mutants all  break the code in known ways, each of which must be found

A seed decides everything: the shape of the application, its inputs, who runs when, and which faults come where. The
code under test is the code that runs: `Worker.run`, `Restore`, `LiveTask`, `Task`; only its ports are wrapped.

    schedule.py            greenlets as processes, virtual time, and whose turn it is
    faults.py              kinds of faults, how often a seed draws each, and the count of those that hit
    ports.py               the ports of a worker: every call may fail, stall, crash, or say less than there is
    transactions.py        its transactions, whose outcome may be unknown or delayed
    worlds/inputs.py       examples, labels, marks, garbage, repeats, odd times, outliers
    worlds/shape.py        the decisions of a seed in advance: the application, its inputs, and its faults
    worlds/world.py        the broker, and the state that all actors share
    worlds/run.py          the course of a world from its first record to its end, and the subscriber
    worlds/processes.py    the worker processes and their log lines
    worlds/supervisor.py   the supervisor, which starts processes
    worlds/producer.py     the producer of the inputs
    worlds/disasters.py    faults that come at any time, not at a call of a port
    worlds/year.py         quiet weeks, slow records, and what the brokers delete and forget meanwhile
    worlds/maintenance.py  the operator, who resumes and resets streams, accepts lost inputs, and erases examples
    worlds/commands.py     operators who run commands at once
    worlds/upkeep.py       what operators promote, learners that they take out and put in again, dead letters that they
                           send back
    checks.py              the checks at the end
    counts.py              consequences of faults that the outputs show
    many.py                thousands of seeds in several processes
    mutants/               known ways to break the code, and the hunt for each
"""
