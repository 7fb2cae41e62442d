"""Where an engine listens or is dialled: one reader for both ends, so that no address means one thing here and another
there."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from typing import Final

from mn_contract.errors import InvalidInput

ADDRESS_DEFAULT: Final = "127.0.0.1:50052"
_ADDRESS: Final = re.compile(r"(?P<host>[A-Za-z0-9._-]+|\[[^\[\]]+\]):(?P<port>[0-9]{1,5})")


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """A host, by name or by number, and a port."""

    host: str
    port: int

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach it."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def read_address(text: str, field: str) -> Address:
    """HOST:PORT, the host in brackets where it is IPv6. Raises InvalidInput naming `field`."""
    found = _ADDRESS.fullmatch(text)
    host = found["host"].strip("[]") if found else ""
    if found is None or int(found["port"]) > 65535 or (host != found["host"] and not _is_ipv6(host)):
        raise InvalidInput(
            f"{field} must be HOST:PORT such as {ADDRESS_DEFAULT} or [::1]:50052, not {text!r}", field=field
        )
    return Address(host=host, port=int(found["port"]))


def read_replicas(text: str, field: str) -> tuple[Address, ...]:
    """Where to dial: one address, or those of several replicas with commas between them. Raises InvalidInput naming
    `field`, also for port 0: there one can listen, on a port that the system picks, and nobody can be dialled."""
    replicas = tuple(read_address(place.strip(), field) for place in text.split(","))
    if not all(replica.port for replica in replicas):
        raise InvalidInput(f"{field}: port 0 cannot be dialled; name the port that the engine listens on", field=field)
    return replicas


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host)
    except ValueError:
        return False
    return True
