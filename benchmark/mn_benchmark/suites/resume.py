"""Resuming: the six properties of "Resume Means Resume" (arXiv:2608.03836), on a job whose worker dies at every step.

It needs no data. A worker is killed before and after each write of its journal (see `resuming`), and others resume from
what it left. `held` is the share of deaths after which a property holds; the cases are the properties, and `all`.

- `prefix_continuation`: the recorded prefix is kept and continued, and no part of it runs again.
- `effect_exactly_once`: each call reaches the provider once, and its response the record once.
- `fork_determinism`: two resumes from one point build identical requests.
- `checkpoint_validity`: a partial or corrupt record is refused with a typed error, or nothing of it was lost.
- `consume_once`: an invocation, its settlement and its late response are each consumed by one resumer.
- `recovery_determinism`: recovering twice, or being killed while recovering, ends in the same state.

Setting: `damages`, how often a copy of what was left is damaged, for each death.
"""

from __future__ import annotations

import json
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier
from typing import Any, Final

from mn_benchmark.report import ALL, OURS, Sample
from mn_benchmark.resuming import (
    JOB_ID,
    KILLED,
    NAMES,
    PRINCIPAL,
    RUN_ID,
    STEPS,
    Image,
    Log,
    Step,
    ask,
    killed,
    opened,
    provider,
    work,
)
from mn_benchmark.suites.asked import Asked, Samples
from mn_contract.canonical import encoded
from mn_contract.errors import (
    AmbiguousInvocation,
    ContextError,
    IdempotencyConflict,
    InvalidInput,
    InvocationInFlight,
    StaleRevision,
)
from mn_contract.invocations import REPLAYABLE, State
from mn_engine.bootstrap import RECORD_NAME
from mn_sdk.client import runtime_client
from mn_sdk.context_session import ContextSession
from mn_sdk.context_session.journal.database import FILE_NAME
from mn_sdk.context_session.provider import text_of
from mn_sdk.demo.stand_in import StandIn

_RETRY: Final = "once-more"
_DAMAGES: Final = 6
_RESUMERS: Final = 4
_SECONDS_MAX: Final = 60.0
_WAIT: Final = (InvocationInFlight, StaleRevision, AmbiguousInvocation)
"""What a resumer is told while another one has the call, or nobody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Death:
    """A worker's death: `image` is what it left, `model` the provider that it had called. What is tried on it is tried
    in `folder`, `damages` times where it is a matter of chance."""

    folder: Path
    image: Image
    model: StandIn
    chance: random.Random
    damages: int = _DAMAGES

    def log_with(self, model: StandIn) -> Log:
        """The provider's log, with what `model` has answered to those who resume."""
        return lambda name: model.answer_of(name) or self.image.log(name)


Property = Callable[[Death], bool]


def run(asked: Asked) -> Iterator[Sample]:
    """The suite: a case a property, and `all`."""
    damages = _read_damages(asked.settings)
    samples = Samples()
    for name, held in PROPERTIES.items():
        asked.progress(f"resume: {name}, {len(STEPS)} deaths")
        for step in STEPS:
            with died(step, f"{asked.seed} {name}", damages=damages) as death:
                samples.add(OURS, "held", float(held(death)), ALL, name)
    yield from samples


@contextmanager
def died(step: Step, seed: str, *, damages: int = _DAMAGES) -> Iterator[Death]:
    """A worker's death at a step, in a folder that is there as long as the context."""
    with tempfile.TemporaryDirectory(prefix="membrane-benchmark-") as name, provider(Path(name) / "first") as model:
        folder = Path(name)
        image = killed(folder / "root", folder / "image", step, model, model.answer_of)
        if image is None:
            raise AssertionError(f"no worker passed {step}")
        yield Death(folder=folder, image=image, model=model, chance=random.Random(f"{seed} {step}"), damages=damages)


def prefix_continuation(death: Death) -> bool:
    """Whether what was recorded stays as it is, is asked for by nobody again, and is gone on from."""
    prefix = NAMES[: NAMES.index(KILLED)]
    with _resuming(death) as (root, model), opened(root) as session:
        kept, before = _responses(session), revision(root)
        work(session, model, death.image.log, prefix)
        if (revision(root), model.received()) != (before, {}):
            return False
        work(session, model, death.image.log)
        asked = model.received().keys()
        return kept.items() <= _responses(session).items() and {*prefix} <= kept.keys() and not asked & kept.keys()


def effect_exactly_once(death: Death) -> bool:
    """Whether the provider, whose ledger spans both lives, received each call once, and the record got each response
    once."""
    with death.image.copied(death.folder / "resumed") as root, opened(root) as session:
        work(session, death.model, death.image.log)
        return death.model.received() == dict.fromkeys(NAMES, 1) and revision(root) == 2 * len(NAMES)


def fork_determinism(death: Death) -> bool:
    """Whether two that resume, one of them after it had begun to and ended, send the same bytes."""
    sent = []
    for interrupted in (False, True):
        with _resuming(death) as (root, model):
            if interrupted:
                with opened(root) as session:
                    work(session, model, death.image.log, NAMES[:1])
            with opened(root) as session:
                work(session, model, death.image.log)
            sent.append([json.dumps(body) for body in model.requests])
    return sent[0] == sent[1] != []


def checkpoint_validity(death: Death) -> bool:
    """Whether a damaged copy is refused with a typed error, or has lost nothing that was durable; and whether nothing
    of that is asked for again either way."""
    with death.image.copied(death.folder / "sound") as root, opened(root) as session:
        kept = _responses(session)
    return all(_is_refused_or_whole(death, kept) for _ in range(death.damages))


def consume_once(death: Death) -> bool:
    """Whether of several that resume at once one makes the call, one settles it, one has its late response taken."""
    return _called_once(death) and _settled_once(death) and _late_response_taken_once(death)


def recovery_determinism(death: Death) -> bool:
    """Whether recovering once, twice, and after a death while recovering ends in the same state."""
    ends = []
    for again in (False, True):
        with _resuming(death) as (root, model):
            for _ in range(1 + again):
                with opened(root) as session:
                    work(session, model, death.log_with(model))
            ends.append(_end(root))
    for step in death.chance.sample(STEPS, 2):
        with _resuming(death) as (root, model):
            second = killed(root, death.folder / "second", step, model, death.log_with(model))
            if second is None:  # recovery does not lead there
                continue
            with second.copied(death.folder / "again") as left:
                with opened(left) as session:
                    work(session, model, death.log_with(model))
                ends.append(_end(left))
            shutil.rmtree(second.root)
    return all(end == ends[0] for end in ends)


PROPERTIES: Final[Mapping[str, Property]] = {
    one.__name__: one
    for one in (
        prefix_continuation,
        effect_exactly_once,
        fork_determinism,
        checkpoint_validity,
        consume_once,
        recovery_determinism,
    )
}


def revision(root: Path) -> int:
    """The revision of the run's record under `root`."""
    client = runtime_client(JOB_ID, RUN_ID, PRINCIPAL, root=root)
    try:
        return int(client.run().revision)
    finally:
        client.close()


def _read_damages(given: Mapping[str, Any]) -> int:
    damages = given.get("damages", _DAMAGES)
    if set(given) - {"damages"} or not isinstance(damages, int) or isinstance(damages, bool) or damages < 1:
        raise InvalidInput("resume has one setting, damages, a whole number from 1 up", field="settings")
    return damages


@contextmanager
def _resuming(death: Death) -> Iterator[tuple[Path, StandIn]]:
    """A copy of what was left, and a provider that has received nothing yet."""
    with death.image.copied(death.folder / "resumed") as root, provider(death.folder / "provider") as model:
        yield root, model
    shutil.rmtree(death.folder / "provider")


def _responses(session: ContextSession) -> dict[str, bytes]:
    """The durable responses, by call."""
    newest = {name: session.journal.invocations.newest(name) for name in NAMES}
    return {
        name: attempt.response
        for name, attempt in newest.items()
        if attempt is not None and attempt.state in REPLAYABLE and attempt.response is not None
    }


def _end(root: Path) -> tuple[dict[str, str], int]:
    """What was answered, and how much is in the record."""
    with opened(root) as session:
        answers = {name: text_of(response) for name, response in _responses(session).items()}
    return answers, revision(root)


def _is_refused_or_whole(death: Death, kept: Mapping[str, bytes]) -> bool:
    with _resuming(death) as (root, model):
        if death.chance.random() < 0.5:
            opened(root).close()  # merges the logs into the files
        _damage(root, death.chance)
        try:
            with opened(root) as session:
                work(session, model, death.log_with(model))
                if not kept.items() <= _responses(session).items():
                    return False
        except ContextError:
            pass
        return not model.received().keys() & kept.keys()


def _damage(root: Path, chance: random.Random) -> None:
    """Flips some bytes of the journal, of its log or of the record, or cuts it off."""
    log = root / f"{FILE_NAME}-wal"
    file = chance.choice([log if log.exists() else root / FILE_NAME, root / FILE_NAME, root / RECORD_NAME])
    data = bytearray(file.read_bytes())
    if chance.random() < 0.3:
        del data[chance.randrange(1, len(data)) :]
    else:
        start = chance.randrange(len(data))
        for at in range(start, min(start + chance.choice([1, 16, 512]), len(data))):
            data[at] ^= chance.randrange(1, 256)
    file.write_bytes(data)


def _together(root: Path, act: Callable[[ContextSession, int], str]) -> list[str]:
    """What `act` gives to each of several that resume at the same time."""
    barrier = Barrier(_RESUMERS, timeout=_SECONDS_MAX)

    def resume(number: int) -> str:
        with opened(root) as session:
            barrier.wait()
            return act(session, number)

    with ThreadPoolExecutor(_RESUMERS) as pool:
        return list(pool.map(resume, range(_RESUMERS)))


def _called_once(death: Death) -> bool:
    """Whether one calls where nobody had, and all that get an answer get the same."""

    def call(session: ContextSession, number: int) -> str:
        try:
            return ask(session, model, KILLED)
        except _WAIT:
            return ""

    with _resuming(death) as (root, model):
        found = _found(root)
        answers = set(_together(root, call)) - {""}
        calls = model.received().get(KILLED, 0)
    return (len(answers), calls) == {None: (1, 1), State.PREPARED: (1, 1), State.DISPATCHED: (0, 0)}.get(found, (1, 0))


def _settled_once(death: Death) -> bool:
    """Whether one of several different settlements of an unknown outcome holds, and all are answered by it."""

    def settle_so(session: ContextSession, number: int) -> str:
        try:
            session.reconcile(KILLED, response=f"found {number}", evidence="a log")
        except IdempotencyConflict:
            return ""
        return f"found {number}"

    with _resuming(death) as (root, model):
        if _found(root) is not State.DISPATCHED:
            return True
        held = set(_together(root, settle_so)) - {""}
        return len(held) == 1 and set(_together(root, lambda session, _: ask(session, model, KILLED))) == held


def _late_response_taken_once(death: Death) -> bool:
    """Whether, after an explicit retry, one of several late responses attaches to the attempt that it answers, and the
    retry's stays what is replayed."""
    with _resuming(death) as (root, model):
        if _found(root) is not State.DISPATCHED:
            return True
        with opened(root) as session:
            first = session.journal.invocations.newest(KILLED)
            answer = ask(session, model, KILLED, retry=_RETRY)

        def respond(session: ContextSession, number: int) -> str:
            assert first is not None
            try:
                session.journal.invocations.respond(first, encoded(f"late {number}"), usable=True)
            except IdempotencyConflict:
                return ""
            return f"late {number}"

        taken = set(_together(root, respond)) - {""}
        return len(taken) == 1 and set(_together(root, lambda session, _: ask(session, model, KILLED))) == {answer}


def _found(root: Path) -> State | None:
    """Where the call stands in which the worker died."""
    with opened(root) as session:
        newest = session.journal.invocations.newest(KILLED)
    return None if newest is None else newest.state
