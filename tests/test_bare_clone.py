"""The suite with nothing next to the checkout: tests that need golden tables are skipped and say so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import golden
import pytest

ROOT = Path(__file__).parent.parent
USERS = sorted(
    str(path.relative_to(ROOT))
    for folder in ("tests", "integration")
    for path in (ROOT / folder).rglob("test_*.py")
    if re.search(r"^import golden|^from golden import|\bgolden_lines\b", path.read_text(), re.MULTILINE)
    and path != Path(__file__)
)

# Of those files, the tests that use golden tables: no other test is run a second time.
RUN = """
import inspect, sys
import golden, pytest

class OnlyGolden:
    def pytest_collection_modifyitems(self, items):
        items[:] = [item for item in items if self.is_golden(item)]

    def is_golden(self, item):
        whole_file = any(mark is golden.needed.mark for mark in item.iter_markers("skipif"))
        return whole_file or "golden" in inspect.getsource(item.function)

sys.exit(pytest.main(sys.argv[1:], plugins=[OnlyGolden()]))
"""


def test_without_golden_tables_every_test_that_needs_them_is_skipped_and_none_fails(tmp_path: Path) -> None:
    hidden = tmp_path / "no archives here"
    run = subprocess.run(
        [sys.executable, "-c", RUN, *USERS, "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short"],
        cwd=ROOT,
        env={**os.environ, "TXLOG_GOLDEN": str(hidden), "PYTHONPATH": str(ROOT / "integration")},
        capture_output=True,
        text=True,
        check=False,
    )
    last = run.stdout.strip().splitlines()[-1]
    assert run.returncode == 0, run.stdout[-6000:] + run.stderr[-2000:]
    assert not re.search(r"failed|error", last), last
    skipped = re.search(r"(\d+) skipped", last)
    assert skipped is not None
    assert int(skipped[1]) >= len(USERS)
    assert f"NOT TESTED: on golden tables: none are at {hidden}" in run.stdout


def test_an_archive_that_is_opened_where_there_are_none_skips_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(golden, "NAMES", ())
    with pytest.raises(pytest.skip.Exception, match="NOT TESTED: on golden tables"), golden.opened("type-widening"):
        pass
