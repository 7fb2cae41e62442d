"""Sessions under one root learn at the same time, and from each other."""

from __future__ import annotations

from pathlib import Path

from mn_sdk.context_session.counting import counting
from mn_sdk.context_session.journal.database import Database
from mn_sdk.context_session.journal.notes import Notes
from mn_sdk.context_session.journal.rows import Clearing, Rows
from mn_sdk.context_session.lifetime import Lifetime
from mn_sdk.scope import SessionScope

SCOPE = SessionScope(job_id="job", run_id="run", principal="alice")
REQUEST = {"messages": [{"role": "user", "content": "word " * 1000}]}


def test_what_another_session_learned_meanwhile_is_kept(tmp_path: Path) -> None:
    """Neither has read what the other has written when it writes itself."""
    rows = Rows(Database(tmp_path), SCOPE, clearing=Clearing(tmp_path, SCOPE), state=None)
    lifetime = Lifetime(cancelled=lambda: False, deadline=None, clock=lambda: 0)
    models = ("openai/gpt-4o", "anthropic/claude-3-haiku-20240307")
    sessions = [counting(Notes(rows), SCOPE, lifetime) for _ in models]
    for session, model in zip(sessions, models, strict=True):
        count = session.count(REQUEST, model)
        assert session.observed(count, model, {"prompt_tokens": 2 * count.upper})
    fresh = counting(Notes(rows), SCOPE, lifetime)
    assert all(fresh.count(REQUEST, model).widened for model in models)
    rows.close()
