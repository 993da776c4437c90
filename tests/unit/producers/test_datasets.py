"""The data sets are the paper's, and no other data pass for them."""

import functools
import gzip
import hashlib
import http.server
import io
import lzma
import threading
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from stream_app.errors import DataSetError
from stream_app.producers import cli, datasets
from stream_app.producers.datasets import RECIPES, cut
from stream_app.producers.datasets.base import DataSet, Recipe
from stream_app.producers.datasets.fetch import fetch
from stream_app.producers.datasets.files import DATA_DIR_VARIABLE, SHIPPED, ShippedFile, array_bytes, read_array
from stream_app.producers.sources import parse_source

MAX_SHIPPED_BYTES = 20_000_000

SHAPES = {
    "cervical": (858, 43, 55),
    "credit": (1_000, 24, 300),
    "mnist": (6_060, 784, 60),
    "forest": (202_000, 54, 2_000),
    "fraud": (125_000, 30, 259),
}
"""Examples, features and positives of the shipped files."""


@pytest.fixture(scope="module")
def shipped() -> dict[str, DataSet]:
    """Return every set as the package ships it."""
    return {name: recipe.load(None) for name, recipe in RECIPES.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", SHAPES)
def test_counts_are_the_papers(shipped: dict[str, DataSet], name: str) -> None:
    """Another number of rows or positives would be another experiment."""
    data = shipped[name]
    assert (len(data), data.dimension, int(data.labels.sum())) == SHAPES[name]
    assert data.source == "shipped"
    assert data.features.flags.c_contiguous


@pytest.mark.parametrize("name", ["cervical", "credit", "mnist", "forest"])
def test_scaled_features_fill_the_unit_interval(shipped: dict[str, DataSet], name: str) -> None:
    """A wrong constant would push features out of [0, 1] or leave a part of it unused."""
    features = shipped[name].features
    assert features.min() == 0.0
    assert features.max() == 1.0


def test_settings_are_the_papers(shipped: dict[str, DataSet]) -> None:
    """The learning rates come from the section on compared methods; MNIST has another network."""
    rates = {name: data.learning_rate for name, data in shipped.items()}
    assert rates == {"cervical": 0.1, "credit": 0.01, "mnist": 0.001, "forest": 0.01, "fraud": 0.0001}
    networks = {(data.hidden, data.l2) for name, data in shipped.items() if name != "mnist"}
    assert networks == {((8,), 0.0)}
    assert (shipped["mnist"].hidden, shipped["mnist"].l2) == ((512, 512), 0.01)


def test_cervical_says_which_answers_are_missing(shipped: dict[str, DataSet]) -> None:
    """Of 858 patients 787 have no time since a diagnosis; the first row answered everything else."""
    features = shipped["cervical"].features
    assert features[:, 42].sum() == 787
    assert features[0, 35:].tolist() == [0, 0, 0, 0, 0, 0, 0, 1]
    assert features[0, 26] == np.float32((4 - 1) / 21)
    unknown = features[:, 35] == 1
    assert unknown.sum() == 26
    assert set(features[unknown, 1].tolist()) == {np.float32((2 - 1) / 27)}


def test_forest_is_shuffled(shipped: dict[str, DataSet]) -> None:
    """In the publisher's order nearly all positives come first, and a learner would see a false drift."""
    labels = shipped["forest"].labels
    tenths = [part.sum() for part in np.array_split(labels, 10)]
    assert min(tenths) > 140
    assert max(tenths) < 260
    one_area = shipped["forest"].features[:, 10:14].sum(axis=1)
    assert (one_area == 1.0).all()


def test_fraud_is_in_the_publishers_order(shipped: dict[str, DataSet]) -> None:
    """Fraud is the only real stream; its time, a feature, never goes back. The first row is checked by hand."""
    features = shipped["fraud"].features
    assert (np.diff(features[:, 0]) >= 0).all()
    assert features[0, 1] == np.float32(-1.3598071336738)
    assert features[0, 29] == pytest.approx((149.62 - 88.34961925) / 250.11967014, rel=1e-6)


def test_shipped_files_fit_and_are_accounted_for() -> None:
    """A clone stays small, and nothing is shipped without its source and licence."""
    files = {path.name: path for path in SHIPPED.iterdir()}
    assert sum(path.stat().st_size for path in files.values()) <= MAX_SHIPPED_BYTES
    text = files.pop("SOURCES.md").read_text()
    assert files.keys() == {recipe.shipped.name for recipe in RECIPES.values()}
    for recipe in RECIPES.values():
        stated = [recipe.shipped.name, recipe.shipped.sha256, recipe.shipped.content_sha256]
        stated += [file.sha256 for file in recipe.files]
        assert all(item in text for item in stated), recipe.name


def test_a_changed_shipped_file_is_refused_with_both_checksums(tmp_path: Path) -> None:
    """Results on a damaged file would be wrong without any sign."""
    file = RECIPES["credit"].shipped
    content = bytearray((SHIPPED / file.name).read_bytes())
    content[100] ^= 1
    (tmp_path / file.name).write_bytes(content)
    with pytest.raises(DataSetError) as caught:
        file.read(tmp_path)
    (line,) = caught.value.lines
    assert str(tmp_path / file.name) in line
    assert file.sha256 in line
    assert hashlib.sha256(content).hexdigest() in line
    assert caught.value.exit_code == 2


def test_a_missing_shipped_file_is_named(tmp_path: Path) -> None:
    """An incomplete installation is reported."""
    with pytest.raises(DataSetError, match=r"gone\.xz: no such file"):
        ShippedFile("gone.xz", "0", "0").read(tmp_path)


@pytest.mark.parametrize(("name", "near"), [("froud", "fraud"), ("minst", "mnist"), ("sin", "sine")])
def test_an_unknown_name_offers_the_nearest(name: str, near: str) -> None:
    """A typing error should cost one look, not a search."""
    with pytest.raises(DataSetError, match=f"did you mean {near}\\?"):
        parse_source(name)


def test_an_unlike_name_lists_all() -> None:
    """If no name is near, the error lists all names."""
    with pytest.raises(DataSetError, match="known: cervical, credit, mnist, forest, fraud, sine, circle, sea"):
        parse_source("xyzzy")


def test_options_of_a_source() -> None:
    """Two halves of a set may be sent under two names."""
    source = parse_source("credit:stream=credit-eu,limit=10,interval_ms=5", limit=20)
    assert (source.stream, len(source.data), source.interval_ms) == ("credit-eu", 10, 5)
    assert len(parse_source("credit", limit=20).data) == 20
    waves = parse_source("sine:length=50,stream=waves")
    assert (waves.stream, waves.data.name) == ("waves", "sine:length=50")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("credit:limt=10", "did you mean limit?"),
        ("credit:limit=0", "limit=0 is not a whole number above 0"),
        ("sine:lengh=10", "did you mean length?"),
        ("sine:interval_ms=x", "interval_ms=x is not"),
    ],
)
def test_wrong_options_are_refused(text: str, message: str) -> None:
    """The error is one line that names the option."""
    with pytest.raises(DataSetError, match=message) as caught:
        parse_source(text)
    assert len(caught.value.lines) == 1


PACKERS: Mapping[str, Callable[[bytes], bytes]] = {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}


def _published(recipe: Recipe) -> bytes:
    """Return the publisher's own bytes of the sets that are shipped unchanged."""
    return lzma.decompress((SHIPPED / recipe.shipped.name).read_bytes())


@pytest.mark.parametrize("ending", PACKERS)
def test_the_publishers_files_are_preferred(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped: dict[str, DataSet], ending: str
) -> None:
    """`AREBA_DATA_DIR` has priority over shipped files, for files that are packed in any way."""
    recipe = RECIPES["cervical"]
    path = tmp_path / "cervical" / f"risk_factors_cervical_cancer.csv{ending}"
    path.parent.mkdir()
    path.write_bytes(PACKERS[ending](_published(recipe)))
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    data = datasets.load("cervical")
    assert data.source == "published"
    assert (data.features == shipped["cervical"].features).all()


@pytest.mark.parametrize("wrong", [b"", b"Age\n1\n"])
def test_another_file_is_not_taken_for_the_publishers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: bytes
) -> None:
    """An edited file, or half a download, has another checksum."""
    (tmp_path / "cervical").mkdir()
    (tmp_path / "cervical" / "risk_factors_cervical_cancer.csv").write_bytes(wrong)
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    with pytest.raises(DataSetError) as caught:
        datasets.load("cervical")
    (line,) = caught.value.lines
    assert RECIPES["cervical"].files[0].sha256 in line
    assert hashlib.sha256(wrong).hexdigest() in line


def test_a_missing_file_of_the_publisher_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A silent fallback to the shipped prefix would give a shorter stream than requested."""
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    with pytest.raises(DataSetError, match=r"creditcard\.csv.*no such file"):
        datasets.load("fraud")


def test_a_data_folder_that_is_not_there_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error distinguishes a mistyped folder from a missing file."""
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(DataSetError, match=f"{DATA_DIR_VARIABLE}=.*nowhere: no such folder"):
        datasets.load("fraud")


def test_a_damaged_container_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error names the file, and not the internals of a decompressor."""
    (tmp_path / "cervical").mkdir()
    path = tmp_path / "cervical" / "risk_factors_cervical_cancer.csv.gz"
    path.write_bytes(gzip.compress(b"x" * 1_000)[:-20])
    monkeypatch.setenv(DATA_DIR_VARIABLE, str(tmp_path))
    with pytest.raises(DataSetError, match="cannot be unpacked"):
        datasets.load("cervical")


def test_no_pickle_of_a_data_set_is_loaded() -> None:
    """An array file may contain a pickle, which can run code."""
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        read_array(buffer.getvalue())
    assert read_array(array_bytes(np.arange(3))).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("features", "labels"),
    [
        (np.zeros((2, 3), np.float64), np.zeros(2, np.int8)),
        (np.zeros((2, 3), np.float32), np.zeros(3, np.int8)),
        (np.full((2, 3), np.nan, np.float32), np.zeros(2, np.int8)),
        (np.zeros((2, 3), np.float32), np.full(2, 2, np.int8)),
    ],
)
def test_a_data_set_of_ones_own_is_checked(features: NDArray[np.float32], labels: NDArray[np.int8]) -> None:
    """A user's own arrays with a wrong type or class are refused immediately, before they become dead letters."""
    with pytest.raises(DataSetError, match="own"):
        DataSet("own", features, labels, None, "as they are", "synthetic", 0.01)


# Fetching -------------------------------------------------------------------------------------------------------------


class _QuietHandler(http.server.SimpleHTTPRequestHandler):
    """A web server's handler that serves files and prints nothing."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name in the standard library)
        """Print nothing."""


@pytest.fixture
def publisher(tmp_path: Path) -> Iterator[tuple[Path, str]]:
    """Run a web server on this machine; yield its folder and its address."""
    folder = tmp_path / "www"
    folder.mkdir()

    handler = functools.partial(_QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield folder, f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join(10)


def _recipe(*urls: str) -> Recipe:
    recipe = RECIPES["credit"]
    return replace(recipe, files=(replace(recipe.files[0], urls=urls),))


def test_fetch_tries_one_source_after_another(publisher: tuple[Path, str], tmp_path: Path) -> None:
    """If the first source has moved, a copy is used; a second fetch finds the file and downloads nothing."""
    folder, address = publisher
    with zipfile.ZipFile(folder / "credit.zip", "w") as archive:
        archive.writestr("statlog/german.data-numeric", _published(RECIPES["credit"]))
    recipe = _recipe(f"{address}/gone.zip", f"{address}/credit.zip")
    lines: list[str] = []
    target = tmp_path / "data"
    fetch(recipe, target, lines.append)
    assert "checksum correct" in lines[-1]
    assert recipe.load(target).source == "published"
    assert [path.name for path in (target / "german_credit").iterdir()] == ["german.data-numeric"]
    fetch(recipe, target, lines.append)
    assert "already present" in lines[-1]


def test_fetch_refuses_what_has_another_checksum(publisher: tuple[Path, str], tmp_path: Path) -> None:
    """An error page, or an edited set, must not become data."""
    folder, address = publisher
    (folder / "german.data-numeric").write_bytes(b"<html>moved</html>")
    with pytest.raises(DataSetError) as caught:
        fetch(_recipe(f"{address}/german.data-numeric"), tmp_path / "data", lambda _: None)
    assert "wrong checksum" in caught.value.lines[0]
    assert not (tmp_path / "data").exists()


def test_fetch_without_a_network_says_so(tmp_path: Path) -> None:
    """One line for each source, and the likely reason."""
    with pytest.raises(DataSetError) as caught:
        fetch(_recipe("http://127.0.0.1:9/x.zip"), tmp_path / "data", lambda _: None)
    assert caught.value.lines == (
        "german.data-numeric: http://127.0.0.1:9/x.zip: no connection",
        "german.data-numeric: no source gave the file; check the network",
    )


def test_the_fetch_command_shows_how_to_use_what_it_fetched(publisher: tuple[Path, str], tmp_path: Path) -> None:
    """The command shows a bar while it downloads, then the line that makes `run` use the full set."""
    folder, address = publisher
    (folder / "german.data-numeric").write_bytes(_published(RECIPES["credit"]))
    recipe = _recipe(f"{address}/german.data-numeric")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(datasets, "RECIPES", {"credit": recipe})
        result = CliRunner().invoke(cli.main, ["fetch", "credit", "--into", str(tmp_path / "data")])
    assert result.exit_code == 0, result.output
    assert f"export {DATA_DIR_VARIABLE}={tmp_path / 'data'}" in result.output
    assert "102,000 bytes, checksum correct" in result.output


def test_a_cut_file_is_read_back(tmp_path: Path) -> None:
    """Loading is the inverse of cutting, with any version of xz."""
    recipe = RECIPES["credit"]
    file = cut.packed(recipe.cut([_published(recipe)]), recipe.packing)
    (tmp_path / "credit.xz").write_bytes(file)
    again = ShippedFile("credit.xz", hashlib.sha256(file).hexdigest(), recipe.shipped.content_sha256)
    assert hashlib.sha256(again.read(tmp_path)).hexdigest() == recipe.shipped.content_sha256
