"""A small job of model calls, its worker's death at any step, and what is left: the material of the suite `resume`.

A death leaves an image: a copy of the session's root at that very step, which is what a killed process leaves behind.
Any number of workers can resume from copies of one image. The model is a stand-in on loopback with a ledger of what it
received.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, cast

from mn_contract.errors import AmbiguousInvocation
from mn_contract.invocations import Attempt
from mn_sdk.context_session import ContextSession
from mn_sdk.context_session.journal import Invocations
from mn_sdk.demo.stand_in import MODEL, StandIn

NAMES: Final = ("decision-1", "decision-2", "decision-3")
KILLED: Final = NAMES[1]
"""The call in which the worker dies."""
STEPS: Final = tuple(
    (method, when) for method in ("begin", "dispatch", "respond", "complete") for when in ("before", "after")
)
"""Each write of the journal on a call's way, and whether death comes before it or after."""
JOB_ID: Final = "resume"
RUN_ID: Final = "run"
PRINCIPAL: Final = "worker"
_TIMEOUT_SECONDS: Final = 60.0

Step = tuple[str, str]
Log = Callable[[str], Any]
"""What the provider's log holds for a call: its response, or None."""


class Died(BaseException):
    """A worker's death."""


@dataclass(frozen=True, slots=True)
class Image:
    """What a worker left at `step`: `root` is the copy, `log` what the provider had answered by then."""

    step: Step
    root: Path
    log: Log

    @contextmanager
    def copied(self, to: Path) -> Iterator[Path]:
        """A copy of the root for one who resumes."""
        shutil.copytree(self.root, to)
        try:
            yield to
        finally:
            shutil.rmtree(to)


@contextmanager
def provider(folder: Path) -> Iterator[StandIn]:
    """A stand-in for a model, with a ledger of its own in `folder`."""
    folder.mkdir()
    ledger = folder / "ledger.jsonl"
    ledger.touch()
    stand_in = StandIn(ledger, lambda _: None)
    try:
        yield stand_in
    finally:
        stand_in.close()


def opened(root: Path) -> ContextSession:
    """A worker's session."""
    return ContextSession(root, job_id=JOB_ID, run_id=RUN_ID, principal=PRINCIPAL)


def work(session: ContextSession, model: StandIn, log: Log, names: Sequence[str] = NAMES) -> list[str]:
    """The job from its start, as every worker runs it; its answers. What was recorded and answered before is replayed,
    an unknown outcome is settled by the provider's log."""
    answers = []
    for name in names:
        session.observe(f"Before {name} the brackets were counted again.", event_id=f"seen/{name}", topics=["brackets"])
        try:
            answers.append(ask(session, model, name))
        except AmbiguousInvocation:
            settle(session, name, log)
            answers.append(ask(session, model, name))
    return answers


def ask(session: ContextSession, model: StandIn, name: str, **more: Any) -> str:
    """One call of the job; its answer."""
    asked = json.dumps({"decision": name, "question": "Do the brackets nest, as they were counted?"})
    answer = session.complete(
        name,
        focus="brackets",
        model=f"openai/{MODEL}",
        api_base=model.url,
        api_key="none",
        timeout=_TIMEOUT_SECONDS,
        messages=[{"role": "system", "content": "Decide from the records."}, {"role": "user", "content": asked}],
        **more,
    )
    return str(answer.choices[0].message.content)


def settle(session: ContextSession, name: str, log: Log) -> None:
    """Settles a call whose outcome is unknown by what the provider's log holds."""
    found = log(name)
    if found is None:
        session.reconcile(name, not_executed=True, evidence="the provider's log has no such request")
    else:
        session.reconcile(name, response=found, evidence="the provider's log")


def killed(root: Path, image: Path, step: Step, model: StandIn, log: Log) -> Image | None:
    """Has a worker do the job in `root` until it dies at a step of KILLED; answers what it left, under `image`. None
    where its way does not lead there."""

    def die() -> None:
        shutil.copytree(root, image)
        raise Died

    with opened(root) as session:
        stopping = cast(Invocations, _Stopping(session.journal.invocations, step, die))
        session.journal = replace(session.journal, invocations=stopping)
        try:
            work(session, model, log)
        except Died:
            known = {name: answer for name in NAMES if (answer := log(name)) is not None}
            return Image(step, image, known.get)
    return None


class _Stopping:
    """Invocations that call `die` at a step of KILLED, once."""

    def __init__(self, inner: Invocations, step: Step, die: Callable[[], None]) -> None:
        self._inner = inner
        self._method, self._when = step
        self._die = die
        self._waiting = True

    def __getattr__(self, method: str) -> Callable[..., Any]:
        whole = getattr(self._inner, method)

        def stepping(called: Attempt | str, *args: Any, **options: Any) -> Any:
            name = called if isinstance(called, str) else called.name
            here = self._waiting and (method, name) == (self._method, KILLED)
            if here and self._when == "before":
                self._waiting = False
                self._die()
            answer = whole(called, *args, **options)
            if here:
                self._waiting = False
                self._die()
            return answer

        return stepping
