"""`txlog serve` as a process of its own, and clients for it: for tests, the hunt and the benchmark."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as fl

__all__ = ["ServeProcess", "position", "putting", "serve"]


class ServeProcess:
    """A running service. ``flight`` and ``http`` are where it listens."""

    def __init__(self, *arguments: object) -> None:
        command = [sys.executable, "-m", "txlog", "serve", *map(str, arguments), "--json", "--quiet"]
        self.process = subprocess.Popen(
            [*command, "--flight-port", "0", "--http-port", "0"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        text = ""
        while not text.endswith("}\n"):
            line = self.process.stdout.readline()
            assert line, f"the service ended: {text}"
            text += line
        self.began = json.loads(text)
        self.flight, self.http = self.began["at"]

    def kill(self) -> None:
        """As a crash of the machine would, but for what the kernel still writes."""
        self.process.kill()
        self.process.wait()

    def stop(self) -> int:
        """Stop it as an operator does; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@contextlib.contextmanager
def serve(folder: Path | str, *arguments: object) -> Iterator[ServeProcess]:
    service = ServeProcess(folder, *arguments)
    try:
        yield service
    finally:
        service.kill()


def putting(client: Any, terms: dict[str, Any], schema: pa.Schema, options: Any = None) -> tuple[Any, Any]:
    """A call of `do_put`: its writer, and the reader of its answers."""
    descriptor = fl.FlightDescriptor.for_command(json.dumps(terms).encode())
    found: tuple[Any, Any] = client.do_put(descriptor, schema, options)
    return found


def position(client: Any, table: str, stream: str) -> dict[str, int]:
    """Where a stream stands."""
    asked = fl.Action("position", json.dumps({"table": table, "stream": stream}).encode())
    found: dict[str, int] = json.loads(next(iter(client.do_action(asked))).body.to_pybytes())
    return found
