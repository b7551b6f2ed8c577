"""The doors of a running service: they open together, and close before the service commits what it has taken.

In: a service, an address and ports. Out: addresses that clients use.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from txlog.errors import InvalidInputError, StorageError, UnsupportedFeatureError
from txlog.extend.catalogs import how_to_install
from txlog.serve.access import Access
from txlog.serve.service import Service

_LEAVE_S = 5.0


class Doors:
    """The open doors.

    Args:
        service: The service.
        access: Who may do what.
        host: The address to listen on.
        ports: The port of "flight" and of "http"; a door that is not named stays closed.
        tls: The files of the certificate chain and of the private key, in PEM.
        only_local_names: Whether HTTP answers only by the names of this machine's own address.

    Raises:
        InvalidInputError: A file cannot be read, or no door is to be opened.
        StorageError: An address is taken.
    """

    def __init__(
        self,
        service: Service,
        access: Access,
        host: str,
        ports: Mapping[str, int],
        tls: tuple[Path, Path] | None = None,
        *,
        only_local_names: bool = True,
    ) -> None:
        if not ports:
            raise InvalidInputError("a service needs a port for Arrow Flight or for HTTP")
        self.addresses: list[str] = []
        self._flight: Any = None
        self._http: Any = None
        shown = f"[{host}]" if ":" in host else host
        try:
            if "flight" in ports:
                flight = _module("flight", "Arrow Flight", "--flight-port -1")
                pem = None if tls is None else (tls[0].read_bytes(), tls[1].read_bytes())
                self._flight = flight.FlightDoor(service, access, host, ports["flight"], pem)
                self.addresses.append(f"grpc{'+tls' if tls else ''}://{shown}:{self._flight.port}")
            if "http" in ports:
                http = _module("http", "HTTP", "--http-port -1")
                door = http.HttpDoor(service, access) if only_local_names else http.HttpDoor(service, access, None)
                files = None if tls is None else (str(tls[0]), str(tls[1]))
                self._http = http.Listener(door, host, ports["http"], files, service.limits.connections)
                self.addresses.append(f"http{'s' if tls else ''}://{shown}:{self._http.port}")
        except OSError as error:
            raise StorageError(f"the service cannot listen on {host}, or read its certificate: {error}") from error
        self._closing: threading.Thread | None = None

    def close(self) -> None:
        """Take no more calls. Calls of Flight that run go on until their clients have their answers."""
        if self._flight is not None:
            self._closing = threading.Thread(target=self._flight.shutdown, name="txlog-serve-stop", daemon=True)
            self._closing.start()
        if self._http is not None:
            self._http.close()

    def leave(self) -> None:
        """End the process if clients keep calls of Flight open: all rows are committed, and nothing waits for them."""
        if self._closing is None:
            return
        self._closing.join(_LEAVE_S)
        if self._closing.is_alive():
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(0)


def _module(name: str, door: str, without: str) -> ModuleType:
    try:
        return importlib.import_module(f"txlog.serve.{name}")
    except ImportError as error:
        needs = f"{door} needs the package {error.name}: {how_to_install('serve')}"
        raise UnsupportedFeatureError(f"{needs}. Or leave this door closed, with {without}") from error
