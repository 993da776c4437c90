"""Mutants: known ways to break the code. The simulation or a test must find each, which proves that they can fail.

by_seed.py, by_test.py  the mutants: add a row here
changes.py              changes of a function, of which mutants are made
mutant.py               applies a mutant in the processes that are started with its environment
hunt.py                 runs seeds, or tests, until each mutant is found
site/                   on the path of these processes: changes one file at its import
"""

from collections.abc import Mapping

from tests.simulation.mutants.by_seed import BY_SEED
from tests.simulation.mutants.by_test import BY_TEST
from tests.simulation.mutants.mutant import Mutant

MUTANTS: Mapping[str, Mutant] = {**BY_SEED, **BY_TEST}
