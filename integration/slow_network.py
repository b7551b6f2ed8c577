"""A slow network before a server on loopback: every byte arrives later, in both directions.

In: the server's address and the delay of one direction in seconds. Out: an address for clients. It runs as a process of
its own, so that neither the clients nor the server wait for its Python.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

__all__ = ["slow_network"]

_CHUNK_BYTES = 1 << 18


@contextmanager
def slow_network(server_url: str, delay_s: float) -> Iterator[str]:
    """The address of a network before ``server_url`` that takes ``delay_s`` each way, for the length of the block."""
    place = urlsplit(server_url)
    command = [sys.executable, __file__, str(place.hostname), str(place.port), str(delay_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


async def _serve(host: str, port: int, delay_s: float) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(host, port)
        await asyncio.gather(
            _carry(reader, far_writer, delay_s), _carry(far_reader, writer, delay_s), return_exceptions=True
        )

    server = await asyncio.start_server(connected, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay_s: float) -> None:
    """Each chunk is written when its delay has passed; chunks follow each other without a gap."""
    loop, last = asyncio.get_running_loop(), b"-"
    try:
        while last:
            last = await reader.read(_CHUNK_BYTES)
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
