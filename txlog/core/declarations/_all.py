"""All operations of txlog, by name."""

from __future__ import annotations

from typing import Final

from txlog.core.declarations._definition import DEFINITION
from txlog.core.declarations._model import Operation
from txlog.core.declarations._rows import ROWS
from txlog.core.declarations._upkeep import READS, UPKEEP

DECLARED: Final = (*DEFINITION, *ROWS, *READS, *UPKEEP)
"""In the order of the tables in the docs."""
_BY_NAME: Final = {each.name: each for each in DECLARED}


def declared(name: str) -> Operation:
    """The operation of this name. Raises ``KeyError``."""
    return _BY_NAME[name]
