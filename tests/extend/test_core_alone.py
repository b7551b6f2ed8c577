"""The core without any extension: its tests import none, and it works and refuses what it cannot do.

`make test-core` runs all of the core's tests in such a copy, which the hunt does too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

from core_alone import STAY, entry_points, made

ROOT = Path(__file__).parents[2]
OF_EXTENSIONS = {"sql", "spark", "convert"}
"""Names of `txlog` itself that an extension brings."""
USE = """
import sys
import pyarrow as pa
import txlog

folder = sys.argv[1]
rows = pa.table({"id": [1, 2], "n": [10, 20]})
table = txlog.Table.create(f"{folder}/t", rows.schema, properties={"delta.enableDeletionVectors": "true"})
table.append(rows)
table.upsert(pa.table({"id": [2, 3], "n": [21, 30]}), ["id"])
table.merge(pa.table({"id": [4], "n": [40]}), ["id"]).when_not_matched_insert_all().execute()
table.update({"n": txlog.expr("n + 1")}, "id = 1")
table.delete("id = 3")
sink = txlog.Sink(table, "app")
sink.once("a", pa.table({"id": [5], "n": [50]}))
table.optimize()
table.vacuum()
assert sorted(table.to_arrow()["n"].to_pylist()) == [11, 21, 40, 50]
assert table.verify().is_sound
refused = {
    "merged": lambda: txlog.Table.open(f"{folder}/merged").upsert(rows, ["id"]),
    "merged, redefined": lambda: txlog.Table.open(f"{folder}/merged").set_properties({"delta.appendOnly": "false"}),
    "tombstones": lambda: txlog.Table.open(f"{folder}/tombstones").purge(),
    "exported": lambda: txlog.Table.open(f"{folder}/exported").append(rows),
    "kinds": lambda: table.upsert(rows, ["id"], row_kind="n"),
    "changes": lambda: txlog.Sink(table, "b", mode="upsert", keys=["id"]),
    "catalog": lambda: txlog.Catalog("glue://"),
    "clone": lambda: table.clone(f"{folder}/copy"),
}
for what, do in refused.items():
    try:
        do()
    except txlog.UnsupportedFeatureError as error:
        assert "no installed package offers" in str(error), error
    else:
        print(what, "was not refused")
assert [name.partition(".")[0] for name in sys.modules if name.startswith("txlog.") and "changelog" in name] == []
print("done")
"""
NEED_EXTENSIONS = """
import sys
import pyarrow as pa
import txlog

folder = sys.argv[1]
rows = pa.table({"id": [1, 2], "n": [10, 20]})
vectors = {"delta.enableDeletionVectors": "true", "txlog.sequence.field": "n"}
for name, properties in {
    "merged": {"txlog.merge-engine": "aggregation"},
    "tombstones": {**vectors, "txlog.merge-engine": "deduplicate", "txlog.tombstone-retention": "interval 1 day"},
    "exported": {"txlog.iceberg": "v2"},
}.items():
    txlog.Table.create(f"{folder}/{name}", rows.schema, properties=properties).append(rows)
"""


def test_tests_of_the_core_import_no_extension() -> None:
    there = {path.name for path in (ROOT / "txlog").iterdir() if path.is_dir() and not path.name.startswith("__")}
    extensions = {*(f"txlog.{name}" for name in there - set(STAY)), "txlog.extend.cli", "txlog.extend.merge_engines"}
    found = []
    for path in sorted((ROOT / "tests" / "core").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            names: list[str] = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Attribute) and node.attr in OF_EXTENSIONS and ast.unparse(node.value) == "txlog":
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}")
            found += [
                f"{path.relative_to(ROOT)}:{node.lineno}: {name}"
                for name in names
                if any(f"{name}.".startswith(f"{extension}.") for extension in extensions)
            ]
    assert found == []


def test_the_core_alone_does_its_work_and_refuses_tables_that_need_an_extension(tmp_path: Path) -> None:
    made(tmp_path / "core")
    run = [sys.executable, "-c"]
    subprocess.run([*run, NEED_EXTENSIONS, str(tmp_path)], cwd=ROOT, check=True)
    done = subprocess.run([*run, USE, str(tmp_path)], cwd=tmp_path / "core", capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("done\n", 0), done.stderr


def test_the_copy_offers_what_stays_in_it_and_nothing_else() -> None:
    text = entry_points((ROOT / "pyproject.toml").read_text())
    assert "verify = txlog.audit.verify_table:verify" in text
    assert "txlog.changelog" not in text
