"""What ``dir(txlog.spark)`` shows is what the package offers, before and after a first use."""

from __future__ import annotations

import subprocess
import sys

import txlog.spark


def test_the_package_shows_its_public_names_and_no_others() -> None:
    assert dir(txlog.spark) == sorted(txlog.spark.__all__)
    assert all(getattr(txlog.spark, name) is not None for name in dir(txlog.spark))
    assert dir(txlog.spark) == sorted(txlog.spark.__all__)


def test_the_package_imports_neither_pyspark_nor_its_own_modules() -> None:
    names = "[n for n in sys.modules if n.startswith(('pyspark', 'txlog.spark.'))]"
    run = subprocess.run(
        [sys.executable, "-c", f"import sys, txlog.spark; print({names})"], capture_output=True, text=True, check=True
    )
    assert run.stdout == "[]\n"
