"""A server of Sail in this process, which only this machine reaches.

In: nothing. Out: its address.
"""

from __future__ import annotations

import functools
import os

from pysail.spark import SparkConnectServer

_servers: list[SparkConnectServer] = []
"""A server ends when nothing refers to it."""


@functools.cache
def server_url() -> str:
    """Where the process's server listens, which starts when it is first asked for."""
    os.environ.setdefault("RUST_LOG", "off")  # it would write to the program's own output
    server = SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _servers.append(server)
    return f"sc://127.0.0.1:{server.listening_address[1]}"
