"""The settings of one learner: a method and its hyper-parameters."""

import re
from collections.abc import Hashable, Iterable, Iterator
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_type_hints

from pydantic import (
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    StringConstraints,
    ValidationInfo,
    create_model,
    field_validator,
    model_serializer,
)

from stream_app.config.messages import or_nearest
from stream_app.config.methods import METHOD_FACTS
from stream_app.config.values import Change, Integer, Number, Options, Settings

_SOME_HAVE = frozenset(name for facts in METHOD_FACTS.values() for name in facts.settings)

_OWN_HAVE = frozenset({"method", "options"})
"""The settings of a user's own learner: its class, and the options of the class."""

METHODS = tuple(METHOD_FACTS)
"""The names of the learning methods; `stream_app.learners.methods` has a file for each."""

_OWN_CLASS = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
"""Matches the import path of a user's own class: `package.module:Class`."""

Cost: TypeAlias = Annotated[Number, Field(ge=1, le=1e6)]
Units: TypeAlias = Annotated[Integer, Field(ge=1, le=16_384)]
Hidden: TypeAlias = Annotated[tuple[Units, ...], Field(max_length=8)]


def is_own(method: str) -> bool:
    """Say whether the method is the import path of a user's own learner, not a name in `METHODS`."""
    return _OWN_CLASS.fullmatch(method) is not None


def has_setting(method: str, name: str) -> bool:
    """Say whether learners of this method have the setting."""
    if is_own(method):
        return name in _OWN_HAVE
    facts = METHOD_FACTS.get(method)
    if name == "options" or (facts is not None and name in facts.decides):
        return False
    return name not in _SOME_HAVE or facts is None or name in facts.settings


def no_such_setting(method: str, name: str) -> str:
    """Return the line that says that learners of this method do not have the setting."""
    if is_own(method):
        return "a learner of your own has no setting but options"
    having = [of for of in METHODS if has_setting(of, name)] or ["learners of your own"]
    return f"the method {method} has no such setting (it belongs to {', '.join(having)})"


class LearnerSettings(Settings):
    """One learner: a method and its hyper-parameters, named as in the AREBA paper (Malialis et al., TNNLS 2020).

    A method has the settings that `METHOD_FACTS` lists for it, and all from `learning_rate` to `network`; RELAY
    decides `learning_rate`, `l2` and `scaler` itself. Any other setting is refused.

    Attributes:
        method: A learning method (docs/models.md), or `package.module:Class`: a user's own learner, which has `options`
            and no other setting.
        budget: B, the number of examples in both queues together; even.
        theta: Fading factor of the class sizes.
        window: W, the number of examples in the sliding window.
        cost: Initial cost of an error on a positive example; the cost of an error on a negative example is 1.
        largest_cost: Upper bound on a cost.
        cost_interval_labels: Number of labels between two changes of the costs.
        ensemble_size: Number of networks in the ensemble.
        replay_per_class: The most examples of each class that RELAY keeps and draws from.
        learning_rate: Step size of Adam.
        hidden: Units of each of up to 8 hidden layers, each from 1 to 16,384; `[]` is logistic regression.
        l2: Weight of the sum of squared hidden-layer weights in the loss; of all weights without a hidden layer.
        scaler: `standard` scales features by their fading mean and deviation, updated at prediction, to at most 5
            either way; with `none`, a network takes features as they come, to at most 1e6 either way,
            and learns well only if they are of order 1.
        network: `dense`, or `package.module:Class`, a `torch.nn.Module` that is trained through autograd.
        options: Options of a user's own learner, passed to its class unchanged.
    """

    model_config = ConfigDict(validate_default=False)

    change: ClassVar[Change] = Change.RESTARTS

    method: str
    budget: Annotated[Integer, Field(ge=2, le=10_000, multiple_of=2)] = 20
    theta: Annotated[Number, Field(gt=0, lt=1), Change.TAKEN_OVER] = 0.99
    window: Annotated[Integer, Field(ge=1, le=10_000)] = 100
    cost: Cost = 19.0
    largest_cost: Annotated[Cost, Change.TAKEN_OVER] = 50.0
    cost_interval_labels: Annotated[Integer, Field(ge=1, le=1_000_000_000), Change.TAKEN_OVER] = 250
    ensemble_size: Annotated[Integer, Field(ge=1, le=100)] = 20
    replay_per_class: Annotated[Integer, Field(ge=1, le=10_000)] = 500
    learning_rate: Annotated[Number, Field(gt=0, le=1), Change.TAKEN_OVER] = 0.01
    hidden: Hidden = (8,)
    l2: Annotated[Number, Field(ge=0, le=1), Change.TAKEN_OVER] = 0.0
    scaler: Literal["none", "standard"] = "none"
    network: Annotated[str, StringConstraints(pattern=r"^(dense|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$")] = "dense"
    options: Options = Field(default_factory=lambda: MappingProxyType({}))

    @property
    def key(self) -> tuple[Hashable, ...]:
        """All settings but `options`, which only users' own learners have: equal keys make equal learners."""
        return tuple([value for name, value in self.__dict__.items() if name != "options"])

    @property
    def is_dense(self) -> bool:
        """Whether method and network are areba's own: dense layers, whose weights belong to features."""
        return self.network == "dense" and not is_own(self.method)

    @field_validator("method")
    @classmethod
    def _known(cls, method: str) -> str:
        if method not in METHODS and not is_own(method):
            raise ValueError(f"there is no method {method!r}{or_nearest(method, METHODS)}")
        return method

    @field_validator("*")
    @classmethod
    def _of_the_method(cls, value: object, info: ValidationInfo) -> object:
        """Refuse a setting without effect."""
        method, name = info.data.get("method", ""), str(info.field_name)
        if name != "method" and method and not has_setting(method, name):
            raise ValueError(no_such_setting(method, name))
        return value

    @model_serializer(mode="wrap")
    def _only_settings_of_the_method(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        plain: dict[str, Any] = handler(self)
        return {name: value for name, value in plain.items() if has_setting(self.method, name)}


_optional_fields: Any = {
    name: (kind | None, None)
    for name, kind in get_type_hints(LearnerSettings, include_extras=True).items()
    if name in LearnerSettings.model_fields and name != "method"
}
_Optional: Any = create_model("_Optional", __base__=Settings, **_optional_fields)


class LearnerOverrides(_Optional):  # its fields are those of LearnerSettings
    """Settings of learners that a stream overrides; None keeps the value in `learners`."""

    def applied_to(self, settings: LearnerSettings) -> LearnerSettings:
        """Return the learner's settings, overridden by these; settings that its method does not have are ignored."""
        own = {
            name: getattr(self, name) for name in LearnerOverrides.model_fields if has_setting(settings.method, name)
        }
        return settings.model_copy(update={name: value for name, value in own.items() if value is not None})

    def without_effect(self, methods: Iterable[str]) -> Iterator[str]:
        """Yield the names of settings that are given here and that none of these methods has."""
        known = list(methods)
        for name in LearnerOverrides.model_fields:
            if getattr(self, name) is not None and not any(has_setting(method, name) for method in known):
                yield name
