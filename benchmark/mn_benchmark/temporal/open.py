"""A record of facts that is open: the embedded engine, asked through its messages as any program asks it."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Final

from mn.context.working.v1 import run_pb2
from mn_engine.bootstrap import engine_over
from mn_engine.domain.scope import Scope
from mn_engine.faces.embedded import EmbeddedFace
from mn_engine.store.port import Store
from mn_sdk.facts import Facts
from mn_sdk.scope import SessionScope

JOB: Final = "benchmark"
RUN: Final = "temporal"
READER, OTHER = "reader", "other"
"""Who records facts by turns, so that sources can disagree; the first one asks."""
SCOPE: Final = Scope(job_id=JOB, run_id=RUN, principal=READER)


class OpenRecord:
    """The engine over `store`, with the run opened. Closing it closes the store."""

    def __init__(self, store: Store) -> None:
        self.engine = engine_over(store)
        self._face = EmbeddedFace(self.engine)
        self.ask("OpenRun", run_pb2.OpenRunRequest())

    def ask(self, method: str, request: Any, principal: str = READER) -> Any:
        """What an operation answers."""
        scope = SessionScope(job_id=JOB, run_id=RUN, principal=principal)
        return self._face.call(method, scope.headers(), request)

    def facts(self, principal: str = READER) -> Facts:
        """The run's facts as a principal says and sees them."""
        return Facts(lambda method, request: self.ask(method, request, principal))

    @property
    def revision(self) -> int:
        """The newest one."""
        return self.engine.store.run(SCOPE.run_key).revision

    def __enter__(self) -> OpenRecord:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.engine.close()
