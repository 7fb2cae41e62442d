"""Makes `litellm.completion` and `litellm.acompletion` managed inside a turn, however they were imported, and refuses
litellm's other ways to have a model write text, which nobody would count and journal.

The functions' code is replaced once, so that names bound earlier (`from litellm import completion`, partials, a Router)
are reached too. Outside of a turn, and inside of our own dispatch, the original code runs unchanged. litellm marks what
calls a provider with a decorator of its own, `client`: whatever it decorates, now or later, is refused in a turn unless
it is known not to write text. Preconditions are checked first: on a litellm that looks different nothing is touched and
no model is called.
"""

from __future__ import annotations

import inspect
import re
import sys
import threading
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, Final

from mn_contract.errors import DependencyUnavailable, UnmanagedCall
from mn_sdk.context_session import strays
from mn_sdk.context_session.wiretap import within_dispatch

if TYPE_CHECKING:
    from mn_sdk.context_session.turn import Turn

_lock: Final = threading.Lock()
_originals: Final[dict[str, Any]] = {}
_guarded: Final[list[Any]] = []
"""The originals of what is refused in a turn, by the number in the code that stands for each."""

_UNDECORATED: Final = (
    "batch_completion", "batch_completion_models", "batch_completion_models_all_responses", "run_thread", "arun_thread",
    "run_thread_stream", "arun_thread_stream",
)  # fmt: skip
"""Functions of litellm's that write text and carry no decorator: they send from threads, where no turn is ambient, or
by a client of their own."""
_WRITES_NO_TEXT: Final = re.compile(
    r"litellm\.(containers|files|fine_tuning|images|rerank_api|sandbox|search|skills|vector_store_files|vector_stores|"
    r"videos|proxy)\..*"
    r"|.*\.a?(embedding|moderation|transcription|speech|ingest|cancel|delete|get|list|retrieve|update|upload)(_\w+)?"
)
"""What is decorated and may be called in a turn, by module and name."""


def install(litellm: ModuleType) -> None:
    """Puts the interception in place; once a process. Raises DependencyUnavailable on an unknown litellm."""
    with _lock:
        if _originals:
            return
        sync: Any = getattr(litellm, "completion", None)
        coroutine: Any = getattr(litellm, "acompletion", None)
        _check(sync, coroutine, getattr(getattr(litellm, "utils", None), "client", None))
        _originals.update(completion=_copy(sync), acompletion=_copy(coroutine))
        _replace(sync, _SYNC)
        _replace(coroutine, _ASYNC)
        decorator = litellm.utils.client
        for function in (*_decorated(decorator), *(getattr(litellm, name, None) for name in _UNDECORATED)):
            _guard(function)
        strays.install()
        _originals["client"] = _copy(decorator)
        _replace(decorator, _DECORATOR)


def original_completion(**arguments: Any) -> Any:
    """litellm's own completion."""
    return _originals["completion"](**arguments)


async def original_acompletion(**arguments: Any) -> Any:
    """litellm's own acompletion."""
    return await _originals["acompletion"](**arguments)


def enter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `litellm.completion` runs."""
    from mn_sdk.context_session.turn import ambient

    turn = ambient()
    if turn is None:
        _check_strayed("completion")
        with within_dispatch(kwargs.get("logger_fn")):
            return _originals["completion"](*args, **kwargs)
    return turn.call(_named(args, kwargs))


async def aenter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `litellm.acompletion` runs."""
    from mn_sdk.context_session.turn import ambient

    turn = ambient()
    if turn is None:
        _check_strayed("acompletion")
        with within_dispatch(kwargs.get("logger_fn")):
            return await _originals["acompletion"](*args, **kwargs)
    return await turn.acall(_named(args, kwargs))


def decorate(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What litellm's decorator runs: functions that are loaded later are refused in a turn as well."""
    function = _originals["client"](*args, **kwargs)
    _guard(function)
    return function


def outside(number: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What a guarded function runs. Raises UnmanagedCall in a turn."""
    from mn_sdk.context_session.turn import ambient

    turn = ambient()
    if turn is not None:
        raise _refused(
            turn,
            f"litellm's {_guarded[number].__name__} would be neither counted nor journaled in turn {turn.name!r}; use "
            "litellm.completion, or call it outside of the turn",
        )
    _check_strayed(_guarded[number].__name__)
    return _guarded[number](*args, **kwargs)


def _check_strayed(name: str) -> None:
    """Raises UnmanagedCall in a thread that was started in a turn and does not carry its context."""
    turn = strays.strayed_from()
    if turn is not None:
        raise _refused(
            turn,
            f"litellm's {name} was called in a thread that turn {turn.name!r} started and that does not carry its "
            "context; start it with contextvars.copy_context().run or asyncio.to_thread",
        )


def _refused(turn: Turn, text: str) -> UnmanagedCall:
    refusal = UnmanagedCall(text, name=turn.name)
    turn.refused(refusal)
    return refusal


def _decorated(decorator: FunctionType) -> Iterator[Any]:
    """What litellm's modules hold of the decorator's work."""
    made = {code.co_name for code in decorator.__code__.co_consts if isinstance(code, CodeType)}
    for name, module in list(sys.modules.items()):
        for value in list(vars(module).values()) if name.startswith("litellm.") else ():
            if isinstance(value, FunctionType) and hasattr(value, "__wrapped__"):
                code = value.__code__
                if code.co_name in made and code.co_filename == decorator.__code__.co_filename:
                    yield value


def _guard(function: Any) -> None:
    if not isinstance(function, FunctionType) or _WRITES_NO_TEXT.fullmatch(
        f"{function.__module__}.{function.__name__}"
    ):
        return
    source = _GUARDED_ASYNC if inspect.iscoroutinefunction(function) else _GUARDED
    original = _copy(function)
    _replace(function, source.replace("NUMBER", str(len(_guarded))))
    _guarded.append(original)


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The arguments by name."""
    if not args:
        return kwargs
    names = list(inspect.signature(_originals["completion"]).parameters)
    return {**dict(zip(names, args, strict=False)), **kwargs}


_SYNC: Final = """
def managed(*args, **kwargs):
    {closure}
    from mn_sdk.context_session.interception import enter
    return enter(args, kwargs)
"""
_ASYNC: Final = """
async def managed(*args, **kwargs):
    {closure}
    from mn_sdk.context_session.interception import aenter
    return await aenter(args, kwargs)
"""
_DECORATOR: Final = """
def managed(*args, **kwargs):
    {closure}
    from mn_sdk.context_session.interception import decorate
    return decorate(args, kwargs)
"""
_GUARDED: Final = """
def managed(*args, **kwargs):
    {closure}
    from mn_sdk.context_session.interception import outside
    return outside(NUMBER, args, kwargs)
"""
_GUARDED_ASYNC: Final = """
async def managed(*args, **kwargs):
    {closure}
    from mn_sdk.context_session.interception import outside
    return await outside(NUMBER, args, kwargs)
"""


def _replace(function: FunctionType, source: str) -> None:
    """Has a function run other code under the signature that it had."""
    code = _code(source, function.__code__)
    if not hasattr(function, "__wrapped__"):
        function.__signature__ = inspect.signature(function)  # type: ignore[attr-defined]
    function.__code__ = code


def _code(source: str, replaced: CodeType) -> CodeType:
    """The code of `source`, with the free variables that a function's closure obliges its code to have."""
    names = replaced.co_freevars
    closure = ", ".join(names) if names else "None"
    body = source.format(closure=closure).replace("\n", "\n    ")
    outer = f"def outer({', '.join(names)}):{body}\n    return managed\n"
    namespace: dict[str, Any] = {}
    exec(compile(outer, __file__, "exec"), namespace)
    made: FunctionType = namespace["outer"](*names)
    if made.__code__.co_freevars != names:
        raise DependencyUnavailable("litellm's functions cannot be managed on this Python", dependency="litellm")
    return made.__code__


def _copy(function: FunctionType) -> FunctionType:
    """A function with the original code, untouched by what becomes of the original function."""
    copied = FunctionType(
        function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__
    )
    copied.__kwdefaults__ = function.__kwdefaults__
    copied.__dict__.update(function.__dict__)
    return copied


def _check(sync: Any, coroutine: Any, decorator: Any) -> None:
    known = (
        isinstance(sync, FunctionType)
        and isinstance(decorator, FunctionType)
        and isinstance(coroutine, FunctionType)
        and not inspect.iscoroutinefunction(sync)
        and inspect.iscoroutinefunction(coroutine)
        and all(function.__code__.co_flags & inspect.CO_VARKEYWORDS for function in (sync, coroutine))
        and list(inspect.signature(sync).parameters)[:2] == ["model", "messages"]
    )
    if not known:
        raise DependencyUnavailable(
            "this version of litellm is not known: its functions have another form; install a version that "
            "this package was tested with",
            dependency="litellm",
        )
