"""S3 servers on loopback for the integration tests: localbucket and, in the hunt, versitygw and MinIO if available.

`go_servers` builds the latter. Without the binary and without Go, their tests are skipped with a message; with
CI=true, a failed build is a failure.
"""

from __future__ import annotations

import itertools
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from go_servers import GO_PACKAGES, ServerUnavailable, go_binary

from txlog.core import ambient

__all__ = [
    "S3Location",
    "S3Server",
    "any_s3_location",
    "any_s3_server",
    "free_port",
    "running",
    "s3_location",
    "s3_server",
    "start_server",
]

SERVERS = ("localbucket", *(pytest.param(name, marks=pytest.mark.hunt(part="clouds")) for name in GO_PACKAGES))

# It writes an answer in two pieces: without the first setting, the second waits 40 ms for the client to acknowledge the
# first. Its queue holds five connections: without the second setting, a sixth is tried again after a second.
LOCALBUCKET = """
from socketserver import StreamRequestHandler, TCPServer
StreamRequestHandler.disable_nagle_algorithm = True
TCPServer.request_queue_size = 128
from localbucket import main
main()
"""

ACCESS_KEY = "txlog-test-access"
SECRET_KEY = "txlog-test-secret"
BUCKET = "tables"
START_TIMEOUT_S = 60.0

_locations = itertools.count()


@dataclass(frozen=True, slots=True)
class S3Server:
    """A running server with one empty bucket."""

    name: str
    url: str
    objects: Path
    bucket: str = BUCKET

    @property
    def storage_options(self) -> dict[str, str]:
        return {
            "endpoint_url": self.url,
            "allow_http": "true",
            "access_key_id": ACCESS_KEY,
            "secret_access_key": SECRET_KEY,
            "region": "us-east-1",
        }

    def new_location(self) -> S3Location:
        """A separate place for one test."""
        key = f"test-{next(_locations)}/a table"
        return S3Location(f"s3://{self.bucket}/{key}", self.storage_options, self.objects / self.bucket / key)


@dataclass(frozen=True, slots=True)
class S3Location:
    """Where one test's table goes, how to get there, and where localbucket keeps its files."""

    uri: str
    storage_options: dict[str, str]
    folder: Path | None = None


@contextmanager
def start_server(name: str, directory: Path) -> Iterator[S3Server]:
    """The server called ``name``, its objects below ``directory``, ended with the block. Raises ServerUnavailable."""
    port = free_port()
    objects = directory / "objects"
    (objects / BUCKET).mkdir(parents=True)
    secrets = {"MINIO_ROOT_USER": ACCESS_KEY, "MINIO_ROOT_PASSWORD": SECRET_KEY}
    with running(_command(name, objects, port), f"http://127.0.0.1:{port}", directory, secrets) as url:
        yield S3Server(name, url, objects)


@contextmanager
def running(
    command: Sequence[str], url: str, directory: Path, environment: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The server that this command starts at ``url``, which is ready, ended with the block. Its log is in
    ``directory``."""
    with ExitStack() as stack:
        log = stack.enter_context((directory / "server.log").open("wb"))
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, **(environment or {})},
        )
        stack.callback(_end, process)
        _wait_until(lambda: _is_ready(process, url), f"{command[0]} did not start; see {directory / 'server.log'}")
        yield url


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """localbucket: there wherever the tests are."""
    with start_server("localbucket", tmp_path_factory.mktemp("localbucket")) as server:
        yield server


@pytest.fixture(scope="session", params=SERVERS)
def any_s3_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """Each of the servers in turn."""
    try:
        with start_server(request.param, tmp_path_factory.mktemp(request.param)) as server:
            yield server
    except ServerUnavailable as error:
        pytest.skip(f"NOT TESTED: against {request.param}: {error}")


@pytest.fixture
def s3_location(s3_server: S3Server) -> S3Location:
    return s3_server.new_location()


@pytest.fixture
def any_s3_location(any_s3_server: S3Server) -> S3Location:
    return any_s3_server.new_location()


def _command(name: str, objects: Path, port: int) -> list[str]:
    if name == "localbucket":
        return [sys.executable, "-c", LOCALBUCKET, str(objects), "--host", "127.0.0.1", "--port", str(port)]
    binary = str(go_binary(name))
    if name == "versitygw":
        return [
            binary,
            "--access",
            ACCESS_KEY,
            "--secret",
            SECRET_KEY,
            "--port",
            f"127.0.0.1:{port}",
            "posix",
            str(objects),
        ]
    return [binary, "server", "--quiet", "--address", f"127.0.0.1:{port}", str(objects)]


def free_port() -> int:
    """A port that no server listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def _is_ready(process: subprocess.Popen[bytes], url: str) -> bool:
    if process.poll() is not None:
        raise RuntimeError(f"the server ended with code {process.returncode}")
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError as error:
        return error.code < 500  # refusing an unsigned request is an answer; 503 is a server still starting
    except OSError:
        return False
    return True


def _wait_until(is_so: Callable[[], bool], otherwise: str) -> None:
    deadline_s = ambient.monotonic_s() + START_TIMEOUT_S
    while not is_so():
        if ambient.monotonic_s() > deadline_s:
            raise TimeoutError(otherwise)
        ambient.sleep(0.05)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()  # it has nothing that is needed later; Azurite, asked to end, first saves for six seconds
    process.wait()
