"""Ctrl-C in a query, in a process of its own: the query ends, and so does the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import txlog

_PREPARED = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # which a shell in the background has ignored
import txlog
from txlog.cli import main
"""

_IN_THE_LIBRARY = """
print("begins")
try:
    txlog.sql({slow!r}, {folder!r}).read_all()
except KeyboardInterrupt:
    print("KeyboardInterrupt")
"""

_SLOW = "select sum(a.id * b.id + c.id) from t as a cross join t as b cross join t as c"

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("interrupts") / "warehouse"
    txlog.sql("create table t (id bigint)", found)
    txlog.Catalog(found).table("t").append(pa.table({"id": range(100_000)}))
    return found


def interrupted(code: str) -> tuple[int, str, str]:
    """The exit code and the output of a process that gets a SIGINT while a query that begins after its first line runs:
    its processor time grows."""
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", _PREPARED + code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        begun = _processor_s(process.pid)
        while process.poll() is None and _processor_s(process.pid) < begun + 1:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=60)
        return process.returncode, first + out, errors
    finally:
        process.kill()
        process.wait()


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_an_interrupt_of_a_query_is_a_keyboard_interrupt_and_the_process_ends(folder: Path) -> None:
    exit_code, out, errors = interrupted(_IN_THE_LIBRARY.format(slow=_SLOW, folder=str(folder)))
    assert (exit_code, out.split()) == (0, ["begins", "KeyboardInterrupt"]), errors


def test_an_interrupt_of_a_query_on_the_command_line_is_one_message_and_exit_code_130(folder: Path) -> None:
    script = f"select 7 as seven; {_SLOW}"
    code, _, errors = interrupted(f"sys.argv[1:] = ['sql', {script!r}, '--catalog', {str(folder)!r}]; main()")
    assert code == 130
    assert errors.startswith("Interrupted: ")
    assert len(errors.splitlines()) == 1
