"""The learning methods: a new one is one more line here."""

from collections.abc import Mapping
from types import MappingProxyType

from stream_app.config import LearnerSettings
from stream_app.learners.method import LearningMethod, RunningMethod
from stream_app.learners.methods.adaptive_cs import ADAPTIVE_CS
from stream_app.learners.methods.areba import AREBA
from stream_app.learners.methods.baseline import BASELINE
from stream_app.learners.methods.oob import OOB, OOB_SINGLE
from stream_app.learners.methods.qbr import QBR
from stream_app.learners.methods.relay.relay import RELAY
from stream_app.learners.methods.sliding import SLIDING
from stream_app.learners.methods.uob import UOB

METHODS: Mapping[str, LearningMethod] = MappingProxyType(
    {method.name: method for method in (AREBA, QBR, BASELINE, SLIDING, ADAPTIVE_CS, OOB, UOB, OOB_SINGLE, RELAY)}
)
"""By the name that a configuration uses."""


def new_method(method: LearningMethod, settings: LearnerSettings, features: int, seed: bytes) -> RunningMethod:
    """Make a new method, which the compiled loop knows by its place here; see `LearningMethod.make`."""
    made = method.make(settings, features, seed)
    state = made.tables.state._replace(kind=list(METHODS).index(method.name))
    return made._replace(tables=made.tables._replace(state=state))
