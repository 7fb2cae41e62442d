"""What a forked child must do with an open record that it inherited: leave it alone.

A child that closes its copy of a database writes behind its parent's back, and one that keeps the lock's descriptor
keeps the record locked after its parent has died. Both happen without a line of the child's own code, so whoever holds
such a thing is told of the fork.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class ForkAware(Protocol):
    """Something that a forked child must not use."""

    def abandon(self) -> None:
        """Called in the child, once, before any of its code runs. Must not take locks: other threads may have held
        them."""


_aware: weakref.WeakSet[ForkAware] = weakref.WeakSet()


def tell_when_forked(thing: ForkAware) -> None:
    """Has `thing` told of forks for as long as it lives."""
    _aware.add(thing)


def _tell() -> None:
    for thing in list(_aware):
        thing.abandon()


os.register_at_fork(after_in_child=_tell)
