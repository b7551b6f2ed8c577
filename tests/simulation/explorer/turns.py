"""Which store calls must wait for their turn: those whose answer, or effect on others, depends on the order of actors.

In: a call, and what the other actors may do. Out: whether it can be answered at once, since it commutes with all
calls of the others; and its answer as a number. The answers so far determine everything that the actor does next.
"""

from __future__ import annotations

from collections.abc import Sequence

from explorer.session import Actor
from explorer.world import World
from txlog.core.format.log_names import LAST_CHECKPOINT
from txlog.core.maintenance._last_vacuum import LAST_VACUUM
from txlog.iceberg.metadata.names import content_version, metadata_number
from txlog.testing.faults import StoreCall
from txlog.testing.memory_store import MemoryLogStore

__all__ = ["answer", "file_needs_no_turn", "named_needs_no_turn", "needs_no_turn"]

_READS = ("read", "stat", "list_from")


def needs_no_turn(
    call: StoreCall, store: MemoryLogStore, world: World, others: Sequence[Actor], *, may_die: bool
) -> bool:
    """Whether none of the ``others``, who are alive, can change the answer or notice the call.

    ``may_die``: it makes a difference whether this actor dies before the call.
    """
    if store is world.staging or (
        world.second is not None and store is world.second.staging
    ):  # the actor that commits a checkpoint deletes its staged files
        is_mine = not any(actor.stages for actor in others)
        return is_mine and (call.operation in _READS or not (may_die or any(actor.vacuums for actor in others)))
    if store is world.waiting:
        return False
    if store is world.iceberg:
        return _needs_no_turn_to_export(call, store, others)
    if call.name == LAST_VACUUM:
        return not any(actor.vacuums for actor in others)
    is_hint = call.name == LAST_CHECKPOINT
    if call.operation != "make_durable":
        if call.operation not in ("read", "stat", "put_if_absent"):
            return False
        if not is_hint and call.name not in store.objects:
            return False
    return not any(actor.deletes or (is_hint and actor.checkpoints) for actor in others)


def _needs_no_turn_to_export(call: StoreCall, store: MemoryLogStore, others: Sequence[Actor]) -> bool:
    """A file named by its content is the same whichever actor puts it, and has no effect until another file names
    it."""
    if any(actor.cleans_exports for actor in others):
        return False
    if content_version(call.name) is not None:
        return True
    if call.operation not in _READS:
        return False
    is_known = metadata_number(call.name) is not None and call.name in store.objects
    return is_known or not any(actor.exports for actor in others)


def file_needs_no_turn(call: StoreCall, others: Sequence[Actor]) -> bool:
    """The same for a call on a data file: vacuums delete data files, and recoveries delete key files."""
    return call.operation == "stat" and not any(actor.vacuums or actor.stages for actor in others)


def named_needs_no_turn(others: Sequence[Actor]) -> bool:
    """The same for a call on the named versions: a tag gives names, and a vacuum keeps their files."""
    return not any(actor.vacuums or actor.tags for actor in others)


def answer(call: StoreCall, objects: dict[str, tuple[bytes, int]]) -> int:
    """The answer of the call, as a number."""
    if call.operation == "list_from":
        return hash(tuple(sorted(name for name in objects if name >= call.name)))
    if call.operation == "read":
        return hash(objects.get(call.name, (None,))[0])
    return hash(call.name in objects)
