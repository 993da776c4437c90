"""Mutants: known ways to break the code. The simulation or a test must find each, which proves that they can fail.

by_seeds.py, by_tests.py  the mutants: add a row here
changes.py              changes of a function, of which mutants are made
mutant.py               applies a mutant in the processes that are started with its environment
hunt.py                 runs seeds, or tests, until each mutant is found
site/                   on the path of these processes: changes one file at its import
"""

from collections.abc import Mapping

from tests.simulation.mutants.by_seeds import BY_SEEDS
from tests.simulation.mutants.by_tests import BY_TESTS
from tests.simulation.mutants.mutant import Mutant

MUTANTS: Mapping[str, Mutant] = {**BY_SEEDS, **BY_TESTS}
