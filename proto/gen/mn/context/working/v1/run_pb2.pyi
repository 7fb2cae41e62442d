from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RunState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    RUN_STATE_UNSPECIFIED: _ClassVar[RunState]
    RUN_STATE_OPEN: _ClassVar[RunState]
    RUN_STATE_CANCELLED: _ClassVar[RunState]
    RUN_STATE_CLEARED: _ClassVar[RunState]

class Removal(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    REMOVAL_UNSPECIFIED: _ClassVar[Removal]
    REMOVAL_LOGICAL: _ClassVar[Removal]
    REMOVAL_PHYSICAL: _ClassVar[Removal]
RUN_STATE_UNSPECIFIED: RunState
RUN_STATE_OPEN: RunState
RUN_STATE_CANCELLED: RunState
RUN_STATE_CLEARED: RunState
REMOVAL_UNSPECIFIED: Removal
REMOVAL_LOGICAL: Removal
REMOVAL_PHYSICAL: Removal

class Run(_message.Message):
    __slots__ = ("job_id", "run_id", "state", "revision", "stored_bytes", "max_stored_bytes", "opened_at", "reason")
    JOB_ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    OPENED_AT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    job_id: str
    run_id: str
    state: RunState
    revision: int
    stored_bytes: int
    max_stored_bytes: int
    opened_at: _timestamp_pb2.Timestamp
    reason: str
    def __init__(self, job_id: _Optional[str] = ..., run_id: _Optional[str] = ..., state: _Optional[_Union[RunState, str]] = ..., revision: _Optional[int] = ..., stored_bytes: _Optional[int] = ..., max_stored_bytes: _Optional[int] = ..., opened_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class OpenRunRequest(_message.Message):
    __slots__ = ("max_stored_bytes",)
    MAX_STORED_BYTES_FIELD_NUMBER: _ClassVar[int]
    max_stored_bytes: int
    def __init__(self, max_stored_bytes: _Optional[int] = ...) -> None: ...

class OpenRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class GetRunRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class CancelRunRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class CancelRunResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: Run
    def __init__(self, run: _Optional[_Union[Run, _Mapping]] = ...) -> None: ...

class ClearRunRequest(_message.Message):
    __slots__ = ("reason",)
    REASON_FIELD_NUMBER: _ClassVar[int]
    reason: str
    def __init__(self, reason: _Optional[str] = ...) -> None: ...

class Tombstone(_message.Message):
    __slots__ = ("revision", "root_sha256", "cleared_at", "removal")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ROOT_SHA256_FIELD_NUMBER: _ClassVar[int]
    CLEARED_AT_FIELD_NUMBER: _ClassVar[int]
    REMOVAL_FIELD_NUMBER: _ClassVar[int]
    revision: int
    root_sha256: str
    cleared_at: _timestamp_pb2.Timestamp
    removal: Removal
    def __init__(self, revision: _Optional[int] = ..., root_sha256: _Optional[str] = ..., cleared_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., removal: _Optional[_Union[Removal, str]] = ...) -> None: ...

class ClearRunResponse(_message.Message):
    __slots__ = ("tombstone",)
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    tombstone: Tombstone
    def __init__(self, tombstone: _Optional[_Union[Tombstone, _Mapping]] = ...) -> None: ...

class WatchRevisionsRequest(_message.Message):
    __slots__ = ("after_revision",)
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    after_revision: int
    def __init__(self, after_revision: _Optional[int] = ...) -> None: ...

class WatchRevisionsResponse(_message.Message):
    __slots__ = ("revision", "state")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    revision: int
    state: RunState
    def __init__(self, revision: _Optional[int] = ..., state: _Optional[_Union[RunState, str]] = ...) -> None: ...
