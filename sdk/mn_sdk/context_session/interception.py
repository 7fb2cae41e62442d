"""Makes `litellm.completion` and `litellm.acompletion` managed inside a turn, however they were imported.

The two functions' code is replaced once, so that names bound earlier (`from litellm import completion`, partials, a
Router) are reached too. Outside of a turn, and inside of our own dispatch, the original code runs unchanged.
Preconditions are checked first: on a litellm that looks different nothing is touched and no model is called.
"""

from __future__ import annotations

import inspect
import threading
from types import CodeType, FunctionType, ModuleType
from typing import Any, Final

from mn_contract.errors import DependencyUnavailable

_lock: Final = threading.Lock()
_originals: Final[dict[str, Any]] = {}


def install(litellm: ModuleType) -> None:
    """Puts the interception in place; once a process. Raises DependencyUnavailable on an unknown litellm."""
    with _lock:
        if _originals:
            return
        sync: Any = getattr(litellm, "completion", None)
        coroutine: Any = getattr(litellm, "acompletion", None)
        _check(sync, coroutine)
        _originals.update(completion=_copy(sync), acompletion=_copy(coroutine))
        sync.__code__ = _code(_SYNC, sync.__code__)
        coroutine.__code__ = _code(_ASYNC, coroutine.__code__)


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
        return _originals["completion"](*args, **kwargs)
    return turn.call(_named(args, kwargs))


async def aenter(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """What `litellm.acompletion` runs."""
    from mn_sdk.context_session.turn import ambient

    turn = ambient()
    if turn is None:
        return await _originals["acompletion"](*args, **kwargs)
    return await turn.acall(_named(args, kwargs))


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


def _check(sync: Any, coroutine: Any) -> None:
    known = (
        isinstance(sync, FunctionType)
        and isinstance(coroutine, FunctionType)
        and not inspect.iscoroutinefunction(sync)
        and inspect.iscoroutinefunction(coroutine)
        and all(function.__code__.co_flags & inspect.CO_VARKEYWORDS for function in (sync, coroutine))
        and list(inspect.signature(sync).parameters)[:2] == ["model", "messages"]
    )
    if not known:
        raise DependencyUnavailable(
            "this version of litellm is not known: its completion functions have another form; install a version that "
            "this package was tested with",
            dependency="litellm",
        )
