"""The state machine of the unit tests, over many more sequences of operations than a developer waits for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

EXAMPLES = 60


def test_many_long_sequences_leave_what_the_dictionary_says() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "tests/test_state_machine.py"],
        cwd=Path(__file__).parent.parent,
        env=os.environ | {"TXLOG_STATE_MACHINE_EXAMPLES": str(EXAMPLES)},
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert "1 passed" in run.stdout
