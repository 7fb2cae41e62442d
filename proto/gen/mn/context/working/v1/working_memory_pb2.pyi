from mn.context.working.v1 import artifact_pb2 as _artifact_pb2
from mn.context.working.v1 import card_pb2 as _card_pb2
from mn.context.working.v1 import invocation_pb2 as _invocation_pb2
from mn.context.working.v1 import packet_pb2 as _packet_pb2
from mn.context.working.v1 import run_pb2 as _run_pb2
from google.protobuf import descriptor as _descriptor
from typing import ClassVar as _ClassVar

DESCRIPTOR: _descriptor.FileDescriptor
