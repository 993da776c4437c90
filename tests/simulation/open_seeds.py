"""Seeds that fail today and whose fault is not repaired yet. A run reports them, and does not fail because of them.

An entry belongs to one state of the code: a change of the order of calls gives its seed another schedule. An entry goes
with the repair of its fault.
"""

from collections.abc import Mapping
from types import MappingProxyType

OPEN: Mapping[int, str] = MappingProxyType({})
