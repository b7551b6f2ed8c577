"""Where writers of one machine, of one user, leave what another of them may commit for them while they wait for a turn.

In: a folder next to the file of the turn (`commit_queue`). Out: an `Offer` for its owner; and for whoever has the turn,
the offers of others. What they hold is for the callers; here are only bytes and names.

An offer is one file, and its name is its state. Each step is one atomic rename or deletion, so that of two processes
exactly one succeeds, and no step needs room on the disk:

    <id>.offer        it waits: its owner may withdraw it, or another writer take it
    <id>.<n>.taken    a commit that may be sent as version n carries it: its owner may leave it, and then knows n
    <id>.<n>.done     that commit has landed
    (none)            nobody carries it: it was withdrawn, left, or sent back to its owner

Files rather than a socket, because nobody has to be alive: a writer that is killed, stopped or forked leaves files in
a state that says what may have happened, and the kernel frees its turn. A waiting owner touches its file; one that is
not touched is not taken: its owner is dead or suspended, and its data files may be gone. If a file cannot be made,
there is no offer, and the writer waits for its turn as it would have done.
"""

from __future__ import annotations

import contextlib
import os
from typing import NamedTuple

from txlog.core import ambient
from txlog.core.util import pattern

_FRESH_S = 5.0
"""How long after its owner touched it an offer may be taken."""
TOUCH_S = 0.5
_OLD_S = 3600.0
_BYTES_MAX = 1 << 20
_LOOKS = 3  # a listing may miss a file that is renamed at this moment
_NAME = pattern(r"([0-9A-Za-z-]{1,64})\.(?:(offer)|([0-9]{1,19})\.(taken|done))")


class OfferState(NamedTuple):
    """``kind`` is "offer", "taken", "done", or "none"; ``version`` that of the commit which carries it."""

    kind: str
    version: int | None = None


_NONE = OfferState("none")


class HandOver:
    """The offers of one table. ``folder`` need not exist yet; only this user must be able to write there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def offer(self, name: str, body: bytes) -> Offer | None:
        """Leave an offer under a name that is used once. None if it is too large, or there is no room."""
        if len(body) > _BYTES_MAX:
            return None
        path = f"{self._folder}/{name}"
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            descriptor = os.open(f"{path}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                written = os.write(descriptor, body)
            finally:
                os.close(descriptor)
            if written == len(body):
                os.rename(f"{path}.tmp", f"{path}.offer")
                return Offer(self, name)
        except OSError:
            pass
        with contextlib.suppress(OSError):
            os.unlink(f"{path}.tmp")
        return None

    def waiting(self) -> list[tuple[str, bytes]]:
        """The names and bytes of offers whose owners wait, in the order of their names. Deletes what the dead left."""
        found = []
        for entry in sorted(self._entries()):
            age_s = self._age_s(entry)
            if age_s is not None and age_s > _OLD_S:
                self._unlink(entry)
            elif entry.endswith(".offer") and age_s is not None and age_s < _FRESH_S:
                with contextlib.suppress(OSError), open(f"{self._folder}/{entry}", "rb") as file:
                    found.append((entry.removesuffix(".offer"), file.read(_BYTES_MAX)))
        return found

    def take(self, name: str, version: int, before: int | None = None) -> bool:
        """Carry an offer in a commit that may be sent as ``version``; ``before`` is the version as which it was carried
        so far. Returns False if its owner has withdrawn or left it."""
        from_name = f"{name}.offer" if before is None else f"{name}.{before}.taken"
        return before == version or self._rename(from_name, f"{name}.{version}.taken")

    def landed(self, name: str, version: int) -> None:
        """The commit that carries it has landed as ``version``."""
        self._rename(f"{name}.{version}.taken", f"{name}.{version}.done")

    def give_back(self, name: str, version: int) -> None:
        """It is in no commit, and may be taken again."""
        self._rename(f"{name}.{version}.taken", f"{name}.offer")

    def send_back(self, name: str, version: int | None) -> None:
        """It is in no commit, and its owner has to commit it."""
        self._unlink(f"{name}.offer" if version is None else f"{name}.{version}.taken")

    def state_of(self, name: str) -> OfferState:
        """What has become of an offer."""
        for _ in range(_LOOKS):
            for entry in self._entries():
                match = _NAME.fullmatch(entry)
                if match is not None and match[1] == name:
                    return OfferState("offer") if match[2] else OfferState(match[4], int(match[3]))
        return _NONE

    def end(self, name: str) -> OfferState:
        """Take an offer away, whatever its state is, and return that state."""
        while True:
            state = self.state_of(name)
            if state.kind == "none":
                return state
            entry = f"{name}.offer" if state.version is None else f"{name}.{state.version}.{state.kind}"
            if self._unlink(entry):
                return state

    def touch(self, name: str) -> None:
        """Show that the owner of an offer waits."""
        with contextlib.suppress(OSError):
            os.utime(f"{self._folder}/{name}.offer")

    def _entries(self) -> list[str]:
        try:
            return os.listdir(self._folder)
        except OSError:
            return []

    def _age_s(self, entry: str) -> float | None:
        try:
            return max(0.0, ambient.now_ms() / 1000 - os.stat(f"{self._folder}/{entry}").st_mtime)
        except OSError:
            return None

    def _rename(self, from_name: str, to_name: str) -> bool:
        try:
            os.rename(f"{self._folder}/{from_name}", f"{self._folder}/{to_name}")
        except OSError:
            return False
        return True

    def _unlink(self, entry: str) -> bool:
        try:
            os.unlink(f"{self._folder}/{entry}")
        except OSError:
            return False
        return True


class Offer:
    """An offer, for its owner."""

    def __init__(self, place: HandOver, name: str) -> None:
        self._place = place
        self._name = name
        self._touched_s = ambient.monotonic_s()
        self._process_id = os.getpid()

    def state(self) -> OfferState:
        """What has become of it so far. Shows others that its owner waits."""
        now_s = ambient.monotonic_s()
        if now_s - self._touched_s >= TOUCH_S:
            self._touched_s = now_s
            self._place.touch(self._name)
        return self._place.state_of(self._name)

    def end(self) -> OfferState:
        """Take it away, and return what had become of it: "taken" means that a commit may still be sent with it."""
        if self._process_id != os.getpid():  # in a forked child it is still the parent's
            return self._place.state_of(self._name)
        return self._place.end(self._name)
