"""Areba in a user's own tests: `InProcess` is the real worker over an in-process log.

It takes the settings of the configuration file, needs neither Kafka nor a second process, and gives the results that
the same records give on Kafka, bit for bit. It keeps all records in memory and nothing on disk.

May import everything but `cli`; nothing imports this package. Public: `InProcess`.
"""

from stream_app.testing.in_process import InProcess

__all__ = ["InProcess"]
