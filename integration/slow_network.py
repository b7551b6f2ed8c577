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

    def near_end() -> _End:
        near, far = _End(delay_s, count_sent), _End(delay_s, count_received)
        near.other, far.other, far.connecting = far, near, (host, port)
        return near

    asyncio.get_running_loop().add_reader(sys.stdin, report)
    server = await asyncio.get_running_loop().create_server(near_end, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


class _End(asyncio.Protocol):
    """One end of a connection. What arrives here is written at the other end when its delay has passed."""

    other: _End
    connecting: tuple[str, int] | None = None
    """Where this end connects to, once the other one is connected."""

    def __init__(self, delay_s: float, count: Callable[[bytes], None]) -> None:
        self._delay_s, self._count, self._loop = delay_s, count, asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.other.connecting is not None:
            transport.pause_reading()
            self._connected = self._loop.create_task(self._connect(transport, *self.other.connecting))

    async def _connect(self, transport: asyncio.Transport, host: str, port: int) -> None:
        try:
            await self._loop.create_connection(lambda: self.other, host, port)
        except OSError:
            transport.abort()
        else:
            transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        self._count(data)
        self._loop.call_later(self._delay_s, self.other.deliver, data)

    def connection_lost(self, error: Exception | None) -> None:
        self._loop.call_later(self._delay_s, self.other.end)

    def deliver(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    def end(self) -> None:
        if self._transport is not None:
            self._transport.close()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
