"""What the integration tests share: each kind of fixture lives in a module of its own."""

from __future__ import annotations

from servers import *  # noqa: F403
from spark_fixtures import *  # noqa: F403
