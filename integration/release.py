"""Build a release and prove that it can be installed: ``python integration/release.py``; it publishes nothing.

In: a checkout. Out: ``dist/`` with the wheel, the source distribution, and ``RELEASE_NOTES.md`` from the CHANGELOG. The
package index would render the README, each Python that is here installs the wheel into an empty environment, and a
table is written and read there by the library and by the command.
"""

from __future__ import annotations

import email
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
PYTHONS = ("python3.10", "python3.11", "python3.12", "python3.13", "python3.14")

FIRST_TABLE = """
import sys
import pyarrow as pa
import txlog

uri, version = sys.argv[1:]
assert txlog.__version__ == version, txlog.__version__
table = txlog.Table.create(uri, "id bigint not null, name string")
table.append(pa.table({"id": [1, 2], "name": ["a", "b"]}))
table.upsert(pa.table({"id": [2, 3], "name": ["c", "d"]}), "id")
rows = sorted(table.to_arrow().to_pylist(), key=lambda row: row["id"])
assert [row["name"] for row in rows] == ["a", "c", "d"], rows
"""


def notes_of(changelog: str, version: str) -> str:
    """The section of a version, without its heading. Raises ``ValueError`` if there is none, or nothing in it."""
    found = re.search(rf"^## {re.escape(version)}(?: [^\n]*)?\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    text = found[1].strip() if found else ""
    if not text:
        raise ValueError(f"CHANGELOG.md says nothing about {version}: a release needs a section ## {version}")
    return text + "\n"


def problems_of(metadata: str, version: str) -> list[str]:
    """What a package page would lack."""
    page = email.message_from_string(metadata)
    found = []
    if page["Version"] != version:
        found.append(f"the wheel's version is {page['Version']}, not {version}")
    if page["Description-Content-Type"] != "text/markdown":
        found.append("the README would not be rendered")
    if not page.get_all("Project-URL"):
        found.append("pyproject.toml has no [project.urls]: the page would link to no repository and no documentation")
    return found


def interpreters() -> list[str]:
    """The oldest and the newest of the Pythons that are here."""
    found = []
    for name in PYTHONS:
        command = shutil.which(name)
        if command and subprocess.run([command, "--version"], capture_output=True).returncode == 0:
            found.append(command)
    found = found or [sys.executable]
    return [found[0], *found[1:][-1:]]


def build(tools: Path) -> tuple[Path, Path]:
    """The wheel and the source distribution."""
    shutil.rmtree(DIST, ignore_errors=True)
    python = environment(sys.executable, tools, "build", "twine", "hatchling>=1.25")
    run(python, "-m", "build", "--outdir", DIST, ROOT)
    run(python, "-m", "twine", "check", "--strict", *DIST.iterdir())
    return next(DIST.glob("*.whl")), next(DIST.glob("*.tar.gz"))


def install_and_use(interpreter: str, wheel: Path, version: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        python = environment(interpreter, Path(folder, "environment"), f"{wheel}[cli]")
        run(python, "-c", FIRST_TABLE, f"{folder}/a table", version, cwd=folder)
        run(python.with_name("txlog"), "verify", f"{folder}/a table", cwd=folder)


def environment(interpreter: str, folder: Path, *packages: str) -> Path:
    """A new virtual environment with these packages; its Python."""
    run(interpreter, "-m", "venv", folder)
    python = folder / "bin" / "python"
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *packages)
    return python


def run(*command: object, cwd: object = ROOT) -> None:
    subprocess.run([str(each) for each in command], cwd=str(cwd), check=True)


def main() -> int:
    version = re.findall(r'^__version__ = "(.*)"', (ROOT / "txlog" / "__init__.py").read_text(), re.MULTILINE)[0]
    notes = notes_of((ROOT / "CHANGELOG.md").read_text(), version)
    with tempfile.TemporaryDirectory() as folder:
        wheel, _ = build(Path(folder))
    (DIST / "RELEASE_NOTES.md").write_text(notes)
    archive = zipfile.ZipFile(wheel)
    name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
    lacks = problems_of(archive.read(name).decode(), version)
    for interpreter in interpreters():
        print(f"installing {wheel.name} with {interpreter}", flush=True)
        install_and_use(interpreter, wheel, version)
    for lack in lacks:
        print(f"Before it is published: {lack}")
    print(
        f"{version} is in {DIST}, with RELEASE_NOTES.md. Nothing was published: twine upload dist/*.whl dist/*.tar.gz"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
