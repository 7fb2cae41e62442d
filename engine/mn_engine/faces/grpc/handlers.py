"""Every operation of the table as a gRPC method: scope from metadata, deadline from the call, errors as statuses."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.message import Message
from grpc_status import rpc_status

from mn_contract.errors import ContextError, DependencyUnavailable
from mn_contract.limits import ERROR_DETAIL_BYTES_DEFAULT, ERROR_DETAIL_BYTES_MAX
from mn_engine.domain.failures import place_of
from mn_engine.faces.exchange import exchange
from mn_engine.faces.gate import DETAIL_BYTES_MAX, Gate, headers_of
from mn_engine.faces.grpc.lanes import Lanes, on
from mn_engine.faces.grpc.uploads import Uploads
from mn_engine.service.engine import Call, Engine
from mn_engine.service.operations import OPERATIONS, Operation, Shape
from mn_engine.wire.codecs import CODECS
from mn_engine.wire.errors import INTERNAL_MESSAGE, status_of

_log = logging.getLogger("mn_engine.grpc")
_ROOM_DIGITS_MAX: Final = 9
_MAKERS: Final[dict[Shape, Callable[..., Any]]] = {
    Shape.UNARY: grpc.unary_unary_rpc_method_handler,
    Shape.UPLOAD: grpc.stream_unary_rpc_method_handler,
    Shape.STREAM: grpc.unary_stream_rpc_method_handler,
}


class Handlers(grpc.GenericRpcHandler):
    """The operation table as gRPC methods. Serves nothing until an engine is there."""

    def __init__(self, gate: Gate, lanes: Lanes, uploads: Uploads) -> None:
        self._gate = gate
        self._uploads = uploads
        self._engine: Engine | None = None
        self._methods = {
            f"/{operation.service}/{name}": self._method(name, operation, lanes)
            for name, operation in OPERATIONS.items()
        }

    def serve(self, engine: Engine) -> None:
        """From now on calls are answered."""
        self._engine = engine

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        return self._methods.get(handler_call_details.method)

    def _method(self, name: str, operation: Operation, lanes: Lanes) -> Any:
        behaviours: dict[Shape, Callable[[str], Callable[..., Any]]] = {
            Shape.UNARY: self._answered,
            Shape.UPLOAD: self._uploaded,
            Shape.STREAM: self._streamed,
        }
        # Requests are parsed by us: what grpc cannot parse itself ends without the contract's error.
        return _MAKERS[operation.shape](
            on(lanes[operation.lane], behaviours[operation.shape](name)),
            request_deserializer=None,
            response_serializer=CODECS[name].answer.SerializeToString,
        )

    def _answered(self, name: str) -> Callable[[bytes, grpc.ServicerContext], Message]:
        parse = CODECS[name].parse
        return self._ended(name, lambda request, context: self._exchange(name, parse(request), context))

    def _uploaded(self, name: str) -> Callable[[Iterator[bytes], grpc.ServicerContext], Message]:
        parse = CODECS[name].parse

        def upload(requests: Iterator[bytes], context: grpc.ServicerContext) -> Any:
            with self._uploads.place():
                return self._exchange(name, map(parse, self._uploads.received(requests)), context)

        return self._ended(name, upload)

    def _ended(
        self, name: str, exchange_it: Callable[[Any, grpc.ServicerContext], Any]
    ) -> Callable[[Any, grpc.ServicerContext], Message]:
        def answer(request: Any, context: grpc.ServicerContext) -> Message:
            try:
                answered: Message = exchange_it(request, context)
            except ContextError as error:
                abort(context, error)
            except grpc.RpcError:  # the caller has gone
                raise
            except Exception as error:  # noqa: BLE001  (the outermost handler: our faults end in the log, not in text)
                fail(context, name, error)
            return answered

        return answer

    def _streamed(self, name: str) -> Callable[[bytes, grpc.ServicerContext], Iterator[Message]]:
        parse = CODECS[name].parse

        def stream(request: bytes, context: grpc.ServicerContext) -> Iterator[Message]:
            try:
                yield from self._exchange(name, parse(request), context)
            except ContextError as error:
                abort(context, error)
            except grpc.RpcError:
                raise
            except Exception as error:  # noqa: BLE001  (as above)
                fail(context, name, error)

        return stream

    def _exchange(self, name: str, request: Any, context: grpc.ServicerContext) -> Any:
        engine = self._engine
        if engine is None:
            raise DependencyUnavailable("the record is being opened", dependency="engine", retry_after_ms=500)
        scope = self._gate.admit(headers_of(context.invocation_metadata()))
        _log.debug("%s job=%s run=%s principal=%s", name, scope.job_id, scope.run_id, scope.principal)
        return exchange(engine, name, scope, Call(remaining=lambda: _remaining(context)), request)


def abort(context: grpc.ServicerContext, error: ContextError) -> NoReturn:
    """Ends the call with the error's status. Always raises."""
    asked = next((str(value) for name, value in context.invocation_metadata() if name == DETAIL_BYTES_MAX), "")
    told = asked.isdecimal() and len(asked) <= _ROOM_DIGITS_MAX
    room = min(int(asked), ERROR_DETAIL_BYTES_MAX) if told else ERROR_DETAIL_BYTES_DEFAULT
    _log.info("refused reason=%s", error.reason)
    context.abort_with_status(rpc_status.to_status(status_of(error, detail_bytes_max=room)))


def fail(context: grpc.ServicerContext, name: str, error: Exception) -> NoReturn:
    """Ends the call after a fault of ours: type and place go to the log, contents nowhere. Always raises."""
    _log.error("%s failed: %s", name, place_of(error))
    context.abort(grpc.StatusCode.INTERNAL, INTERNAL_MESSAGE)


def _remaining(context: grpc.ServicerContext) -> float:
    if not context.is_active():
        return 0.0
    remaining = context.time_remaining()
    return math.inf if remaining is None else float(remaining)
