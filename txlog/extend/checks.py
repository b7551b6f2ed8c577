"""What a check that `Table.verify` asks must be: an entry of the group ``txlog.checks``.

In: nothing. Out: names of ``txlog.audit``.
"""

from __future__ import annotations

from txlog.audit.checks import CheckProblem, ChecksTable

__all__ = ["CheckProblem", "ChecksTable"]
