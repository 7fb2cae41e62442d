"""What every protobuf face does with a message once it knows who asks: decode -> operation -> encode."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mn_engine.domain.scope import Scope
from mn_engine.service.engine import Call, Engine
from mn_engine.service.operations import OPERATIONS, Shape
from mn_engine.wire.codecs import CODECS
from mn_engine.wire.table import naming


def exchange(engine: Engine, name: str, scope: Scope, call: Call, request: Any) -> Any:
    """Runs operation `name`. `request` and the answer are messages, or iterators of them where the shape says so.

    Raises the contract's errors; for a stream some may come while it is read.
    """
    operation, codec = OPERATIONS[name], CODECS[name]
    with naming(name):
        result = operation.run(engine, scope, call, **codec.decode(request))
    if operation.shape is Shape.STREAM:
        return _stream(name, scope, result)
    return codec.encode(result, scope)


def _stream(name: str, scope: Scope, results: Iterator[Any]) -> Iterator[Any]:
    encode = CODECS[name].encode
    for result in results:
        yield encode(result, scope)
