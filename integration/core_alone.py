"""Runs the core's tests in a copy of the tree without extensions: integration/core_alone.py [pytest's arguments]

In: the checkout. Out: pytest's exit code. The copy has the core, the public modules beside it, the test kit, and the
checks of a table, by which the tests judge what the core wrote; its metadata offers the checks alone, as a package
without extensions would. So a test fails here if the core needs an extension. A test of the core that an extension
takes part in, such as one that clones a table, ends with the refusal of that extension: it counts as skipped, and the
summary says how many there are. There may only be fewer of them.
"""

from __future__ import annotations

import configparser
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

__all__ = ["STAY", "entry_points", "made"]

ROOT = Path(__file__).parent.parent
STAY = ("audit", "core", "extend", "result", "testing")
"""The packages of the copy: the core, what plugs others in, and what its tests judge by."""
HELPERS = (
    *("tests/*.py", "tests/core", "tests/simulation/explorer", "integration/*.py"),
    *("docs/*.md", "*.md", "Makefile", "pyproject.toml"),
)
NEED_MAX = 13
"""As many tests of the core end with the refusal of an extension that they use."""
_NEEDS = "needs an extension: "


def main(arguments: list[str]) -> int:
    copy = ROOT / "build" / "core-alone"
    shutil.rmtree(copy, ignore_errors=True)
    made(copy)
    what = [] if any(each.startswith("tests/") for each in arguments) else ["tests/core"]
    command = [sys.executable, "-m", "pytest", "-p", "core_alone", *what, *arguments]
    golden = os.environ.get("TXLOG_GOLDEN", str(ROOT.parent / "shared" / "golden"))
    path = os.pathsep.join(map(str, (copy, copy / "integration")))
    environment = {**os.environ, "PYTHONPATH": path, "TXLOG_GOLDEN": golden}
    return subprocess.run(command, cwd=copy, env=environment, check=False).returncode


def made(copy: Path) -> None:
    """Make the copy of the checkout, without extensions."""
    for path in (ROOT / "txlog").iterdir():
        if path.suffix == ".py" or path.name in STAY or path.name == "py.typed":
            _copied(path, copy / "txlog" / path.name)
    for name in HELPERS:
        for path in ROOT.glob(name):
            if path.is_dir() or not path.name.startswith("test_"):
                _copied(path, copy / path.relative_to(ROOT))
    metadata = copy / "txlog_delta-0.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: txlog-delta\nVersion: 0.0\n")
    (metadata / "entry_points.txt").write_text(entry_points((ROOT / "pyproject.toml").read_text()))


def entry_points(project: str) -> str:
    """Those of the packages that stay, as a distribution's metadata has them."""
    found: list[str] = []
    for group, body in re.findall(r'^\[project\.entry-points\."(txlog\.\w+)"\]\n(.*?)\n\n', project, re.M | re.S):
        own = configparser.ConfigParser(delimiters="=")
        own.optionxform = str  # type: ignore[method-assign, assignment]
        own.read_string(f"[{group}]\n{body}")
        lines = [f"{name} = {value}".replace('"', "") for name, value in own[group].items()]
        kept = [line for line in lines if line.partition(" = txlog.")[2].partition(".")[0] in STAY]
        found += [f"[{group}]", *kept, ""] if kept else []
    return "\n".join(found)


def _copied(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if path.is_dir():
        shutil.copytree(path, to, ignore=shutil.ignore_patterns("__pycache__"), dirs_exist_ok=True)
    else:
        shutil.copy(path, to)


# --- pytest's plugin in the copy -----------------------------------------------------------------------------------


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
    """A test that ends with the refusal of an extension is skipped, and says which."""
    outcome: Any = yield
    report = outcome.get_result()
    refused = report.failed and call.excinfo is not None and _refusal(call.excinfo.value)
    if refused:
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"{_NEEDS}{refused}")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    skipped = [each for each in terminalreporter.stats.get("skipped", ()) if _NEEDS in str(each.longrepr)]
    terminalreporter.write_line(f"{len(skipped)} tests of the core need an extension; {NEED_MAX} may")
    if len(skipped) > NEED_MAX:
        pytest.exit("more tests of the core than before need an extension: they belong to it, or to tests/doors", 1)


def _refusal(error: BaseException | None) -> str | None:
    """What was refused because no package offers it, also where a test expected another error."""
    from txlog.errors import InvalidInputError, UnsupportedFeatureError

    if error is None:
        return None
    if isinstance(error, UnsupportedFeatureError) and "no installed package offers" in str(error):
        return ", ".join(error.features)
    if isinstance(error, InvalidInputError) and "offered by installed packages" in str(error):
        return "a merge engine"
    return _refusal(error.__cause__ or error.__context__)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
