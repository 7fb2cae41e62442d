from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Acl(_message.Message):
    __slots__ = ("allow_principals", "allow_roles", "deny_principals", "deny_roles", "require_roles")
    ALLOW_PRINCIPALS_FIELD_NUMBER: _ClassVar[int]
    ALLOW_ROLES_FIELD_NUMBER: _ClassVar[int]
    DENY_PRINCIPALS_FIELD_NUMBER: _ClassVar[int]
    DENY_ROLES_FIELD_NUMBER: _ClassVar[int]
    REQUIRE_ROLES_FIELD_NUMBER: _ClassVar[int]
    allow_principals: _containers.RepeatedScalarFieldContainer[str]
    allow_roles: _containers.RepeatedScalarFieldContainer[str]
    deny_principals: _containers.RepeatedScalarFieldContainer[str]
    deny_roles: _containers.RepeatedScalarFieldContainer[str]
    require_roles: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, allow_principals: _Optional[_Iterable[str]] = ..., allow_roles: _Optional[_Iterable[str]] = ..., deny_principals: _Optional[_Iterable[str]] = ..., deny_roles: _Optional[_Iterable[str]] = ..., require_roles: _Optional[_Iterable[str]] = ...) -> None: ...

class Artifact(_message.Message):
    __slots__ = ("sha256", "size_bytes", "media_type")
    SHA256_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    size_bytes: int
    media_type: str
    def __init__(self, sha256: _Optional[str] = ..., size_bytes: _Optional[int] = ..., media_type: _Optional[str] = ...) -> None: ...

class SourceRange(_message.Message):
    __slots__ = ("artifact_sha256", "start", "end", "sha256")
    ARTIFACT_SHA256_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    artifact_sha256: str
    start: int
    end: int
    sha256: str
    def __init__(self, artifact_sha256: _Optional[str] = ..., start: _Optional[int] = ..., end: _Optional[int] = ..., sha256: _Optional[str] = ...) -> None: ...

class ArtifactHeader(_message.Message):
    __slots__ = ("media_type", "expected_sha256", "acl")
    MEDIA_TYPE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_SHA256_FIELD_NUMBER: _ClassVar[int]
    ACL_FIELD_NUMBER: _ClassVar[int]
    media_type: str
    expected_sha256: str
    acl: Acl
    def __init__(self, media_type: _Optional[str] = ..., expected_sha256: _Optional[str] = ..., acl: _Optional[_Union[Acl, _Mapping]] = ...) -> None: ...

class ArtifactEnd(_message.Message):
    __slots__ = ("sha256",)
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    def __init__(self, sha256: _Optional[str] = ...) -> None: ...

class PutArtifactRequest(_message.Message):
    __slots__ = ("header", "chunk", "end")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    header: ArtifactHeader
    chunk: bytes
    end: ArtifactEnd
    def __init__(self, header: _Optional[_Union[ArtifactHeader, _Mapping]] = ..., chunk: _Optional[bytes] = ..., end: _Optional[_Union[ArtifactEnd, _Mapping]] = ...) -> None: ...

class PutArtifactResponse(_message.Message):
    __slots__ = ("artifact",)
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class StatArtifactRequest(_message.Message):
    __slots__ = ("sha256",)
    SHA256_FIELD_NUMBER: _ClassVar[int]
    sha256: str
    def __init__(self, sha256: _Optional[str] = ...) -> None: ...

class StatArtifactResponse(_message.Message):
    __slots__ = ("artifact",)
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    artifact: Artifact
    def __init__(self, artifact: _Optional[_Union[Artifact, _Mapping]] = ...) -> None: ...

class ReadArtifactRequest(_message.Message):
    __slots__ = ("ranges",)
    RANGES_FIELD_NUMBER: _ClassVar[int]
    ranges: _containers.RepeatedCompositeFieldContainer[SourceRange]
    def __init__(self, ranges: _Optional[_Iterable[_Union[SourceRange, _Mapping]]] = ...) -> None: ...

class ReadArtifactResponse(_message.Message):
    __slots__ = ("range_index", "chunk", "range_sha256")
    RANGE_INDEX_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    RANGE_SHA256_FIELD_NUMBER: _ClassVar[int]
    range_index: int
    chunk: bytes
    range_sha256: str
    def __init__(self, range_index: _Optional[int] = ..., chunk: _Optional[bytes] = ..., range_sha256: _Optional[str] = ...) -> None: ...
