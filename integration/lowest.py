"""The lowest version of each package that pyproject.toml allows, as constraints for pip: what `make lowest` installs.

In: pyproject.toml. Out: a line ``name==version`` for each dependency of txlog and of its extra ``cli``. Read as text,
since Python 3.10 has no reader of TOML.
"""

from __future__ import annotations

import re
from pathlib import Path

PROJECT = Path(__file__).parent.parent / "pyproject.toml"


def constraints(text: str) -> list[str]:
    lists = re.findall(r"^(?:dependencies|cli) = \[(.*?)\]", text, re.MULTILINE | re.DOTALL)
    assert len(lists) == 2, "dependencies, and the extra cli"
    return [f"{name}=={version}" for name, version in re.findall(r'"([\w-]+)>=([\d.]+)"', "".join(lists))]


if __name__ == "__main__":
    print("\n".join(constraints(PROJECT.read_text())))
