from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class InvocationState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INVOCATION_STATE_UNSPECIFIED: _ClassVar[InvocationState]
    INVOCATION_STATE_PREPARED: _ClassVar[InvocationState]
    INVOCATION_STATE_DISPATCHED: _ClassVar[InvocationState]
    INVOCATION_STATE_RESPONDED: _ClassVar[InvocationState]
    INVOCATION_STATE_COMPLETED: _ClassVar[InvocationState]
    INVOCATION_STATE_FAILED_DEFINITE: _ClassVar[InvocationState]
    INVOCATION_STATE_AMBIGUOUS: _ClassVar[InvocationState]
    INVOCATION_STATE_RECONCILED: _ClassVar[InvocationState]
    INVOCATION_STATE_SUPERSEDED: _ClassVar[InvocationState]
INVOCATION_STATE_UNSPECIFIED: InvocationState
INVOCATION_STATE_PREPARED: InvocationState
INVOCATION_STATE_DISPATCHED: InvocationState
INVOCATION_STATE_RESPONDED: InvocationState
INVOCATION_STATE_COMPLETED: InvocationState
INVOCATION_STATE_FAILED_DEFINITE: InvocationState
INVOCATION_STATE_AMBIGUOUS: InvocationState
INVOCATION_STATE_RECONCILED: InvocationState
INVOCATION_STATE_SUPERSEDED: InvocationState

class Invocation(_message.Message):
    __slots__ = ("name", "attempt", "state", "fingerprint", "epoch", "response", "response_usable", "retry", "evidence", "request_sha256", "roles")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_USABLE_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_SHA256_FIELD_NUMBER: _ClassVar[int]
    ROLES_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    state: InvocationState
    fingerprint: str
    epoch: int
    response: bytes
    response_usable: bool
    retry: str
    evidence: str
    request_sha256: str
    roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ..., state: _Optional[_Union[InvocationState, str]] = ..., fingerprint: _Optional[str] = ..., epoch: _Optional[int] = ..., response: _Optional[bytes] = ..., response_usable: bool = ..., retry: _Optional[str] = ..., evidence: _Optional[str] = ..., request_sha256: _Optional[str] = ..., roles: _Optional[_Iterable[str]] = ...) -> None: ...

class BeginInvocationRequest(_message.Message):
    __slots__ = ("name", "holder", "lease_ms", "retry", "fingerprint", "abandoned_holder")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    LEASE_MS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_HOLDER_FIELD_NUMBER: _ClassVar[int]
    name: str
    holder: str
    lease_ms: int
    retry: str
    fingerprint: str
    abandoned_holder: str
    def __init__(self, name: _Optional[str] = ..., holder: _Optional[str] = ..., lease_ms: _Optional[int] = ..., retry: _Optional[str] = ..., fingerprint: _Optional[str] = ..., abandoned_holder: _Optional[str] = ...) -> None: ...

class BeginInvocationResponse(_message.Message):
    __slots__ = ("invocation",)
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    invocation: Invocation
    def __init__(self, invocation: _Optional[_Union[Invocation, _Mapping]] = ...) -> None: ...

class DispatchInvocationRequest(_message.Message):
    __slots__ = ("name", "attempt", "epoch", "request_sha256", "max_calls")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    REQUEST_SHA256_FIELD_NUMBER: _ClassVar[int]
    MAX_CALLS_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    epoch: int
    request_sha256: str
    max_calls: int
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ..., epoch: _Optional[int] = ..., request_sha256: _Optional[str] = ..., max_calls: _Optional[int] = ...) -> None: ...

class DispatchInvocationResponse(_message.Message):
    __slots__ = ("invocation",)
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    invocation: Invocation
    def __init__(self, invocation: _Optional[_Union[Invocation, _Mapping]] = ...) -> None: ...

class RespondInvocationRequest(_message.Message):
    __slots__ = ("name", "attempt", "outcome", "response", "response_usable", "evidence", "epoch")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_USABLE_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    outcome: InvocationState
    response: bytes
    response_usable: bool
    evidence: str
    epoch: int
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ..., outcome: _Optional[_Union[InvocationState, str]] = ..., response: _Optional[bytes] = ..., response_usable: bool = ..., evidence: _Optional[str] = ..., epoch: _Optional[int] = ...) -> None: ...

class RespondInvocationResponse(_message.Message):
    __slots__ = ("invocation",)
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    invocation: Invocation
    def __init__(self, invocation: _Optional[_Union[Invocation, _Mapping]] = ...) -> None: ...

class CompleteInvocationRequest(_message.Message):
    __slots__ = ("name", "attempt")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class CompleteInvocationResponse(_message.Message):
    __slots__ = ("invocation",)
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    invocation: Invocation
    def __init__(self, invocation: _Optional[_Union[Invocation, _Mapping]] = ...) -> None: ...

class ReconcileInvocationRequest(_message.Message):
    __slots__ = ("name", "evidence", "response", "not_executed", "abandoned_holder")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EVIDENCE_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_FIELD_NUMBER: _ClassVar[int]
    NOT_EXECUTED_FIELD_NUMBER: _ClassVar[int]
    ABANDONED_HOLDER_FIELD_NUMBER: _ClassVar[int]
    name: str
    evidence: str
    response: bytes
    not_executed: bool
    abandoned_holder: str
    def __init__(self, name: _Optional[str] = ..., evidence: _Optional[str] = ..., response: _Optional[bytes] = ..., not_executed: bool = ..., abandoned_holder: _Optional[str] = ...) -> None: ...

class ReconcileInvocationResponse(_message.Message):
    __slots__ = ("invocation",)
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    invocation: Invocation
    def __init__(self, invocation: _Optional[_Union[Invocation, _Mapping]] = ...) -> None: ...

class GetInvocationRequest(_message.Message):
    __slots__ = ("name", "attempt")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class GetInvocationResponse(_message.Message):
    __slots__ = ("invocation", "run_calls")
    INVOCATION_FIELD_NUMBER: _ClassVar[int]
    RUN_CALLS_FIELD_NUMBER: _ClassVar[int]
    invocation: Invocation
    run_calls: int
    def __init__(self, invocation: _Optional[_Union[Invocation, _Mapping]] = ..., run_calls: _Optional[int] = ...) -> None: ...
