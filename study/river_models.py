"""River's models as custom learners (`method: "study.river_models:AdaptiveRandomForest"`), for the study only.

They have River's own settings, except for the seed. A River model can only be stored as a pickle, which areba never
reads, so `arrays()` is empty and `load` refuses: no worker can recover these models.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from river import ensemble, forest, imblearn, linear_model, preprocessing, tree

from stream_app.records import Floats

BALANCED = {0: 0.5, 1: 0.5}
"""The class frequencies that the samplers aim at."""


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


class AdaptiveRandomForest(_RiverLearner):
    """Adaptive random forest (Gomes et al. 2017): ten trees, each with its own drift detector."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        super().__init__(forest.ARFClassifier(seed=_seed(seed), **options))


class HoeffdingAdaptiveTree(_RiverLearner):
    """Hoeffding adaptive tree (Bifet and Gavaldà 2009): a tree whose branches are replaced when they drift."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        super().__init__(tree.HoeffdingAdaptiveTreeClassifier(seed=_seed(seed), **options))


class LeveragingBagging(_RiverLearner):
    """Leveraging bagging (Bifet et al. 2010): ten Hoeffding trees on resampled examples."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        model = tree.HoeffdingTreeClassifier()
        super().__init__(ensemble.LeveragingBaggingClassifier(model, seed=_seed(seed), **options))


class OversampledLogistic(_RiverLearner):
    """Logistic regression on standardised features, with the rarer class oversampled to one half."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        model = linear_model.LogisticRegression(**options)
        sampler = imblearn.RandomOverSampler(model, desired_dist=BALANCED, seed=_seed(seed))
        super().__init__(preprocessing.StandardScaler() | sampler)


class UndersampledLogistic(_RiverLearner):
    """Logistic regression on standardised features, with the more frequent class undersampled to one half."""

    def __init__(self, features: int, seed: bytes, options: Mapping[str, Any]) -> None:  # noqa: ARG002  (the form)
        model = linear_model.LogisticRegression(**options)
        sampler = imblearn.RandomUnderSampler(model, desired_dist=BALANCED, seed=_seed(seed))
        super().__init__(preprocessing.StandardScaler() | sampler)
