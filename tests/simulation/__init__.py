"""Workers, an in-process log and everything that can go wrong, in one thread under a clock of our own.

    python -m tests.simulation --seed N       one seed again, with a trace of what was done
    python -m tests.simulation --seeds A:B    many, and how often each kind of fault was hit
    python -m tests.simulation --mutants      is the code broken in known ways, it must be found

A seed decides everything: the shape of the application, its inputs, who runs when, and which faults come where. The
code under test is the code that runs: `Worker.run`, `Restore`, `LiveTask`, `Task`; only its ports are wrapped.

    schedule.py          greenlets as processes, virtual time, who goes next
    faults.py            kinds of faults, how often each is drawn by a seed, and the count of those that hit
    ports.py             the ports of a worker: every call may fail, stall, crash, or say less than there is
    transactions.py      its transactions, whose outcome may be unknown or come late
    worlds/inputs.py     examples, labels, marks, garbage, repeats
    worlds/shape.py      what a seed decides before anything happens: the application, its inputs, who may fail
    worlds/processes.py  the worker processes, and what they say
    worlds/world.py      the broker, who starts processes again, the producer, the operator, the subscriber
    checks.py            what must hold in the end
    many.py              thousands of seeds over processes
    mutants.py           known ways to break the code; hunt.py runs seeds, or tests, until each is found
    site/                on the path of processes that run a mutant: changes one file as it is imported
"""
