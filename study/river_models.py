"""River's models as learners of one's own (`method: "study.river_models:AdaptiveRandomForest"`), for the study only.

They have River's own settings, but for the seed. What a River model holds has no form but a pickle, which areba never
reads, so `arrays()` is empty and `load` refuses: no worker can recover them.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import ensemble, forest, imblearn, linear_model, preprocessing, tree

from stream_app.records import Floats

BALANCED = {0: 0.5, 1: 0.5}
"""What the samplers bring the classes to."""


class _RiverLearner:
    """One River classifier behind the form that `stream_app` asks for."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401  (River's classifiers publish no type)
        self._model = model

    def predict(self, example: Floats) -> float:
        """P(class 1); 0.0 before the first label."""
        shares = self._model.predict_proba_one(dict(enumerate(example.tolist())))
        return min(max(float(shares.get(1, 0.0)), 0.0), 1.0)

    def learn(self, example: Floats, label: int) -> None:
        """One example."""
        self._model.learn_one(dict(enumerate(example.tolist())), label)

    def arrays(self) -> Mapping[str, NDArray[np.generic]]:
        """Nothing: see the module."""
        return {}

    def load(self, arrays: Mapping[str, NDArray[np.generic]]) -> None:
        """Refuse.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError("a River model cannot be restored")


def _seed(seed: bytes) -> int:
    return int.from_bytes(seed[:4], "little")


class AdaptiveRandomForest(_RiverLearner):
    """Gomes et al. 2017: ten trees, each with a drift detector of its own."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        super().__init__(forest.ARFClassifier(seed=_seed(seed), **options))


class HoeffdingAdaptiveTree(_RiverLearner):
    """Bifet and Gavaldà 2009: one tree whose branches are replaced when they drift."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        super().__init__(tree.HoeffdingAdaptiveTreeClassifier(seed=_seed(seed), **options))


class LeveragingBagging(_RiverLearner):
    """Bifet et al. 2010: ten Hoeffding trees on resampled examples."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        model = tree.HoeffdingTreeClassifier()
        super().__init__(ensemble.LeveragingBaggingClassifier(model, seed=_seed(seed), **options))


class OversampledLogistic(_RiverLearner):
    """Logistic regression on standardised features, the rarer class oversampled to one half."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        model = linear_model.LogisticRegression(**options)
        sampler = imblearn.RandomOverSampler(model, desired_dist=BALANCED, seed=_seed(seed))
        super().__init__(preprocessing.StandardScaler() | sampler)


class UndersampledLogistic(_RiverLearner):
    """Logistic regression on standardised features, the more frequent class undersampled to one half."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        model = linear_model.LogisticRegression(**options)
        sampler = imblearn.RandomUnderSampler(model, desired_dist=BALANCED, seed=_seed(seed))
        super().__init__(preprocessing.StandardScaler() | sampler)
