"""How a fault of ours is told in a log: its type and place. Its message may quote contents, so it is not told."""

from __future__ import annotations


def place_of(error: BaseException) -> str:
    """The type of `error` and the file and line where it was raised."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f"{at.tb_frame.f_code.co_filename}:{at.tb_lineno}" if at is not None else "?"
    return f"{type(error).__name__} at {where}"
