"""What a call is made for, kept with the claim that it is dispatched by.

Workers may claim a name one after the other, each for something else, before one of them dispatches: what is kept by
the name alone may be another's. A claim (an attempt and its epoch) is one worker's, and nobody else dispatches it; so
what is kept with it before it is dispatched is true of the call for good, and nobody writes it again.
"""

from __future__ import annotations

from typing import Final

from mn_contract.invocations import Attempt
from mn_sdk.context_session.journal.notes import Notes

_KIND: Final = "binding"


class Bindings:
    """What the calls of one session are made for, as their callers write it. Thread-safe."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._bound: dict[str, bytes] = {}

    def bind(self, name: str, value: bytes) -> None:
        """What calls of this name are made for, from now on in this session."""
        self._bound[name] = value

    def keep(self, claimed: Attempt) -> None:
        """Keeps what the call is made for, where anything is bound; durable when it returns. To be done before the
        claimed attempt is dispatched. Raises as Notes does."""
        value = self._bound.get(claimed.name)
        if value is not None:
            self._notes.put(_KIND, _name(claimed), value)

    def of(self, dispatched: Attempt) -> bytes | None:
        """What a dispatched attempt was made for; None where nothing was bound, or under another root."""
        return self._notes.get(_KIND, _name(dispatched))


def _name(claimed: Attempt) -> str:
    return f"{claimed.name}/{claimed.attempt}/{claimed.epoch}"
