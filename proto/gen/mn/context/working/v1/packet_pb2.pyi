from google.protobuf import timestamp_pb2 as _timestamp_pb2
from mn.context.working.v1 import card_pb2 as _card_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CoverageStatus(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COVERAGE_STATUS_UNSPECIFIED: _ClassVar[CoverageStatus]
    COVERAGE_STATUS_COMPLETE: _ClassVar[CoverageStatus]
    COVERAGE_STATUS_DEGRADED: _ClassVar[CoverageStatus]
    COVERAGE_STATUS_MISSING: _ClassVar[CoverageStatus]

class ItemRole(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ITEM_ROLE_UNSPECIFIED: _ClassVar[ItemRole]
    ITEM_ROLE_NAMED: _ClassVar[ItemRole]
    ITEM_ROLE_OBLIGATION: _ClassVar[ItemRole]
    ITEM_ROLE_CONSTRAINT: _ClassVar[ItemRole]
    ITEM_ROLE_OPPOSING_SHARE: _ClassVar[ItemRole]
    ITEM_ROLE_SUPPORTING_SHARE: _ClassVar[ItemRole]
    ITEM_ROLE_RANKED: _ClassVar[ItemRole]
    ITEM_ROLE_STANDING: _ClassVar[ItemRole]
    ITEM_ROLE_ROTATED: _ClassVar[ItemRole]
COVERAGE_STATUS_UNSPECIFIED: CoverageStatus
COVERAGE_STATUS_COMPLETE: CoverageStatus
COVERAGE_STATUS_DEGRADED: CoverageStatus
COVERAGE_STATUS_MISSING: CoverageStatus
ITEM_ROLE_UNSPECIFIED: ItemRole
ITEM_ROLE_NAMED: ItemRole
ITEM_ROLE_OBLIGATION: ItemRole
ITEM_ROLE_CONSTRAINT: ItemRole
ITEM_ROLE_OPPOSING_SHARE: ItemRole
ITEM_ROLE_SUPPORTING_SHARE: ItemRole
ITEM_ROLE_RANKED: ItemRole
ITEM_ROLE_STANDING: ItemRole
ITEM_ROLE_ROTATED: ItemRole

class Decision(_message.Message):
    __slots__ = ("focus", "topics", "claims", "entities", "kinds", "required", "as_of")
    FOCUS_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    AS_OF_FIELD_NUMBER: _ClassVar[int]
    focus: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    claims: _containers.RepeatedScalarFieldContainer[str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    kinds: _containers.RepeatedScalarFieldContainer[_card_pb2.CardKind]
    required: _containers.RepeatedScalarFieldContainer[str]
    as_of: _timestamp_pb2.Timestamp
    def __init__(self, focus: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., claims: _Optional[_Iterable[str]] = ..., entities: _Optional[_Iterable[str]] = ..., kinds: _Optional[_Iterable[_Union[_card_pb2.CardKind, str]]] = ..., required: _Optional[_Iterable[str]] = ..., as_of: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ...) -> None: ...

class At(_message.Message):
    __slots__ = ("revision", "expected_revision")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    expected_revision: int
    def __init__(self, revision: _Optional[int] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class Why(_message.Message):
    __slots__ = ("retrievers", "matched_terms", "rank", "score", "relevance", "relevance_basis")
    RETRIEVERS_FIELD_NUMBER: _ClassVar[int]
    MATCHED_TERMS_FIELD_NUMBER: _ClassVar[int]
    RANK_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_FIELD_NUMBER: _ClassVar[int]
    RELEVANCE_BASIS_FIELD_NUMBER: _ClassVar[int]
    retrievers: _containers.RepeatedScalarFieldContainer[str]
    matched_terms: _containers.RepeatedScalarFieldContainer[str]
    rank: int
    score: int
    relevance: float
    relevance_basis: str
    def __init__(self, retrievers: _Optional[_Iterable[str]] = ..., matched_terms: _Optional[_Iterable[str]] = ..., rank: _Optional[int] = ..., score: _Optional[int] = ..., relevance: _Optional[float] = ..., relevance_basis: _Optional[str] = ...) -> None: ...

class StanceCoverage(_message.Message):
    __slots__ = ("stance", "considered", "selected")
    STANCE_FIELD_NUMBER: _ClassVar[int]
    CONSIDERED_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    stance: _card_pb2.Stance
    considered: int
    selected: int
    def __init__(self, stance: _Optional[_Union[_card_pb2.Stance, str]] = ..., considered: _Optional[int] = ..., selected: _Optional[int] = ...) -> None: ...

class KindCoverage(_message.Message):
    __slots__ = ("kind", "considered", "selected")
    KIND_FIELD_NUMBER: _ClassVar[int]
    CONSIDERED_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    kind: _card_pb2.CardKind
    considered: int
    selected: int
    def __init__(self, kind: _Optional[_Union[_card_pb2.CardKind, str]] = ..., considered: _Optional[int] = ..., selected: _Optional[int] = ...) -> None: ...

class LeftCoverage(_message.Message):
    __slots__ = ("reason", "count")
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    reason: str
    count: int
    def __init__(self, reason: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class Coverage(_message.Message):
    __slots__ = ("status", "relevant", "stances", "kinds", "left", "required", "required_opposing")
    STATUS_FIELD_NUMBER: _ClassVar[int]
    RELEVANT_FIELD_NUMBER: _ClassVar[int]
    STANCES_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_OPPOSING_FIELD_NUMBER: _ClassVar[int]
    status: CoverageStatus
    relevant: int
    stances: _containers.RepeatedCompositeFieldContainer[StanceCoverage]
    kinds: _containers.RepeatedCompositeFieldContainer[KindCoverage]
    left: _containers.RepeatedCompositeFieldContainer[LeftCoverage]
    required: int
    required_opposing: int
    def __init__(self, status: _Optional[_Union[CoverageStatus, str]] = ..., relevant: _Optional[int] = ..., stances: _Optional[_Iterable[_Union[StanceCoverage, _Mapping]]] = ..., kinds: _Optional[_Iterable[_Union[KindCoverage, _Mapping]]] = ..., left: _Optional[_Iterable[_Union[LeftCoverage, _Mapping]]] = ..., required: _Optional[int] = ..., required_opposing: _Optional[int] = ...) -> None: ...

class RecallRequest(_message.Message):
    __slots__ = ("decision", "at", "page_size", "cursor")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    at: At
    page_size: int
    cursor: str
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ..., at: _Optional[_Union[At, _Mapping]] = ..., page_size: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class Candidate(_message.Message):
    __slots__ = ("card", "why")
    CARD_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    card: _card_pb2.Card
    why: Why
    def __init__(self, card: _Optional[_Union[_card_pb2.Card, _Mapping]] = ..., why: _Optional[_Union[Why, _Mapping]] = ...) -> None: ...

class RecallResponse(_message.Message):
    __slots__ = ("revision", "candidates", "coverage", "cursor", "newest_revision")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    CANDIDATES_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    NEWEST_REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: int
    candidates: _containers.RepeatedCompositeFieldContainer[Candidate]
    coverage: Coverage
    cursor: str
    newest_revision: int
    def __init__(self, revision: _Optional[int] = ..., candidates: _Optional[_Iterable[_Union[Candidate, _Mapping]]] = ..., coverage: _Optional[_Union[Coverage, _Mapping]] = ..., cursor: _Optional[str] = ..., newest_revision: _Optional[int] = ...) -> None: ...

class CompileRequest(_message.Message):
    __slots__ = ("decision", "at", "budget_bytes", "counter_evidence_share", "supporting_evidence_share", "cursor", "budget_tokens", "rotation")
    DECISION_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    BUDGET_BYTES_FIELD_NUMBER: _ClassVar[int]
    COUNTER_EVIDENCE_SHARE_FIELD_NUMBER: _ClassVar[int]
    SUPPORTING_EVIDENCE_SHARE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    BUDGET_TOKENS_FIELD_NUMBER: _ClassVar[int]
    ROTATION_FIELD_NUMBER: _ClassVar[int]
    decision: Decision
    at: At
    budget_bytes: int
    counter_evidence_share: float
    supporting_evidence_share: float
    cursor: str
    budget_tokens: int
    rotation: int
    def __init__(self, decision: _Optional[_Union[Decision, _Mapping]] = ..., at: _Optional[_Union[At, _Mapping]] = ..., budget_bytes: _Optional[int] = ..., counter_evidence_share: _Optional[float] = ..., supporting_evidence_share: _Optional[float] = ..., cursor: _Optional[str] = ..., budget_tokens: _Optional[int] = ..., rotation: _Optional[int] = ...) -> None: ...

class PacketItem(_message.Message):
    __slots__ = ("card", "role", "why", "size_bytes", "tokens")
    CARD_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    card: _card_pb2.Card
    role: ItemRole
    why: Why
    size_bytes: int
    tokens: int
    def __init__(self, card: _Optional[_Union[_card_pb2.Card, _Mapping]] = ..., role: _Optional[_Union[ItemRole, str]] = ..., why: _Optional[_Union[Why, _Mapping]] = ..., size_bytes: _Optional[int] = ..., tokens: _Optional[int] = ...) -> None: ...

class Packet(_message.Message):
    __slots__ = ("revision", "items", "coverage", "cursor", "size_bytes", "digest", "newest_revision", "tokens", "next_rotation", "selector")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    COVERAGE_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NEWEST_REVISION_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    NEXT_ROTATION_FIELD_NUMBER: _ClassVar[int]
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    revision: int
    items: _containers.RepeatedCompositeFieldContainer[PacketItem]
    coverage: Coverage
    cursor: str
    size_bytes: int
    digest: str
    newest_revision: int
    tokens: int
    next_rotation: int
    selector: str
    def __init__(self, revision: _Optional[int] = ..., items: _Optional[_Iterable[_Union[PacketItem, _Mapping]]] = ..., coverage: _Optional[_Union[Coverage, _Mapping]] = ..., cursor: _Optional[str] = ..., size_bytes: _Optional[int] = ..., digest: _Optional[str] = ..., newest_revision: _Optional[int] = ..., tokens: _Optional[int] = ..., next_rotation: _Optional[int] = ..., selector: _Optional[str] = ...) -> None: ...

class CompileResponse(_message.Message):
    __slots__ = ("packet",)
    PACKET_FIELD_NUMBER: _ClassVar[int]
    packet: Packet
    def __init__(self, packet: _Optional[_Union[Packet, _Mapping]] = ...) -> None: ...

class ExplainRequest(_message.Message):
    __slots__ = ("request", "ref")
    REQUEST_FIELD_NUMBER: _ClassVar[int]
    REF_FIELD_NUMBER: _ClassVar[int]
    request: CompileRequest
    ref: str
    def __init__(self, request: _Optional[_Union[CompileRequest, _Mapping]] = ..., ref: _Optional[str] = ...) -> None: ...

class ScorePart(_message.Message):
    __slots__ = ("stage", "score")
    STAGE_FIELD_NUMBER: _ClassVar[int]
    SCORE_FIELD_NUMBER: _ClassVar[int]
    stage: str
    score: int
    def __init__(self, stage: _Optional[str] = ..., score: _Optional[int] = ...) -> None: ...

class Quota(_message.Message):
    __slots__ = ("role", "bytes", "used_bytes", "tokens", "used_tokens")
    ROLE_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    USED_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    USED_TOKENS_FIELD_NUMBER: _ClassVar[int]
    role: ItemRole
    bytes: int
    used_bytes: int
    tokens: int
    used_tokens: int
    def __init__(self, role: _Optional[_Union[ItemRole, str]] = ..., bytes: _Optional[int] = ..., used_bytes: _Optional[int] = ..., tokens: _Optional[int] = ..., used_tokens: _Optional[int] = ...) -> None: ...

class ExplainResponse(_message.Message):
    __slots__ = ("packet_digest", "revision", "selected", "role", "reason", "why", "parts", "size_bytes", "tokens", "stance", "redundancy", "utility", "offered", "quotas")
    PACKET_DIGEST_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SELECTED_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    PARTS_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    STANCE_FIELD_NUMBER: _ClassVar[int]
    REDUNDANCY_FIELD_NUMBER: _ClassVar[int]
    UTILITY_FIELD_NUMBER: _ClassVar[int]
    OFFERED_FIELD_NUMBER: _ClassVar[int]
    QUOTAS_FIELD_NUMBER: _ClassVar[int]
    packet_digest: str
    revision: int
    selected: bool
    role: ItemRole
    reason: str
    why: Why
    parts: _containers.RepeatedCompositeFieldContainer[ScorePart]
    size_bytes: int
    tokens: int
    stance: _card_pb2.Stance
    redundancy: int
    utility: int
    offered: int
    quotas: _containers.RepeatedCompositeFieldContainer[Quota]
    def __init__(self, packet_digest: _Optional[str] = ..., revision: _Optional[int] = ..., selected: bool = ..., role: _Optional[_Union[ItemRole, str]] = ..., reason: _Optional[str] = ..., why: _Optional[_Union[Why, _Mapping]] = ..., parts: _Optional[_Iterable[_Union[ScorePart, _Mapping]]] = ..., size_bytes: _Optional[int] = ..., tokens: _Optional[int] = ..., stance: _Optional[_Union[_card_pb2.Stance, str]] = ..., redundancy: _Optional[int] = ..., utility: _Optional[int] = ..., offered: _Optional[int] = ..., quotas: _Optional[_Iterable[_Union[Quota, _Mapping]]] = ...) -> None: ...
