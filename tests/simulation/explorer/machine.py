"""One machine of a story: its processes queue for a turn, and hand their appends over while they wait.

In: a `Run`, and the session of a process. Out: a commit queue for its table. The turn of a process that has died is
free, and what it offered stays. A process that is resumed while another one has the turn has waited in vain: at some
time it goes on without a turn, as if the other one stood still.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import orjson

from txlog.core.store._commit_queue import Turn
from txlog.core.store._handover_folder import Offer, OfferState

if TYPE_CHECKING:
    from explorer.session import Session
    from explorer.versions import Attempt

__all__ = ["Machine", "MachineQueue"]

_WAITS = 2
"""So often a process waits in vain."""


class Machine:
    """Who has the turn, and what is offered. It acts like a `HandOver`, whose files are here in memory.

    ``attempts`` are those of the story by the first part of their txnIds. One that is offered has read the version on
    which it was offered: the commit that carries it, of another process, does not say which that was.
    """

    def __init__(self, attempts: Mapping[str, Attempt]) -> None:
        self._attempts = attempts
        self.holder: Session | None = None
        self.offers: dict[str, tuple[bytes, OfferState]] = {}

    @property
    def is_free(self) -> bool:
        return self.holder is None or self.holder.is_dead

    def offer(self, name: str, body: bytes) -> Offer:
        self.offers[name] = body, OfferState("offer")
        offered = orjson.loads(body.splitlines()[-1])
        for member in offered["members"]:
            if (attempt := self._attempts.get(member["txnId"][:8])) is not None:
                attempt.read_version = offered["baseVersion"]
        return Offer(self, name)  # type: ignore[arg-type]

    def waiting(self) -> list[tuple[str, bytes]]:
        return [(name, body) for name, (body, state) in self.offers.items() if state.kind == "offer"]

    def take(self, name: str, version: int, before: int | None = None) -> bool:
        expected = OfferState("offer") if before is None else OfferState("taken", before)
        return self._move(name, expected, OfferState("taken", version))

    def landed(self, name: str, version: int) -> None:
        self._move(name, OfferState("taken", version), OfferState("done", version))

    def give_back(self, name: str, version: int) -> None:
        self._move(name, OfferState("taken", version), OfferState("offer"))

    def send_back(self, name: str, version: int | None) -> None:
        if self.state_of(name) == OfferState("taken", version):
            del self.offers[name]

    def state_of(self, name: str) -> OfferState:
        return self.offers[name][1] if name in self.offers else OfferState("none")

    def end(self, name: str) -> OfferState:
        state = self.state_of(name)
        self.offers.pop(name, None)
        return state

    def touch(self, name: str) -> None:
        pass

    def _move(self, name: str, before: OfferState, after: OfferState) -> bool:
        if self.state_of(name) != before:
            return False
        self.offers[name] = self.offers[name][0], after
        return True


class MachineQueue:
    """The queue as one process sees it."""

    def __init__(self, machine: Machine, session: Session) -> None:
        self._machine = machine
        self._session = session

    @property
    def hand_over(self) -> Any:
        return self._machine

    def take(
        self,
        since_s: float | None = None,
        meanwhile: Callable[[int], object] | None = None,
        answered: Callable[[], bool] | None = None,
    ) -> Turn:
        machine = self._machine
        for _ in range(_WAITS):
            if machine.is_free:
                break
            if answered is not None and answered():
                return Turn()
            self._session.clock.wait(_Moves(machine, answered), 1.0)  # type: ignore[arg-type]
        if machine.is_free:
            machine.holder = self._session
            return _Turn(machine, self._session)
        return Turn()


class _Turn(Turn):
    def __init__(self, machine: Machine, session: Session) -> None:
        super().__init__()
        self._machine = machine
        self._session = session

    def end(self) -> None:
        if self._machine.holder is self._session:
            self._machine.holder = None


class _Moves:
    """Set when a process has no reason to wait any longer."""

    def __init__(self, machine: Machine, answered: Callable[[], bool] | None) -> None:
        self._machine = machine
        self._answered = answered

    def is_set(self) -> bool:
        return self._machine.is_free or (self._answered is not None and self._answered())
