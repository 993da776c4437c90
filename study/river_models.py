"""River's models as custom learners (`method: "study.river_models:AdaptiveRandomForest"`), for the study only.

They have River's own settings, except for the seed and for what `options` change. The option `sampling` puts a model
into one of River's random samplers (`over` or `under`), which aim at equally many examples of both classes. A River
model can only be stored as a pickle, which areba never reads, so `arrays()` is empty and `load` refuses: no worker can
recover these models.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import ensemble, forest, imblearn, linear_model, optim, preprocessing, tree

from stream_app.arrays import Floats

BALANCED = {0: 0.5, 1: 0.5}
"""The class frequencies that the samplers aim at."""

SAMPLERS = {"over": imblearn.RandomOverSampler, "under": imblearn.RandomUnderSampler}
"""The samplers, by the option `sampling`."""

Options = Mapping[str, Any]


class _RiverLearner:
    """A River classifier as a learner of `stream_app`."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401  (River's classifiers publish no type)
        self._model = model

    def predict(self, example: Floats) -> float:
        """Return the probability of class 1; 0.0 before the first label."""
        shares = self._model.predict_proba_one(dict(enumerate(example.tolist())))
        return min(max(float(shares.get(1, 0.0)), 0.0), 1.0)

    def learn(self, example: Floats, label: int) -> None:
        """Learn one example."""
        self._model.learn_one(dict(enumerate(example.tolist())), label)

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Return nothing; see the module's docstring."""
        return {}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Refuse.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("a River model cannot be restored")


def _seed(seed: bytes) -> int:
    return int.from_bytes(seed[:4], "little")


def _sampled(model: Any, sampling: str, seed: bytes) -> Any:  # noqa: ANN401  (River's classifiers publish no type)
    """Return the model, in the sampler that `sampling` names."""
    return model if sampling == "none" else SAMPLERS[sampling](model, desired_dist=BALANCED, seed=_seed(seed))


def _split(options: Options, *names: str) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return `sampling`, the options of these names, and all others."""
    rest = {name: value for name, value in options.items() if name not in (*names, "sampling")}
    return options.get("sampling", "none"), {name: options[name] for name in names if name in options}, rest


TREE_OPTIONS = ("grace_period", "delta", "leaf_prediction")
"""Options that an ensemble passes to its Hoeffding trees."""


class AdaptiveRandomForest(_RiverLearner):
    """Adaptive random forest (Gomes et al. 2017): ten trees, each with its own drift detector."""

    def __init__(self, features: int, seed: bytes, options: Options) -> None:  # noqa: ARG002  (the form)
        sampling, _, own = _split(options)
        super().__init__(_sampled(forest.ARFClassifier(seed=_seed(seed), **own), sampling, seed))


class HoeffdingAdaptiveTree(_RiverLearner):
    """Hoeffding adaptive tree (Bifet and Gavaldà 2009): a tree whose branches are replaced when they drift."""

    def __init__(self, features: int, seed: bytes, options: Options) -> None:  # noqa: ARG002  (the form)
        sampling, _, own = _split(options)
        super().__init__(_sampled(tree.HoeffdingAdaptiveTreeClassifier(seed=_seed(seed), **own), sampling, seed))


class LeveragingBagging(_RiverLearner):
    """Leveraging bagging (Bifet et al. 2010): ten Hoeffding trees on resampled examples."""

    def __init__(self, features: int, seed: bytes, options: Options) -> None:  # noqa: ARG002  (the form)
        sampling, own, rest = _split(options, *TREE_OPTIONS)
        model = tree.HoeffdingTreeClassifier(**own)
        ensemble_ = ensemble.LeveragingBaggingClassifier(model, seed=_seed(seed), **rest)
        super().__init__(_sampled(ensemble_, sampling, seed))


class AdwinBagging(_RiverLearner):
    """ADWIN bagging (Bifet et al. 2009): online bagging of ten Hoeffding trees; a drift replaces the worst tree."""

    def __init__(self, features: int, seed: bytes, options: Options) -> None:  # noqa: ARG002  (the form)
        sampling, own, rest = _split(options, *TREE_OPTIONS)
        model = tree.HoeffdingTreeClassifier(**own)
        super().__init__(_sampled(ensemble.ADWINBaggingClassifier(model, seed=_seed(seed), **rest), sampling, seed))


class StreamingRandomPatches(_RiverLearner):
    """Streaming random patches (Gomes et al. 2019): ten Hoeffding trees on resampled examples and random features."""

    def __init__(self, features: int, seed: bytes, options: Options) -> None:  # noqa: ARG002  (the form)
        sampling, own, rest = _split(options, *TREE_OPTIONS)
        model = tree.HoeffdingTreeClassifier(**{"grace_period": 50, "delta": 0.01, **own}) if own else None
        super().__init__(_sampled(ensemble.SRPClassifier(model, seed=_seed(seed), **rest), sampling, seed))


class LogisticRegression(_RiverLearner):
    """Logistic regression on standardised features; the option `learning_rate` is the step size of its descent."""

    def __init__(self, features: int, seed: bytes, options: Options) -> None:  # noqa: ARG002  (the form)
        sampling, own, rest = _split(options, "learning_rate")
        optimizer = optim.SGD(own["learning_rate"]) if own else None
        model = linear_model.LogisticRegression(optimizer, **rest)
        super().__init__(preprocessing.StandardScaler() | _sampled(model, sampling, seed))


class OversampledLogistic(LogisticRegression):
    """Logistic regression on standardised features, with the rarer class oversampled to one half."""

    def __init__(self, features: int, seed: bytes, options: Options) -> None:
        super().__init__(features, seed, {**options, "sampling": "over"})


class UndersampledLogistic(LogisticRegression):
    """Logistic regression on standardised features, with the more frequent class undersampled to one half."""

    def __init__(self, features: int, seed: bytes, options: Options) -> None:
        super().__init__(features, seed, {**options, "sampling": "under"})
