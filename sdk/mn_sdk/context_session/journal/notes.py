"""Small durable notes of one scope, under the session's root: named cursors, pages of recall, reports and requests of
turns, what calls are made for, responses that the journal did not take yet."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable

from mn_contract.names import check_id
from mn_sdk.arguments import read_whole
from mn_sdk.context_session.journal.database import check_row, row_sha256
from mn_sdk.context_session.journal.rows import Rows

Note = tuple[str, str, bytes]
"""Kind, name, value."""


class Notes:
    """A map from (kind, name) to bytes, durable when `put` returns. Thread-safe. Raises RunClosed where the run is
    cleared, SourceMismatch where a note is not what was put."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self._scope = (rows.scope.job_id, rows.scope.run_id, rows.scope.principal)

    def get(self, kind: str, name: str) -> bytes | None:
        """The note; None where there is none."""
        with self._rows.read() as connection:
            row = connection.execute(
                "SELECT value, row_sha256 FROM notes WHERE (job_id, run_id, principal, kind, name) = (?, ?, ?, ?, ?)",
                (*self._scope, kind, name),
            ).fetchone()
        return self._checked(kind, name, row)

    def names(self, kind: str) -> list[str]:
        """The names of all notes of a kind, in order."""
        with self._rows.read() as connection:
            rows = connection.execute(
                "SELECT name FROM notes WHERE (job_id, run_id, principal, kind) = (?, ?, ?, ?) ORDER BY name",
                (*self._scope, kind),
            ).fetchall()
        return [name for (name,) in rows]

    def put(self, kind: str, name: str, value: bytes) -> None:
        """Keeps the note, in place of an earlier one."""
        self.put_all([(kind, name, value)])

    def put_all(self, notes: Iterable[Note]) -> None:
        """Keeps these notes, all or none of them."""
        with self._rows.write() as connection:
            for note in notes:
                self._store(connection, *note)

    def update(self, kind: str, name: str, change: Callable[[bytes | None], bytes]) -> None:
        """Keeps what `change` makes of the note, while nobody else writes. `change` calls nothing here."""
        mine = "FROM notes WHERE (job_id, run_id, principal, kind, name) = (?, ?, ?, ?, ?)"
        with self._rows.write() as connection:
            row = connection.execute(f"SELECT value, row_sha256 {mine}", (*self._scope, kind, name)).fetchone()
            self._store(connection, kind, name, change(self._checked(kind, name, row)))

    def number(self, kind: str, value: bytes) -> int:
        """The number of this value among the numbered notes of a kind, counted from 1: the same value keeps its number,
        a new one gets the next. `get(kind, str(number))` is the value."""
        mine = "FROM notes WHERE (job_id, run_id, principal, kind) = (?, ?, ?, ?)"
        with self._rows.write() as connection:
            row = connection.execute(f"SELECT name {mine} AND value = ?", (*self._scope, kind, value)).fetchone()
            if row is not None:
                return int(row[0])
            (count,) = connection.execute(f"SELECT count(*) {mine}", (*self._scope, kind)).fetchone()
            self._store(connection, kind, str(count + 1), value)
        return int(count) + 1

    def remove(self, kind: str, name: str) -> None:
        """Forgets the note. Idempotent."""
        with self._rows.write() as connection:
            connection.execute(
                "DELETE FROM notes WHERE (job_id, run_id, principal, kind, name) = (?, ?, ?, ?, ?)",
                (*self._scope, kind, name),
            )

    def cursor(self, name: str) -> int:
        """The cursor of this name; 0 before it was set."""
        found = self.get("cursor", check_id(name, "cursor"))
        return 0 if found is None else int(found)

    def set_cursor(self, name: str, value: int) -> int:
        """Sets the cursor. Raises InvalidInput."""
        self.put("cursor", check_id(name, "cursor"), str(read_whole(value, "cursor")).encode())
        return value

    def _checked(self, kind: str, name: str, row: tuple[bytes, str] | None) -> bytes | None:
        if row is None:
            return None
        value, kept = row
        check_row(*self._scope, kind, name, value, kept=kept)
        return bytes(value)

    def _store(self, connection: sqlite3.Connection, kind: str, name: str, value: bytes) -> None:
        row = (*self._scope, kind, name, value)
        connection.execute("INSERT OR REPLACE INTO notes VALUES (?, ?, ?, ?, ?, ?, ?)", (*row, row_sha256(*row)))
