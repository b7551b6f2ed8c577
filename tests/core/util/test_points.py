"""Points where packages plug in, with packages that are installed as pip installs them."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from tests.packages import hide, install
from txlog.core.points import Point
from txlog.errors import UnsupportedFeatureError

POINT: Point[str] = Point("txlog.test_shapes", "a shape")


@pytest.fixture
def acme(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shapes = {"circle": "acme_shapes:CIRCLE", "square": "acme_square:SQUARE", "lost": "acme_shapes:LOST"}
    modules = {"acme_shapes": "CIRCLE = 'round'", "acme_square": "import a_package_that_nobody_has"}
    install(monkeypatch, tmp_path, "acme-shapes", {POINT.group: shapes}, modules)


@pytest.mark.usefixtures("acme")
def test_what_an_installed_package_offers_is_found_by_its_name() -> None:
    assert POINT.get("circle") == "round"
    assert POINT.load("circle") == "round"
    assert POINT.names() == ("circle", "lost", "square")


@pytest.mark.usefixtures("acme")
def test_asking_for_names_imports_nothing() -> None:
    assert "square" in POINT.names()
    assert not {"acme_shapes", "acme_square"} & set(sys.modules)


@pytest.mark.usefixtures("acme")
def test_a_name_that_no_package_offers_is_an_error_that_says_what_there_is_and_what_to_do() -> None:
    assert POINT.get("triangle") is None
    with pytest.raises(UnsupportedFeatureError) as raised:
        POINT.load("triangle", "drawing a roof")
    assert str(raised.value) == (
        "drawing a roof needs a shape 'triangle', which no installed package offers (as an entry point of the group"
        " txlog.test_shapes). Install the package that has it in this environment; there are circle, lost, square"
    )
    assert raised.value.features == ("triangle",)
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)


@pytest.mark.usefixtures("acme")
def test_a_package_that_cannot_be_imported_is_named_with_the_reason() -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"acme-shapes.*acme_square:SQUARE.*a_package_that_nobody_has"):
        POINT.get("square")
    with pytest.raises(UnsupportedFeatureError, match=r"acme-shapes.*AttributeError.*LOST"):
        POINT.load("lost")


@pytest.mark.usefixtures("acme")
def test_two_packages_that_offer_one_name_are_both_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    install(monkeypatch, tmp_path, "zenith", {POINT.group: {"circle": "zenith:RING"}}, {"zenith": "RING = 'ring'"})
    with pytest.raises(UnsupportedFeatureError, match=r"acme-shapes \(acme_shapes:CIRCLE\), zenith \(zenith:RING\)"):
        POINT.get("circle")


def test_a_package_that_is_installed_while_the_process_runs_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert POINT.get("late") is None
    place = tmp_path / "site"
    (place / "late-1.0.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(place))
    assert POINT.get("late") is None
    (place / "late-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: late\nVersion: 1.0\n")
    (place / "late-1.0.dist-info" / "entry_points.txt").write_text(f"[{POINT.group}]\nlate = late_shape:NEW\n")
    (place / "late_shape.py").write_text("NEW = 'new'")
    assert POINT.load("late") == "new"


@pytest.mark.usefixtures("acme")
def test_an_entry_point_that_is_hidden_is_not_offered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert POINT.get("circle") == "round"
    hide(monkeypatch, f"{POINT.group}:circle")
    assert POINT.get("circle") is None


def test_an_import_from_a_folder_without_metadata_is_told_as_the_reason(tmp_path: Path) -> None:
    (tmp_path / "txlog").symlink_to(Path(__file__).parents[3] / "txlog")
    code = f"""
import sys
sys.path[:0] = [{str(tmp_path)!r}]
import importlib.metadata as metadata
found = metadata.MetadataPathFinder.find_distributions
def without(context=metadata.DistributionFinder.Context()):
    return [each for each in found(context) if each.metadata["Name"] != "txlog-delta"]
metadata.MetadataPathFinder.find_distributions = staticmethod(without)
from txlog.core.points import Point
try:
    Point("txlog.catalogs", "a catalog").load("glue")
except Exception as error:
    print(type(error).__name__, error)
"""
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.startswith("UnsupportedFeatureError a catalog 'glue' is what no installed package offers")
    assert "without the metadata of txlog-delta" in told


def test_commands_on_a_plain_table_never_ask_what_is_installed(tmp_path: Path) -> None:
    """A vacuum does: a package may keep files of the table."""
    code = f"""
import pyarrow as pa
import txlog
from txlog.core import points
def asked():
    raise AssertionError("a plain table asked what is installed")
points._read = asked
table = txlog.Table.create({str(tmp_path / "t")!r}, pa.schema([("id", pa.int64()), ("v", pa.string())]))
table.append(pa.table({{"id": [1, 2], "v": ["a", "b"]}}))
table.upsert(pa.table({{"id": [2, 3], "v": ["c", "d"]}}), keys=["id"])
table.delete("id = 1")
table.optimize()
print(sorted(table.to_arrow()["v"].to_pylist()), points._offers)
"""
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.stdout == "['c', 'd'] None\n", run.stderr
