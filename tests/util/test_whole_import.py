"""A signal handler that raises in the middle of a first import breaks nothing: the same call works afterwards."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import txlog

# Each child is a fork of a process that has imported pyarrow and txlog, and nothing that the call needs.
_INTERRUPTED_AT_EVERY_IMPORT = """
import os, signal, sys, threading, traceback
{before}
import txlog

counted, at = 0, 0

def interrupt(event, arguments):
    global counted
    if event == "import" and threading.current_thread() is threading.main_thread():
        counted += 1
        if counted == at:
            signal.raise_signal(signal.SIGINT)

sys.addaudithook(interrupt)

def call():
    {call}

def child(number):
    global counted, at
    counted, at = 0, number
    try:
        call()
        was_interrupted = False
    except KeyboardInterrupt:
        was_interrupted = True
    imports, at = counted, 0
    if was_interrupted:
        call()
    return imports

def in_a_fork(number):
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            answer = str(child(number))
        except BaseException:
            answer = traceback.format_exc()
        os.write(writer, answer[-4000:].encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answers:
        answer = answers.read()
    os.waitpid(process, 0)
    return answer

imports = int(in_a_fork(0))
tried = sorted({{1 + imports * part // {tries} for part in range({tries})}})
for number in tried:
    answer = in_a_fork(number)
    if not answer.isdigit():
        sys.exit(f"interrupted at import {{number}} of {{imports}}: {{answer}}")
print(len(tried))
"""

_CALLS = {
    "condition": "txlog.Table.open(PATH).to_arrow(where='id > 1 and name like \\'a%\\'')",
    "schema": "txlog.Table.create(PATH + str(os.getpid()) + str(counted), 'id bigint')",
    "append": "txlog.Table.open(PATH).append(pyarrow.table({'id': [7], 'name': ['g']}))",
    "delete": "txlog.Table.open(PATH).delete('id = 7')",
    "update": "txlog.Table.open(PATH).update({'name': '\\'x\\''}, 'id = 2')",
    "upsert": "txlog.Table.open(PATH).upsert(pyarrow.table({'id': [1], 'name': ['z']}), ['id'])",
    "optimize": "txlog.Table.open(PATH).optimize()",
    "checkpoint": "txlog.Table.open(PATH).create_checkpoint()",
}


@pytest.mark.skipif(sys.platform == "win32", reason="forks")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=() if name in ("append", "update") else pytest.mark.hunt(part="ends"))
        for name in _CALLS
    ],
)
def test_a_call_works_after_an_interrupt_in_any_of_its_first_imports(name: str, tmp_path: Path) -> None:
    path = str(tmp_path / "table")
    table = txlog.Table.create(path, pa.schema([("id", pa.int64()), ("name", pa.string())]))
    for number in range(3):
        table.append(pa.table({"id": [number], "name": ["a"]}))

    _try(f"PATH = {path!r}\nimport pyarrow", _CALLS[name])


def _try(before: str, call: str, tries: int = 6) -> None:
    script = _INTERRUPTED_AT_EVERY_IMPORT.format(before=before, call=call, tries=tries)
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) > 1
