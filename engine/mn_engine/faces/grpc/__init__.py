"""The gRPC face: WorkingMemory, health and reflection on one port."""

from mn_engine.faces.grpc.server import GrpcServer

__all__ = ["GrpcServer"]
