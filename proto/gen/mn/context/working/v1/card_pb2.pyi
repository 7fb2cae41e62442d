from google.protobuf import timestamp_pb2 as _timestamp_pb2
from mn.context.working.v1 import artifact_pb2 as _artifact_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CardKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CARD_KIND_UNSPECIFIED: _ClassVar[CardKind]
    CARD_KIND_OBSERVATION: _ClassVar[CardKind]
    CARD_KIND_EVIDENCE: _ClassVar[CardKind]
    CARD_KIND_DECISION: _ClassVar[CardKind]
    CARD_KIND_CONSTRAINT: _ClassVar[CardKind]
    CARD_KIND_OBLIGATION: _ClassVar[CardKind]
    CARD_KIND_HYPOTHESIS: _ClassVar[CardKind]
    CARD_KIND_TASK: _ClassVar[CardKind]
    CARD_KIND_FACT: _ClassVar[CardKind]
    CARD_KIND_PROCEDURE: _ClassVar[CardKind]
    CARD_KIND_PREFERENCE: _ClassVar[CardKind]
    CARD_KIND_IDENTITY: _ClassVar[CardKind]
    CARD_KIND_FAILURE: _ClassVar[CardKind]
    CARD_KIND_SUMMARY: _ClassVar[CardKind]

class Stance(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STANCE_UNSPECIFIED: _ClassVar[Stance]
    STANCE_SUPPORTS: _ClassVar[Stance]
    STANCE_OPPOSES: _ClassVar[Stance]
    STANCE_MIXED: _ClassVar[Stance]
    STANCE_NEUTRAL: _ClassVar[Stance]

class Validation(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    VALIDATION_UNSPECIFIED: _ClassVar[Validation]
    VALIDATION_UNVERIFIED: _ClassVar[Validation]
    VALIDATION_VALIDATED: _ClassVar[Validation]
    VALIDATION_REJECTED: _ClassVar[Validation]
CARD_KIND_UNSPECIFIED: CardKind
CARD_KIND_OBSERVATION: CardKind
CARD_KIND_EVIDENCE: CardKind
CARD_KIND_DECISION: CardKind
CARD_KIND_CONSTRAINT: CardKind
CARD_KIND_OBLIGATION: CardKind
CARD_KIND_HYPOTHESIS: CardKind
CARD_KIND_TASK: CardKind
CARD_KIND_FACT: CardKind
CARD_KIND_PROCEDURE: CardKind
CARD_KIND_PREFERENCE: CardKind
CARD_KIND_IDENTITY: CardKind
CARD_KIND_FAILURE: CardKind
CARD_KIND_SUMMARY: CardKind
STANCE_UNSPECIFIED: Stance
STANCE_SUPPORTS: Stance
STANCE_OPPOSES: Stance
STANCE_MIXED: Stance
STANCE_NEUTRAL: Stance
VALIDATION_UNSPECIFIED: Validation
VALIDATION_UNVERIFIED: Validation
VALIDATION_VALIDATED: Validation
VALIDATION_REJECTED: Validation

class Claim(_message.Message):
    __slots__ = ("claim", "stance")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    STANCE_FIELD_NUMBER: _ClassVar[int]
    claim: str
    stance: Stance
    def __init__(self, claim: _Optional[str] = ..., stance: _Optional[_Union[Stance, str]] = ...) -> None: ...

class Relation(_message.Message):
    __slots__ = ("type", "target")
    TYPE_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    type: str
    target: str
    def __init__(self, type: _Optional[str] = ..., target: _Optional[str] = ...) -> None: ...

class Fact(_message.Message):
    __slots__ = ("subject", "predicate", "object", "qualifier", "singular")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    SINGULAR_FIELD_NUMBER: _ClassVar[int]
    subject: str
    predicate: str
    object: str
    qualifier: str
    singular: bool
    def __init__(self, subject: _Optional[str] = ..., predicate: _Optional[str] = ..., object: _Optional[str] = ..., qualifier: _Optional[str] = ..., singular: bool = ...) -> None: ...

class Card(_message.Message):
    __slots__ = ("ref", "id", "kind", "layer", "text", "body", "sources", "summary", "topics", "entities", "stance", "claims", "validation", "confidence", "trust", "occurred_at", "captured_at", "valid_from", "valid_until", "source_url", "relations", "acl", "occurrences", "owner", "revision", "superseded_revision", "superseded_by", "resolved_revision", "conflicts", "tokens", "fact")
    REF_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    LAYER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    TOPICS_FIELD_NUMBER: _ClassVar[int]
    ENTITIES_FIELD_NUMBER: _ClassVar[int]
    STANCE_FIELD_NUMBER: _ClassVar[int]
    CLAIMS_FIELD_NUMBER: _ClassVar[int]
    VALIDATION_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    OCCURRED_AT_FIELD_NUMBER: _ClassVar[int]
    CAPTURED_AT_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    SOURCE_URL_FIELD_NUMBER: _ClassVar[int]
    RELATIONS_FIELD_NUMBER: _ClassVar[int]
    ACL_FIELD_NUMBER: _ClassVar[int]
    OCCURRENCES_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_REVISION_FIELD_NUMBER: _ClassVar[int]
    SUPERSEDED_BY_FIELD_NUMBER: _ClassVar[int]
    RESOLVED_REVISION_FIELD_NUMBER: _ClassVar[int]
    CONFLICTS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    FACT_FIELD_NUMBER: _ClassVar[int]
    ref: str
    id: str
    kind: CardKind
    layer: str
    text: str
    body: _artifact_pb2.SourceRange
    sources: _containers.RepeatedCompositeFieldContainer[_artifact_pb2.SourceRange]
    summary: str
    topics: _containers.RepeatedScalarFieldContainer[str]
    entities: _containers.RepeatedScalarFieldContainer[str]
    stance: Stance
    claims: _containers.RepeatedCompositeFieldContainer[Claim]
    validation: Validation
    confidence: float
    trust: float
    occurred_at: _timestamp_pb2.Timestamp
    captured_at: _timestamp_pb2.Timestamp
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    source_url: str
    relations: _containers.RepeatedCompositeFieldContainer[Relation]
    acl: _artifact_pb2.Acl
    occurrences: int
    owner: str
    revision: int
    superseded_revision: int
    superseded_by: str
    resolved_revision: int
    conflicts: _containers.RepeatedScalarFieldContainer[str]
    tokens: int
    fact: Fact
    def __init__(self, ref: _Optional[str] = ..., id: _Optional[str] = ..., kind: _Optional[_Union[CardKind, str]] = ..., layer: _Optional[str] = ..., text: _Optional[str] = ..., body: _Optional[_Union[_artifact_pb2.SourceRange, _Mapping]] = ..., sources: _Optional[_Iterable[_Union[_artifact_pb2.SourceRange, _Mapping]]] = ..., summary: _Optional[str] = ..., topics: _Optional[_Iterable[str]] = ..., entities: _Optional[_Iterable[str]] = ..., stance: _Optional[_Union[Stance, str]] = ..., claims: _Optional[_Iterable[_Union[Claim, _Mapping]]] = ..., validation: _Optional[_Union[Validation, str]] = ..., confidence: _Optional[float] = ..., trust: _Optional[float] = ..., occurred_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., captured_at: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., source_url: _Optional[str] = ..., relations: _Optional[_Iterable[_Union[Relation, _Mapping]]] = ..., acl: _Optional[_Union[_artifact_pb2.Acl, _Mapping]] = ..., occurrences: _Optional[int] = ..., owner: _Optional[str] = ..., revision: _Optional[int] = ..., superseded_revision: _Optional[int] = ..., superseded_by: _Optional[str] = ..., resolved_revision: _Optional[int] = ..., conflicts: _Optional[_Iterable[str]] = ..., tokens: _Optional[int] = ..., fact: _Optional[_Union[Fact, _Mapping]] = ...) -> None: ...

class InlineArtifact(_message.Message):
    __slots__ = ("media_type", "data", "acl")
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    ACL_FIELD_NUMBER: _ClassVar[int]
    media_type: str
    data: bytes
    acl: _artifact_pb2.Acl
    def __init__(self, media_type: _Optional[str] = ..., data: _Optional[bytes] = ..., acl: _Optional[_Union[_artifact_pb2.Acl, _Mapping]] = ...) -> None: ...

class Event(_message.Message):
    __slots__ = ("key", "artifacts", "cards", "resolves")
    KEY_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    CARDS_FIELD_NUMBER: _ClassVar[int]
    RESOLVES_FIELD_NUMBER: _ClassVar[int]
    key: str
    artifacts: _containers.RepeatedCompositeFieldContainer[InlineArtifact]
    cards: _containers.RepeatedCompositeFieldContainer[Card]
    resolves: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., artifacts: _Optional[_Iterable[_Union[InlineArtifact, _Mapping]]] = ..., cards: _Optional[_Iterable[_Union[Card, _Mapping]]] = ..., resolves: _Optional[_Iterable[str]] = ...) -> None: ...

class RecordEventsRequest(_message.Message):
    __slots__ = ("events", "expected_revision")
    EVENTS_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_REVISION_FIELD_NUMBER: _ClassVar[int]
    events: _containers.RepeatedCompositeFieldContainer[Event]
    expected_revision: int
    def __init__(self, events: _Optional[_Iterable[_Union[Event, _Mapping]]] = ..., expected_revision: _Optional[int] = ...) -> None: ...

class EventReceipt(_message.Message):
    __slots__ = ("key", "revision", "replayed", "fingerprint", "cards")
    KEY_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    FINGERPRINT_FIELD_NUMBER: _ClassVar[int]
    CARDS_FIELD_NUMBER: _ClassVar[int]
    key: str
    revision: int
    replayed: bool
    fingerprint: str
    cards: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, key: _Optional[str] = ..., revision: _Optional[int] = ..., replayed: bool = ..., fingerprint: _Optional[str] = ..., cards: _Optional[_Iterable[str]] = ...) -> None: ...

class RecordEventsResponse(_message.Message):
    __slots__ = ("revision", "receipts")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RECEIPTS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    receipts: _containers.RepeatedCompositeFieldContainer[EventReceipt]
    def __init__(self, revision: _Optional[int] = ..., receipts: _Optional[_Iterable[_Union[EventReceipt, _Mapping]]] = ...) -> None: ...

class NewFact(_message.Message):
    __slots__ = ("subject", "predicate", "object", "qualifier", "singular", "valid_from", "valid_until", "confidence")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    PREDICATE_FIELD_NUMBER: _ClassVar[int]
    OBJECT_FIELD_NUMBER: _ClassVar[int]
    QUALIFIER_FIELD_NUMBER: _ClassVar[int]
    SINGULAR_FIELD_NUMBER: _ClassVar[int]
    VALID_FROM_FIELD_NUMBER: _ClassVar[int]
    VALID_UNTIL_FIELD_NUMBER: _ClassVar[int]
    CONFIDENCE_FIELD_NUMBER: _ClassVar[int]
    subject: str
    predicate: str
    object: str
    qualifier: str
    singular: bool
    valid_from: _timestamp_pb2.Timestamp
    valid_until: _timestamp_pb2.Timestamp
    confidence: float
    def __init__(self, subject: _Optional[str] = ..., predicate: _Optional[str] = ..., object: _Optional[str] = ..., qualifier: _Optional[str] = ..., singular: bool = ..., valid_from: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., valid_until: _Optional[_Union[_timestamp_pb2.Timestamp, _Mapping]] = ..., confidence: _Optional[float] = ...) -> None: ...

class RecordFactsRequest(_message.Message):
    __slots__ = ("key", "facts")
    KEY_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    key: str
    facts: _containers.RepeatedCompositeFieldContainer[NewFact]
    def __init__(self, key: _Optional[str] = ..., facts: _Optional[_Iterable[_Union[NewFact, _Mapping]]] = ...) -> None: ...

class RecordFactsResponse(_message.Message):
    __slots__ = ("revision", "replayed", "cards")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    CARDS_FIELD_NUMBER: _ClassVar[int]
    revision: int
    replayed: bool
    cards: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, revision: _Optional[int] = ..., replayed: bool = ..., cards: _Optional[_Iterable[str]] = ...) -> None: ...

class GetCardRequest(_message.Message):
    __slots__ = ("ref", "revision")
    REF_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    ref: str
    revision: int
    def __init__(self, ref: _Optional[str] = ..., revision: _Optional[int] = ...) -> None: ...

class GetCardResponse(_message.Message):
    __slots__ = ("card", "revision")
    CARD_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    card: Card
    revision: int
    def __init__(self, card: _Optional[_Union[Card, _Mapping]] = ..., revision: _Optional[int] = ...) -> None: ...
