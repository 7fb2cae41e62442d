from google.protobuf import timestamp_pb2 as _timestamp_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetContextRequest(_message.Message):
    __slots__ = ("task", "format", "model", "token_budget", "session_id", "items", "pin", "pinned", "topics", "claims", "entities", "required", "as_of", "counter_share", "cursor")
    TASK_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    TOKEN_BUDGET_FIELD_NUMBER: _ClassVar[int]
    SESSION_ID_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    PIN_FIELD_NUMBER: _ClassVar[int]
    PINNED_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    COUNTER_SHARE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    task: str
    format: str
    model: str
    token_budget: int
    session_id: str
    items: str
    pin: bool
    pinned: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    claims: _containers.RepeatedScalarFieldContainer[str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    required: _containers.RepeatedScalarFieldContainer[str]
    as_of: _timestamp_pb2.Timestamp
    counter_share: float
    cursor: str
    def __init__(self, task: _Optional[str] = ..., format: _Optional[str] = ..., model: _Optional[str] = ..., token_budget: _Optional[int] = ..., session_id: _Optional[str] = ..., items: _Optional[str] = ..., pin: bool = ..., pinned: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., claims: _Optional[_Iterable[str]] = ..., entities: _Optional[_Iterable[str]] = ..., required: _Optional[_Iterable[str]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., counter_share: _Optional[float] = ..., cursor: _Optional[str] = ...) -> None: ...

class GetContextResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class QueryMemoryRequest(_message.Message):
    __slots__ = ("ask", "find", "layers", "entities", "as_of", "valid_only", "min_relevance", "min_trust", "budget_tokens", "model", "expand", "k", "cursor")
    ASK_FIELD_NUMBER: _ClassVar[int]
    FIND_FIELD_NUMBER: _ClassVar[int]
    LAYERS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    VALID_ONLY_FIELD_NUMBER: _ClassVar[int]
    MIN_RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    MIN_TRUST_FIELD_NUMBER: _ClassVar[int]
    BUDGET_TOKENS_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    EXPAND_FIELD_NUMBER: _ClassVar[int]
    K_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ask: str
    find: str
    layers: _containers.RepeatedScalarFieldContainer[str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    as_of: _timestamp_pb2.Timestamp
    valid_only: bool
    min_relevance: float
    min_trust: float
    budget_tokens: int
    model: str
    expand: str
    k: int
    cursor: str
    def __init__(self, ask: _Optional[str] = ..., find: _Optional[str] = ..., layers: _Optional[_Iterable[str]] = ..., entities: _Optional[_Iterable[str]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_only: bool = ..., min_relevance: _Optional[float] = ..., min_trust: _Optional[float] = ..., budget_tokens: _Optional[int] = ..., model: _Optional[str] = ..., expand: _Optional[str] = ..., k: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class QueryMemoryResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class ExpandRequest(_message.Message):
    __slots__ = ("ref", "direction", "cursor")
    REF_FIELD_NUMBER: _ClassVar[int]
    DIRECTION_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ref: str
    direction: str
    cursor: str
    def __init__(self, ref: _Optional[str] = ..., direction: _Optional[str] = ..., cursor: _Optional[str] = ...) -> None: ...

class ExpandResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class SearchRequest(_message.Message):
    __slots__ = ("query",)
    QUERY_FIELD_NUMBER: _ClassVar[int]
    query: str
    def __init__(self, query: _Optional[str] = ...) -> None: ...

class SearchResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class FetchRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class FetchResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class RememberThisRequest(_message.Message):
    __slots__ = ("text", "kind", "topics", "entities", "source_url", "confidence", "occurred_at", "supersedes", "contradicts", "key", "valid_from", "valid_until")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URL_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDES_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    text: str
    kind: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    source_url: str
    confidence: float
    occurred_at: _timestamp_pb2.Timestamp
    supersedes: _containers.RepeatedScalarFieldContainer[str]
    contradicts: _containers.RepeatedScalarFieldContainer[str]
    key: str
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    def __init__(self, text: _Optional[str] = ..., kind: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., entities: _Optional[_Iterable[str]] = ..., source_url: _Optional[str] = ..., confidence: _Optional[float] = ..., occurred_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., supersedes: _Optional[_Iterable[str]] = ..., contradicts: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ..., valid_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class RememberThisResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class ProposeMemoryRequest(_message.Message):
    __slots__ = ("text", "topics", "entities", "source_url", "confidence", "occurred_at", "contradicts", "key", "valid_from", "valid_until")
    TEXT_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URL_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTS_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    text: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    source_url: str
    confidence: float
    occurred_at: _timestamp_pb2.Timestamp
    contradicts: _containers.RepeatedScalarFieldContainer[str]
    key: str
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    def __init__(self, text: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., entities: _Optional[_Iterable[str]] = ..., source_url: _Optional[str] = ..., confidence: _Optional[float] = ..., occurred_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., contradicts: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ..., valid_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class ProposeMemoryResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class RecordEpisodeRequest(_message.Message):
    __slots__ = ("content", "source", "occurred_at", "entities", "key")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    content: str
    source: str
    occurred_at: _timestamp_pb2.Timestamp
    entities: _containers.RepeatedScalarFieldContainer[str]
    key: str
    def __init__(self, content: _Optional[str] = ..., source: _Optional[str] = ..., occurred_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., entities: _Optional[_Iterable[str]] = ..., key: _Optional[str] = ...) -> None: ...

class RecordEpisodeResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class UpsertFactRequest(_message.Message):
    __slots__ = ("subject", "predicate", "object", "valid_from", "valid_until", "singular", "qualifier", "source_episode", "source_range", "confidence", "key")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    SINGULAR_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    SOURCE_EPISODE_FIELD_NUMBER: _ClassVar[int]
    SOURCE_RANGE_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    subject: str
    predicate: str
    object: str
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    singular: bool
    qualifier: str
    source_episode: str
    source_range: _containers.RepeatedScalarFieldContainer[int]
    confidence: float
    key: str
    def __init__(self, subject: _Optional[str] = ..., predicate: _Optional[str] = ..., object: _Optional[str] = ..., valid_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., singular: bool = ..., qualifier: _Optional[str] = ..., source_episode: _Optional[str] = ..., source_range: _Optional[_Iterable[int]] = ..., confidence: _Optional[float] = ..., key: _Optional[str] = ...) -> None: ...

class UpsertFactResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class CompileContextRequest(_message.Message):
    __slots__ = ("query", "max_tokens", "as_of", "include_superseded", "model")
    QUERY_FIELD_NUMBER: _ClassVar[int]
    MAX_TOKENS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_SUPERSEDED_FIELD_NUMBER: _ClassVar[int]
    MODEL_FIELD_NUMBER: _ClassVar[int]
    query: str
    max_tokens: int
    as_of: _timestamp_pb2.Timestamp
    include_superseded: bool
    model: str
    def __init__(self, query: _Optional[str] = ..., max_tokens: _Optional[int] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., include_superseded: bool = ..., model: _Optional[str] = ...) -> None: ...

class CompileContextResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class QueryEntityRequest(_message.Message):
    __slots__ = ("entity", "hops", "as_of")
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    HOPS_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    entity: str
    hops: int
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, entity: _Optional[str] = ..., hops: _Optional[int] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class QueryEntityResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class TimeTravelRequest(_message.Message):
    __slots__ = ("as_of", "recorded_as_of", "subject", "predicate")
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    RECORDED_AS_OF_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    as_of: _timestamp_pb2.Timestamp
    recorded_as_of: str
    subject: str
    predicate: str
    def __init__(self, as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., recorded_as_of: _Optional[str] = ..., subject: _Optional[str] = ..., predicate: _Optional[str] = ...) -> None: ...

class TimeTravelResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class VerifyIntegrityRequest(_message.Message):
    __slots__ = ("expected_root",)
    EXPECTED_ROOT_FIELD_NUMBER: _ClassVar[int]
    expected_root: str
    def __init__(self, expected_root: _Optional[str] = ...) -> None: ...

class VerifyIntegrityResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class ListContradictionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListContradictionsResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class ProposeFactsRequest(_message.Message):
    __slots__ = ("content", "about")
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    content: str
    about: str
    def __init__(self, content: _Optional[str] = ..., about: _Optional[str] = ...) -> None: ...

class ProposeFactsResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class ExportBundleRequest(_message.Message):
    __slots__ = ("refs",)
    REFS_FIELD_NUMBER: _ClassVar[int]
    refs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, refs: _Optional[_Iterable[str]] = ...) -> None: ...

class ExportBundleResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...

class ExportRootRequest(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    def __init__(self, revision: _Optional[int] = ...) -> None: ...

class ExportRootResponse(_message.Message):
    __slots__ = ("document",)
    DOCUMENT_FIELD_NUMBER: _ClassVar[int]
    document: bytes
    def __init__(self, document: _Optional[bytes] = ...) -> None: ...
