"""Durable exactly-once for any engine: sink, staging, recovery."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.sink._inspection import Application, StagedState, applications, clean_staging, staged_states
    from txlog.core.sink._sink import Sink
    from txlog.core.sink._sink_group import SinkGroup
    from txlog.core.sink._sink_task import SinkTask
    from txlog.core.sink._staging import Staging
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _inspection: Application StagedState applications clean_staging staged_states
        _sink: Sink
        _sink_group: SinkGroup
        _sink_task: SinkTask
        _staging: Staging
        """,
    )

__all__ = [
    "Application",
    "Sink",
    "SinkGroup",
    "SinkTask",
    "StagedState",
    "Staging",
    "applications",
    "clean_staging",
    "staged_states",
]
