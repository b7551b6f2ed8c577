"""First imports that no signal handler can interrupt, and that no fork cuts in two.

In: ``install()``, which `txlog` calls. Out: each txlog module that the main thread imports from then on is executed in
its own thread, with everything that it imports; and a fork waits until other threads have imported their txlog modules.

Python runs signal handlers in the main thread, between any two steps, even in the middle of an import. If a handler
raises there (Ctrl-C does), Python forgets the module that it was importing, but keeps the modules that this one had
imported. A package of several modules, such as sqlglot, then comes back incomplete; a package with compiled parts
cannot be imported a second time; and another thread that waited for the module gets half of it. No handler runs in any
other thread. So the main thread waits, and what a handler raises leaves the import statement once the module is
complete.

A fork copies the locks of modules as they are, but only the forking thread: a module that another thread was importing
would stay locked in the child forever, and half of it would be there.

This covers everything that txlog imports on first use, because of two rules that tests/test_tidy.py checks. Other
packages are imported at the top of a txlog module; a function imports txlog modules, or uses `import_whole`. And no
txlog modules import each other in a circle at their top. The new thread holds the locks of the modules that the main
thread is importing: it would wait for the main thread otherwise, which waits for it.
"""

from __future__ import annotations

import _imp
import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import FrameType, ModuleType
from typing import Any

_PREFIX = f"{__name__.partition('.')[0]}."


def install() -> None:
    """Let every txlog module be imported completely. A second call does nothing."""
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    sys.meta_path.insert(0, _Finder())
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_await_imports, after_in_child=_forget_imports)


def import_whole(*names: str) -> None:
    """Import modules of another package, which may not be installed.

    Raises:
        ImportError: One of them cannot be imported.
    """
    absent = [name for name in names if name not in sys.modules]
    if absent:
        _apart_from_the_main_thread(lambda: [importlib.import_module(name) for name in absent])


def require_library(library: str) -> None:
    """Import a library that the caller wants rows for. Raises ``InvalidInputError`` if it cannot be imported."""
    try:
        import_whole(library)
    except ImportError as error:
        from txlog.errors import InvalidInputError

        raise InvalidInputError(f"{library} cannot be imported ({error}): pip install {library}") from error


class _Finder:
    """Finds txlog's modules for the main thread, as the other finders do, and gives them a `_Loader`."""

    def __init__(self) -> None:
        self._executed: dict[str, ModuleType] = {}
        """Modules whose import statement was interrupted. The next one, in any thread, takes them: they are
        complete."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        if not name.startswith(_PREFIX) or not (_in_the_main_thread() or name in self._executed):
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, self._executed)  # type: ignore[assignment]
                return spec
        return None


class _Loader:
    """Executes one module in its own thread. The loader that it stands for then replaces it in the module."""

    def __init__(self, loader: Any, executed: dict[str, ModuleType]) -> None:
        self._loader = loader
        self._executed = executed

    def __getattr__(self, name: str) -> Any:
        """A loader's other methods, such as passing a module's code to ``python -m``."""
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        module: ModuleType | None = self._executed.get(spec.name) or self._loader.create_module(spec)
        return module

    def exec_module(self, module: ModuleType) -> None:
        name = module.__name__
        module.__loader__ = self._loader
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        if self._executed.pop(name, None) is module:
            return

        held = _locks_of(threading.get_ident())

        def execute() -> None:
            with _held_here(held):
                self._loader.exec_module(module)
            self._executed[name] = module

        _apart_from_the_main_thread(execute)
        self._executed.pop(name, None)


@contextlib.contextmanager
def _held_here(locks: Sequence[Any]) -> Iterator[None]:
    """Let this thread hold modules' locks for the thread that waits for it.

    A module's own code may ask the interpreter for the module, as msgspec 0.23 does when it makes a class; and the
    import of one module of a package executes the package first, which may import that module. Until a module is
    complete, only the thread that holds its lock gets it, and any other waits.
    """
    waiting = [lock.owner for lock in locks]
    for lock in locks:
        lock.owner = threading.get_ident()
    try:
        yield
    finally:
        for lock, owner in zip(locks, waiting, strict=True):
            lock.owner = owner


def _locks_of(thread: int) -> list[Any]:
    """The locks of txlog's modules that this thread holds."""
    return [lock for _, lock in _module_locks() if getattr(lock, "owner", None) == thread]


def _module_locks() -> list[tuple[str, Any]]:
    """The locks of txlog's modules that are in use, as far as this interpreter shows them."""
    locks = getattr(importlib._bootstrap, "_module_locks", {})
    used = [(name, found()) for name, found in [*locks.items()] if name.startswith(_PREFIX)]
    return [(name, lock) for name, lock in used if lock is not None]


IMPORTS_MAX_S = 10.0
_STEP_S = 0.001


def _await_imports() -> None:
    """Let other threads complete their imports of txlog modules.

    This holds no lock meanwhile: other packages' handlers, which run after it, may wait for a thread that imports.
    """
    waited_s = 0.0
    while _imported_by_others() and waited_s < IMPORTS_MAX_S:
        threading.Event().wait(_STEP_S)
        waited_s += _STEP_S


def _forget_imports() -> None:
    """In the child, for what another thread began to import just before the fork: import it from the start."""
    for name in _imported_by_others():
        importlib._bootstrap._module_locks.pop(name, None)  # type: ignore[attr-defined]
        if getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False):
            del sys.modules[name]


def _imported_by_others() -> list[str]:
    """The txlog modules that other threads import, as far as this interpreter shows it."""
    me = threading.get_ident()
    return [name for name, lock in _module_locks() if getattr(lock, "owner", me) != me]


def _in_the_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _apart_from_the_main_thread(work: Callable[[], object]) -> None:
    """Do ``work`` in a thread that no signal handler runs in; the main thread waits for its end.

    Raises what ``work`` raises, or otherwise, at the end, what a signal handler raised.
    """
    if not _in_the_main_thread() or _importlib_holds_its_lock():  # then no other thread could import
        work()
        return
    taken, ended = threading.Lock(), threading.Lock()
    ended.acquire()
    outcome: list[BaseException | None] = []

    def run() -> None:
        if not taken.acquire(blocking=False):
            return
        try:
            work()
            outcome.append(None)
        except BaseException as error:
            outcome.append(error)
        ended.release()

    interrupt: BaseException | None = None
    try:
        threading.Thread(target=run, name="txlog-import").start()
    except BaseException as error:
        if not taken.acquire(blocking=False):
            interrupt = error  # raised just after the thread began
        elif isinstance(error, RuntimeError) and "new thread" in str(error):
            work()  # the interpreter ends, or the system has no more threads
            return
        else:
            raise  # the thread has not begun, and now never does
    while not outcome:
        try:
            _give_up_the_import_lock()
            ended.acquire()
        except BaseException as error:
            interrupt = error
    raised = interrupt or outcome[0]
    if raised is not None:
        raise raised


_WITH_THE_LOCK = frozenset({"_get_module_lock", "cb", "_find_spec", "__enter__", "__exit__"})
"""The functions of importlib that take the import lock for a moment."""


def _importlib_holds_its_lock() -> bool:
    """Whether this thread is within such a moment: a finder may import, and so may what the collector ends."""
    frame: FrameType | None = sys._getframe() if _imp.lock_held() else None
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap" and frame.f_code.co_name in _WITH_THE_LOCK:
            return True
        frame = frame.f_back
    return False


def _give_up_the_import_lock() -> None:
    """Release what this thread has of it though no function of importlib holds it: importlib takes it when a module's
    lock is collected, and a signal handler that raises between the take and the ``try`` behind it leaves it taken for
    good."""
    with contextlib.suppress(RuntimeError):  # it is another thread's
        while _imp.lock_held():
            _imp.release_lock()
