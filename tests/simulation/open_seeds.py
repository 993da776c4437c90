"""Seeds that fail today and whose fault is not repaired yet. A run reports them, and does not fail because of them.

An entry belongs to one state of the code: a change of the order of calls gives its seed another schedule. An entry goes
with the repair of its fault.
"""

from collections.abc import Mapping
from types import MappingProxyType

OPEN: Mapping[int, str] = MappingProxyType(
    {
        1744: "the last commit of a task loses its markers, and a twin ends the only worker: nobody repairs the commit",
        2618: "a compaction takes the only chunk of a snapshot that a repair preceded, after its inputs were deleted",
    }
)
