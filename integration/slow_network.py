"""A slow network before a server on loopback: every byte arrives later, in both directions.

In: the server's address and the delay of one direction in seconds. Out: an address for clients, and how many requests
and bytes passed. It runs in its own process, so neither the clients nor the server wait for its Python.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple
from urllib.parse import urlsplit

__all__ = ["SlowNetwork", "Traffic", "slow_network"]

_CHUNK_BYTES = 1 << 18
_REQUEST = re.compile(rb"(DELETE|GET|HEAD|POST|PUT) [^\r\n]* HTTP/1\.1\r\n")


class Traffic(NamedTuple):
    """What passed: requests, bytes of clients and bytes of the server, with their headers."""

    requests: int
    sent_bytes: int
    received_bytes: int


class SlowNetwork:
    """A running network. ``url`` is the server's address on the near side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.url = f"http://127.0.0.1:{int(self._answer())}"

    def traffic(self) -> Traffic:
        """What passed since the network began, or since the last call."""
        assert self._process.stdin is not None
        print(file=self._process.stdin, flush=True)
        return Traffic(*json.loads(self._answer()))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()


@contextmanager
def slow_network(server_url: str, delay_s: float) -> Iterator[SlowNetwork]:
    """A network before ``server_url`` that takes ``delay_s`` each way, for the length of the block."""
    place = urlsplit(server_url)
    command = [sys.executable, __file__, str(place.hostname), str(place.port), str(delay_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield SlowNetwork(process)
        finally:
            process.kill()


async def _serve(host: str, port: int, delay_s: float) -> None:
    passed = [0, 0, 0]

    def count_sent(data: bytes) -> None:
        passed[0] += bool(_REQUEST.match(data))  # clients wait for an answer before they send the next one
        passed[1] += len(data)

    def count_received(data: bytes) -> None:
        passed[2] += len(data)

    def report() -> None:
        if not sys.stdin.readline():
            asyncio.get_running_loop().remove_reader(sys.stdin)
            return
        print(json.dumps(passed), flush=True)
        passed[:] = 0, 0, 0

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        await asyncio.gather(
            _carry(reader, far_writer, delay_s, count_sent),
            _carry(far_reader, writer, delay_s, count_received),
            return_exceptions=True,
        )

    asyncio.get_running_loop().add_reader(sys.stdin, report)
    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _carry(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float, count: Callable[[bytes], None]
) -> None:
    """Each chunk is written when its delay has passed; chunks follow each other without a gap."""
    loop, last = asyncio.get_running_loop(), b"-"
    try:
        while last:
            last = await reader.read(_CHUNK_BYTES)
            count(last)
            loop.call_later(delay_s, _deliver, writer, last)
    except OSError:
        loop.call_later(delay_s, _deliver, writer, b"")


def _deliver(writer: asyncio.StreamWriter, data: bytes) -> None:
    if data:
        writer.write(data)
    else:
        writer.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
