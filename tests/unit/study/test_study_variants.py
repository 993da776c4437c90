"""Variants that explain differences from the paper: Keras' clipped loss, one-hot features, other images of MNIST."""

from pathlib import Path

import numpy as np
import pytest

from stream_app.learners.networks.autograd import AutogradModel
from stream_app.producers.datasets import cervical, mnist
from stream_app.producers.datasets.files import DATA_DIR_VARIABLE
from study.run import streams
from study.run.experiment import Run, load_all, parse
from study.run.preparations import SCHILLER, YES_NO, one_hot, prepared
from study.run.streams import data_of
from study.variants import KERAS_LOGITS, ClippedNetwork

# isort: split
import torch

LOWEST, HIGHEST = -16.118, 15.942
"""Logits of Keras' smallest and largest probability in float32."""


@pytest.mark.parametrize(
    ("logit", "label", "learns"),
    [
        (LOWEST - 0.01, 1.0, False),
        (LOWEST + 0.01, 1.0, True),
        (HIGHEST - 0.01, 0.0, True),
        (HIGHEST + 0.01, 0.0, False),
        (40.0, 0.0, False),
        (0.5, 0.0, True),
    ],
)
def test_a_sure_and_wrong_network_learns_nothing(logit: float, label: float, learns: bool) -> None:
    """This alone turns OOB_single's G-mean on Cervical Cancer into the paper's; without it the difference is open."""
    network = ClippedNetwork(2)
    with torch.no_grad():
        for layer in network.layers:
            layer.zero_()
        network.layers[-1].fill_(logit)
    model = AutogradModel(network, 2, learning_rate=0.1, l2=0.0)
    before = model.training.parameters.copy()
    model.learn(np.ones((1, 2), np.float32), np.array([label], np.float32))
    assert (model.training.parameters != before).any() == learns


def test_the_bounds_are_those_of_float32() -> None:
    """1 - 1e-7 is not a float32: with the exact number the upper bound would be 16.118, and fewer networks die."""
    highest = float(np.float32(1) - np.float32(1e-7))
    assert tuple(KERAS_LOGITS) == pytest.approx((np.log(1e-7 / (1 - 1e-7)), np.log(highest / (1 - highest))), abs=1e-6)


@pytest.mark.parametrize(("scaling", "columns"), [("onehot-46", 46), ("onehot-45", 45)])
def test_an_answer_yes_or_no_has_two_columns(scaling: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The report names the numbers of columns, one of which is the paper's; another table would explain nothing."""
    monkeypatch.delenv(DATA_DIR_VARIABLE, raising=False)
    features = prepared("cervical", scaling, "study", None).features
    assert features.shape == (858, columns)
    assert (features.min(), features.max()) == (0.0, 1.0)
    pairs = len(YES_NO) - (scaling == "onehot-45")
    no, yes = features[:, -2 * pairs : -pairs], features[:, -pairs:]
    assert (no + yes == 1.0).all()
    assert ((yes == 0.0) | (yes == 1.0)).all()


def test_an_unknown_answer_is_the_median() -> None:
    """A row with unknown values must not have NaN as a feature, which stops the repetition."""
    rows = np.full((1, 36), np.nan)
    features = one_hot(rows, [SCHILLER])
    assert features.shape == (1, 36)
    assert features[0, 0] == pytest.approx((cervical.MEDIANS[0] - 13) / (84 - 13))
    assert features[0, -2:].tolist() == [1.0, 0.0]


def _idx_files(images: int) -> tuple[bytes, bytes]:
    """Return the two IDX files of this many images of 7 and 2 in turn; image i has the pixels i % 256."""
    labels = np.where(np.arange(images) % 2, mnist.POSITIVE_DIGIT, mnist.NEGATIVE_DIGIT).astype(np.uint8)
    pixels = np.repeat(np.arange(images).astype(np.uint8)[:, None], mnist.PIXELS, axis=1)
    heads = [number.to_bytes(4, "big") for number in (mnist.IMAGES_MAGIC, mnist.LABELS_MAGIC)]
    return heads[0] + bytes(12) + pixels.tobytes(), heads[1] + bytes(4) + labels.tobytes()


def test_another_seed_draws_other_images(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same 60 images of the digit 2 in each repetition, the spread says nothing of their choice."""
    monkeypatch.setattr(mnist, "NEGATIVES", 30)
    monkeypatch.setattr(mnist, "POSITIVES", 5)
    files = _idx_files(200)
    one, again, two = (mnist.select(files, ("study", "mnist", seed)) for seed in (0, 0, 1))
    assert (one == again).all()
    assert one[:, 0].sum() == two[:, 0].sum() == 5
    assert set(one[one[:, 0] == 1, 1].tolist()) != set(two[two[:, 0] == 1, 1].tolist())


def test_mnist_draws_images_where_the_data_vary(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """*weights* keeps the study's images, and *both* draws them; exchanged, both rows of the report would be wrong."""
    (experiment,) = (experiment for experiment in load_all() if experiment.name == "real-mnist")
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    small = parse(
        {"name": "a", "title": "a", "group": "real", "stream": {"source": "sine"}, "methods": {"oob": None}}, ""
    )
    data = data_of(Run(small, "both"), 0)
    monkeypatch.setattr(streams, "mnist_drawn", lambda _scaling, _folder, seed: data.prefix(seed + 1))
    monkeypatch.setattr(streams, "prepared", lambda *_: data.prefix(100))
    assert [len(data_of(Run(experiment, "both"), number)) for number in range(3)] == [1, 2, 3]
    assert [len(data_of(Run(experiment, "weights"), number)) for number in range(3)] == [100] * 3
