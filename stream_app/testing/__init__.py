"""An application in one process: the real worker over an in-process log, for trials, notebooks and tests.

`InProcess` takes the same settings as the configuration file. It needs neither Kafka nor a second process, and it gives
the results that the same records give on Kafka, bit for bit. It keeps all records in memory and nothing on disk.

May import everything but `cli`; nothing imports this package. Public: `InProcess`.
"""

from stream_app.testing.in_process import InProcess

__all__ = ["InProcess"]
