"""The example of docs/extend.md, installed by pip as a package of its own: it is found by its entry points alone."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import deltalake
import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "extension"
USE = """
import pyarrow as pa
import txlog

assert not [name for name in sys.modules if "acme" in name]
place, journal = sys.argv[1:]
catalog = txlog.Catalog("acme://" + place)
schema = pa.schema([("id", pa.int64()), ("n", pa.int64()), ("day", pa.date32())])
table = catalog.create(
    "highs", schema, properties={"txlog.merge-engine": "GREATEST", "txlog.acme.journal": journal}
)
for n in (5, 3, 9, None):
    table.upsert(pa.table({"id": [1], "n": [n], "day": [None]}, schema=schema), keys=["id"])
print(catalog.location("highs"))
"""
OTHER = """
import pyarrow as pa
import txlog
for use in (
    lambda: txlog.Catalog("acme://" + sys.argv[1]),
    lambda: txlog.Table.open(sys.argv[2]).upsert(pa.table({"id": [1], "n": [1]}), ["id"]),
):
    try:
        use()
    except txlog.UnsupportedFeatureError as error:
        print(*error.features, "no installed package offers" in str(error))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pip")
    source = shutil.copytree(EXAMPLE, folder / "source", ignore=shutil.ignore_patterns("__pycache__"))
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", folder / "site", source]
    subprocess.run(command, check=True)
    return folder / "site"


def run(code: str, *arguments: object, path: Path | None = None) -> list[str]:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path is not None:
        environment["PYTHONPATH"] = str(path)
    command = [sys.executable, "-c", f"import sys\n{code}", *map(str, arguments)]
    run = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


def test_its_engine_catalog_and_follower_work_in_a_process_that_only_has_it_installed(
    site: Path, tmp_path: Path
) -> None:
    (tmp_path / "names").mkdir()
    journal = tmp_path / "journal.jsonl"
    (location,) = run(USE, tmp_path / "names", journal, path=site)
    assert deltalake.DeltaTable(location).to_pyarrow_table().to_pylist() == [{"id": 1, "n": 9, "day": None}]
    assert [json.loads(line)["version"] for line in journal.read_text().splitlines()] == [0, 1, 2, 3, 4]
    assert run(OTHER, tmp_path / "names", location) == ["acme True", "greatest True"]
    assert deltalake.DeltaTable(location).version() == 4


def test_it_is_small_and_imports_only_what_is_public() -> None:
    text = (EXAMPLE / "txlog_acme.py").read_text()
    assert len(text.splitlines()) < 100
    imports = [line.split()[1] for line in text.splitlines() if line.startswith("from txlog")]
    assert set(imports) == {"txlog.errors", "txlog.extend", "txlog.extend.merge_engines"}
