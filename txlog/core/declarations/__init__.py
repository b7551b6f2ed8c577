"""What users can ask of a table: each operation is declared once, with its arguments and the doors that have it.

The command line is made from the declarations, docs/operations.md shows them, and tests hold the other doors against
them. They are plain data; a plain append loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from txlog.core.declarations._all import DECLARED, declared
    from txlog.core.declarations._model import Argument, Door, Kind, Operation
else:
    from txlog.core.util import face

    __getattr__, __dir__ = face(
        __name__,
        """
        _all: DECLARED declared
        _model: Argument Door Kind Operation
        """,
    )

__all__ = ["DECLARED", "Argument", "Door", "Kind", "Operation", "declared"]
