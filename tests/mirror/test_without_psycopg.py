"""Where psycopg is not installed, events can be followed, and a database's mirror says what is missing."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
sys.modules["psycopg"] = None
from txlog.mirror.events import EventMirror
from txlog.errors import InvalidInputError
try:
    import txlog.mirror.postgres
except InvalidInputError as error:
    print(error)
"""


def test_only_a_database_needs_psycopg_and_the_error_says_how_to_install_it() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert "psycopg, which is not installed" in run.stdout
    assert "[mirror]" in run.stdout
