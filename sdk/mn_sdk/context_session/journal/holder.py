"""Who holds a claim: host, process, its start time, and the piece of work in it; and whether a holder is provably gone.

A process id alone is not an identity: it is used again. The host part tells machines, boots and process namespaces
apart, so that only a holder of this very process table is ever called dead. A process that has ended stays in that
table until its parent has asked how (a zombie): it is gone. Where the start time cannot be read, nothing is proved by
it, and a claim simply runs out. Within this process a piece of work is gone once it has ended, so
that what an interrupt left behind is known at once, and two tasks of one thread are two holders.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import os
import platform
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final

_UNKNOWN: Final = "0"
_lock: Final = threading.Lock()
_numbers: Final = itertools.count(1)
_working: Final[Counter[str]] = Counter()
"""How many spans each piece of work is in; none where it has ended."""
_work: Final[ContextVar[str]] = ContextVar("mn_work", default="")


@contextmanager
def work() -> Iterator[str]:
    """A piece of work: what is claimed inside, in this context and its copies, is held by it and by nothing else.
    Answers its name."""
    name = f"w{next(_numbers)}"
    token = _work.set(name)
    try:
        with going_on(name):
            yield name
    finally:
        _work.reset(token)


@contextmanager
def going_on(name: str) -> Iterator[None]:
    """A span in which a piece of work has not ended, whatever thread or context it goes on in."""
    with _lock:
        _working[name] += 1
    try:
        yield
    finally:
        with _lock:
            _working[name] -= 1
            if not _working[name]:
                del _working[name]


def own_holder() -> str:
    """The identity of this process and piece of work (outside of one: thread), as an id of the contract."""
    pid = os.getpid()
    return f"{_host()}/{pid}/{_start_time(pid)}/{_work.get() or threading.get_ident()}"


def is_gone(holder: str) -> bool:
    """Whether the holder has provably ended. False for another machine's, and where nothing is proved."""
    parts = holder.split("/")
    if len(parts) != 4 or parts[0] != _host() or not parts[1].isdecimal():
        return False
    pid = int(parts[1])
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass
    started = _start_time(pid)
    if _UNKNOWN not in (started, parts[2]) and started != parts[2]:
        return True
    if _has_ended(pid):
        return True
    return pid == os.getpid() and parts[3].startswith("w") and parts[3] not in _working


@functools.cache
def _host() -> str:
    """A name for this process table: 24 hex digits."""
    marks = [platform.node(), _read(Path("/proc/sys/kernel/random/boot_id")), _namespace()]
    return hashlib.sha256("\n".join(marks).encode("utf-8", "replace")).hexdigest()[:24]


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""


def _start_time(pid: int) -> str:
    """Clock ticks after boot; "0" where it cannot be read."""
    return _stat(pid, 22)


def _has_ended(pid: int) -> bool:
    """Whether a process that is still in the table has ended. Of one whose first thread alone has, others go on."""
    return _stat(pid, 3) in ("Z", "X") and _stat(pid, 20) in ("0", "1")


def _stat(pid: int, field: int) -> str:
    """A field of /proc/PID/stat, by its number in proc(5), from 3 on; "0" where it cannot be read."""
    after_name = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return after_name[field - 3] if len(after_name) > field - 3 else _UNKNOWN


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
