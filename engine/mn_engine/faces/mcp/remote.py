"""Tool calls put to an engine that is dialled over gRPC: the same tools, checked here and answered there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

import grpc
from google.protobuf.json_format import ParseDict, ParseError
from google.protobuf.message import Message

from mn_contract.addresses import Address
from mn_contract.dialling import error_of, target
from mn_contract.errors import InvalidInput
from mn_contract.limits import ERROR_DETAIL_BYTES_MAX, MESSAGE_BYTES_MAX
from mn_engine.domain.packs import Format
from mn_engine.domain.scope import Scope
from mn_engine.domain.times import format_rfc3339, parse_rfc3339
from mn_engine.faces.asking import Asking
from mn_engine.faces.gate import AUTHORIZATION, DETAIL_BYTES_MAX, JOB, PRINCIPAL, ROLES, RUN
from mn_engine.faces.mcp.server import Answer
from mn_engine.service.operations import OPERATIONS
from mn_engine.wire.codecs import CODECS
from mn_engine.wire.tools import Tool

_OPTIONS: Final = (
    ("grpc.max_send_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_receive_message_length", MESSAGE_BYTES_MAX),
    ("grpc.max_metadata_size", 2 * ERROR_DETAIL_BYTES_MAX),
    ("grpc.absolute_max_metadata_size", 2 * ERROR_DETAIL_BYTES_MAX),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


@asynccontextmanager
async def dialled(replicas: Sequence[Address], token: str) -> AsyncIterator[Answer]:
    """How tools are answered by the engine at one of `replicas`. `token` is its bearer, or empty."""
    bearer = ((AUTHORIZATION, f"Bearer {token}"),) if token else ()
    async with grpc.aio.insecure_channel(target(replicas), options=_OPTIONS) as channel:

        async def answer(asking: Asking, tool: Tool, arguments: Any) -> Any:
            codec = CODECS[tool.operation]
            method = channel.unary_unary(
                f"/{OPERATIONS[tool.operation].service}/{tool.operation}",
                request_serializer=codec.request.SerializeToString,
                response_deserializer=codec.answer.FromString,
            )
            request = _request(tool, arguments)
            metadata = (*_metadata(asking.scope), *bearer)
            try:
                told: Any = await method(request, timeout=max(asking.remaining(), 0.0), metadata=metadata)
            except grpc.RpcError as error:
                raise error_of(error) from error
            text = told.document.decode("utf-8")
            return text if arguments.get("format") == Format.MARKDOWN.value else json.loads(text)

        yield answer


def _metadata(scope: Scope) -> tuple[tuple[str, str], ...]:
    roles = ((ROLES, ",".join(sorted(scope.roles))),) if scope.roles else ()
    named = ((JOB, scope.job_id), (RUN, scope.run_id), (PRINCIPAL, scope.principal))
    return (*named, *roles, (DETAIL_BYTES_MAX, str(ERROR_DETAIL_BYTES_MAX)))


def _request(tool: Tool, arguments: Any) -> Message:
    """A tool's arguments as its operation's message. Raises InvalidInput, as the tool itself would."""
    tool.read(arguments)
    times = {name for name, schema in tool.properties.items() if schema.get("format") == "date-time"}
    plain = {
        name: format_rfc3339(parse_rfc3339(value, name)) if name in times else value
        for name, value in arguments.items()
    }
    try:
        return ParseDict(plain, CODECS[tool.operation].request())
    except ParseError as error:
        raise InvalidInput(f"{tool.name}: the arguments do not fit a message", field="arguments") from error
