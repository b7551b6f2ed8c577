"""The only logger of txlog. An exception in a log handler or filter never reaches the code that logs.

In: log calls from the whole library. Out: records of the standard logger ``txlog``. Python's own handlers swallow their
errors; a user's handler may not. Such an error in the middle of a commit would hide how the commit ended, so it is
printed to stderr, as `logging.Handler.handleError` does, and not raised. A table that people know by a name is shown by
its name.
"""

from __future__ import annotations

import contextlib
import logging
import sys
import traceback
from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    _Adapter = logging.LoggerAdapter[logging.Logger]
else:
    _Adapter = logging.LoggerAdapter  # not generic before Python 3.11


class _ContainedLogger(_Adapter):
    def process(self, msg: Any, kwargs: MutableMapping[str, Any]) -> tuple[Any, MutableMapping[str, Any]]:
        return msg, kwargs

    def log(self, level: int, msg: object, *args: object, **kwargs: Any) -> None:
        if not self.isEnabledFor(level):
            return
        kwargs.setdefault("stacklevel", 2)  # the record names the caller, not this method
        try:
            self.logger.log(level, msg, *(getattr(each, "known_as", each) for each in args), **kwargs)
        except Exception:
            if logging.raiseExceptions and sys.stderr is not None:
                with contextlib.suppress(OSError):
                    traceback.print_exc()


logger = _ContainedLogger(logging.getLogger("txlog"), {})  # noqa: TID251
