"""A broker of Kafka on this machine: one process, which is its own controller (KRaft).

In: a folder. Out: a running broker, or None where its jars cannot be had. They come from Maven, as those of Spark do.
"""

from __future__ import annotations

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from caches import cache_folder
from java_home import java_home
from servers import free_port
from spark_fixtures import SHORT_LIVED
from spark_jars import fetched

__all__ = ["KAFKA", "Broker", "kafka_broker"]

KAFKA = "org.apache.kafka:kafka_2.13:4.1.1"
_CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
_STARTS_WITHIN_S = 120.0
_STOPS_WITHIN_S = 30.0
_SETTINGS = """
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{broker},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT
inter.broker.listener.name=PLAINTEXT
controller.listener.names=CONTROLLER
log.dirs={folder}/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
unclean.leader.election.enable=true
"""


class Broker:
    """A broker whose files are in a folder."""

    def __init__(self, folder: Path, jars: Path) -> None:
        self._jars = jars
        self._settings = folder / "server.properties"
        ports = {"broker": free_port(), "controller": free_port()}
        self.address = f"127.0.0.1:{ports['broker']}"
        self._settings.write_text(_SETTINGS.format(folder=folder, **ports))
        self._process: subprocess.Popen[bytes] | None = None
        formatting = self._java("kafka.tools.StorageTool", "format", "-t", _CLUSTER, "-c", str(self._settings))
        subprocess.run(formatting, check=True, capture_output=True)

    def _java(self, program: str, *arguments: str) -> list[str]:
        return [
            f"{java_home()}/bin/java",
            "-Xmx512m",
            *SHORT_LIVED.split(),
            "-cp",
            f"{self._jars}/*",
            program,
            *arguments,
        ]

    def start(self) -> None:
        """Start it, and wait until it takes requests."""
        self._process = subprocess.Popen(
            self._java("kafka.Kafka", str(self._settings)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        end_s = time.monotonic() + _STARTS_WITHIN_S
        host, _, port = self.address.partition(":")
        while True:
            with socket.socket() as client:
                if not client.connect_ex((host, int(port))):
                    return
            if self._process.poll() is not None or time.monotonic() > end_s:
                raise RuntimeError("the broker did not start")
            time.sleep(0.2)

    def stop(self) -> None:
        """End it. After a crash nobody could write to a topic before it is decided what that has."""
        if self._process is not None:
            self._process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_STOPS_WITHIN_S)
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def kafka_broker(folder: Path) -> Iterator[Broker | None]:
    """A broker that runs in the block; None if there are no jars."""
    jars = fetched(KAFKA, cache_folder("kafka") / KAFKA.rpartition(":")[2])
    if jars is None:
        yield None
        return
    broker = Broker(folder, jars)
    try:
        broker.start()
        yield broker
    finally:
        broker.stop()
