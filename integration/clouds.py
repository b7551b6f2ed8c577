"""Servers on loopback for the other two clouds: Azurite, Microsoft's emulator, and a stand-in for Google's store.

Azurite is an npm package. It is installed once for this machine into the folder of `caches`; a process that comes while
another one installs it waits. Without npm its tests are skipped, saying so; with CI=true a failure is a failure. What
stands in for Google says itself what it is (`google_stand_in`).
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import hmac
import itertools
import json
import os
import shutil
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

import pytest
from caches import cache_folder
from go_servers import ServerUnavailable
from servers import BUCKET, S3Location, free_port, running

__all__ = ["CLOUDS", "Cloud", "cloud", "cloud_location", "start_cloud"]

AZURITE = "azurite@3.37.0"
INSTALL_TIMEOUT_S = 600.0
CLOUDS = ("azurite", "google-stand-in", "google-stand-in-in-trouble")
TROUBLE = 0.05
"""The share of requests that a store in trouble refuses, or does not answer after it has done them."""

# Those that every Azurite has, as its documentation says.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="

_locations = itertools.count()


@dataclass(frozen=True, slots=True)
class Cloud:
    """A running server with one empty bucket, or container. ``url`` has no path."""

    name: str
    url: str

    @property
    def scheme(self) -> str:
        return "az" if self.name == "azurite" else "gs"

    @property
    def storage_options(self) -> dict[str, str]:
        if self.name != "azurite":
            return {"endpoint_url": self.url, "bearer_token": "a token that nobody checks", "allow_http": "true"}
        account = {"account_name": ACCOUNT, "account_key": ACCOUNT_KEY}
        return {"endpoint_url": f"{self.url}/{ACCOUNT}", **account, "allow_http": "true"}

    @property
    def options_of_deltalake(self) -> dict[str, str]:
        """It is told another server of Google by the key file of an account, here of one that needs no token."""
        if self.name == "azurite":
            return {**self.storage_options, "endpoint": self.storage_options["endpoint_url"]}
        no_key = dict.fromkeys(("client_email", "private_key", "private_key_id"), "")
        account = {"gcs_base_url": self.url, "disable_oauth": True, **no_key}
        return {"service_account_key": json.dumps(account), "allow_http": "true"}

    def new_location(self) -> S3Location:
        """A place of its own for one test."""
        return S3Location(f"{self.scheme}://{BUCKET}/test-{next(_locations)}/a table", self.storage_options)


@contextmanager
def start_cloud(name: str, directory: Path) -> Iterator[Cloud]:
    """The server called ``name``, ended with the block. Raises ServerUnavailable."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    if name == "azurite":
        place = ["--blobHost", "127.0.0.1", "--blobPort", str(port), "--location", str(directory)]
        with running([*_azurite(), *place, "--silent"], url, directory):
            _create_container(f"{url}/{ACCOUNT}")
            yield Cloud(name, url)
        return
    program = str(Path(__file__).parent / "google_stand_in.py")
    trouble = str(TROUBLE if name.endswith("-in-trouble") else 0.0)
    with running([sys.executable, program, str(port), "--trouble", trouble], url, directory):
        yield Cloud(name, url)


@pytest.fixture(
    scope="session",
    params=[pytest.param(name, marks=pytest.mark.hunt(part="clouds")) for name in CLOUDS],
)
def cloud(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    """Each of the servers in turn."""
    try:
        with start_cloud(request.param, tmp_path_factory.mktemp(request.param)) as server:
            yield server
    except ServerUnavailable as error:
        pytest.skip(f"NOT TESTED: against {request.param}: {error}")


@pytest.fixture
def cloud_location(cloud: Cloud) -> S3Location:
    return cloud.new_location()


def _azurite() -> list[str]:
    """The command that starts Azurite, installed first if it is not there. Raises ServerUnavailable."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        raise ServerUnavailable("there is no Node.js with npm, which Azurite is written for")
    folder = cache_folder("azurite")
    program = folder / AZURITE / "node_modules" / "azurite" / "dist" / "src" / "blob" / "main.js"
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            _install(npm, folder)
    return [node, str(program)]


def _install(npm: str, folder: Path) -> None:
    """Under another name until it is whole."""
    installing = folder / ".installing"
    shutil.rmtree(installing, ignore_errors=True)
    installed = subprocess.run(
        [npm, "install", "--prefix", str(installing), "--no-audit", "--no-fund", AZURITE],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INSTALL_TIMEOUT_S,
        check=False,
    )
    if installed.returncode != 0:
        kind = RuntimeError if os.environ.get("CI") == "true" else ServerUnavailable
        raise kind(f"npm install {AZURITE} failed: {installed.stderr.strip()[-500:]}")
    shutil.rmtree(folder / AZURITE, ignore_errors=True)
    installing.rename(folder / AZURITE)


def _create_container(account_url: str) -> None:
    """With the signature that Azure calls "Shared Key": its client cannot create containers."""
    moment, version = formatdate(usegmt=True), "2021-12-02"
    signed = "\n".join(
        ("PUT", *[""] * 11, f"x-ms-date:{moment}", f"x-ms-version:{version}", f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}")
    )
    key = base64.b64decode(ACCOUNT_KEY)
    signature = base64.b64encode(hmac.digest(key, f"{signed}\nrestype:container".encode(), hashlib.sha256)).decode()
    request = urllib.request.Request(f"{account_url}/{BUCKET}?restype=container", method="PUT")
    request.add_header("x-ms-date", moment)
    request.add_header("x-ms-version", version)
    request.add_header("Authorization", f"SharedKey {ACCOUNT}:{signature}")
    urllib.request.urlopen(request, timeout=30).close()
