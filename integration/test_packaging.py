"""What a user installs: the wheel holds the library, its types and the module that Spark finds, and nothing else."""

from __future__ import annotations

import email
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import lowest
import pytest
import release
from lowest import constraints

import txlog

ROOT = Path(__file__).parent.parent

DISCOVER = "import pkgutil; print(*sorted(m.name for m in pkgutil.iter_modules() if m.name.startswith('pyspark_')))"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    build = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
        ".",
    ]
    subprocess.run(build, cwd=ROOT, check=True)
    return next(folder.glob("txlog_delta-*.whl"))


def test_the_wheel_holds_the_library_its_types_and_the_discovery_module(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    top_level = {name.split("/")[0] for name in names if ".dist-info/" not in name}
    assert top_level == {"txlog", "pyspark_txlog.py"}
    assert {"txlog/__init__.py", "txlog/py.typed"} <= set(names)
    assert not [name for name in names if name.startswith("txlog/spark/discovery")]


def test_the_wheel_holds_the_test_kit_but_not_the_schedule_explorer(wheel: Path) -> None:
    kit = {Path(name).stem for name in zipfile.ZipFile(wheel).namelist() if name.startswith("txlog/testing/")}
    stores = {"faulty_s3", "memory_store", "owned_versions", "unity_server"}
    assert kit == {"__init__", "contract", "faults", "stopped_clock", *stores}


def test_spark_would_find_the_data_source_of_the_wheel(wheel: Path, tmp_path: Path) -> None:
    unpacked = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(unpacked)
    run = [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(unpacked)!r}); {DISCOVER}"]
    found = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found.split() == ["pyspark_txlog"]


def test_spark_would_find_the_data_source_as_it_is_installed_here(tmp_path: Path) -> None:
    run = [sys.executable, "-c", DISCOVER]
    found = subprocess.run(run, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert found.split() == ["pyspark_txlog"]


def test_a_package_page_shows_the_version_of_the_code_and_no_link_that_leads_nowhere(wheel: Path) -> None:
    """A package index page has the text of README.md alone, and no other file."""
    archive = zipfile.ZipFile(wheel)
    name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    metadata = email.message_from_string(archive.read(name).decode())
    assert metadata["Version"] == txlog.__version__
    targets = re.findall(r"\]\(([^)]+)\)", str(metadata.get_payload()))
    assert targets
    assert [target for target in targets if not target.startswith(("#", "https://"))] == []
    headings = re.findall(r"^#+ (.*)$", str(metadata.get_payload()), re.MULTILINE)
    anchors = {"#" + re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert {target for target in targets if target.startswith("#")} <= anchors


def test_the_command_line_is_an_extra_that_development_has(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    needs = email.message_from_string(archive.read(name).decode()).get_all("Requires-Dist") or []
    assert sorted(need.split(">")[0] for need in needs if need.endswith("extra == 'cli'")) == ["rich", "typer"]
    developing = {re.split(r"[>=<]", need)[0] for need in needs if need.endswith("extra == 'dev'")}
    assert developing >= {"rich", "typer"}
    always = {re.split(r"[>=<]", need)[0] for need in needs if "extra ==" not in need}
    assert not always & {"rich", "typer"}
    assert {line.partition("==")[0] for line in constraints(lowest.PROJECT.read_text())} == always | {"rich", "typer"}


def test_release_notes_are_the_section_of_the_version() -> None:
    changelog = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.1.0 - 2026-12-01\n\n- first\n\n## 0.1\n\n- older\n"
    assert release.notes_of(changelog, "0.1.0") == "- first\n"
    assert release.notes_of(changelog, "0.1") == "- older\n"
    with pytest.raises(ValueError, match=r"needs a section ## 0.2.0"):
        release.notes_of(changelog, "0.2.0")


def test_the_changelog_has_a_section_for_the_version_of_the_code() -> None:
    assert release.notes_of((ROOT / "CHANGELOG.md").read_text(), txlog.__version__)
