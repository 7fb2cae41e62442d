"""Checkpoints: a run's root as text that can be signed, so that who keeps it can hold the record to it.

The form is C2SP's (https://c2sp.org/tlog-checkpoint), five lines that each end with a newline: the origin, the size of
the tree, its root (RFC 9162) in base64, and two lines of extension, `revision N` and `root HEX`, the root that chains
the tree's to those before it (domain.runs). The origin is `membrane/JOB/RUN`, both percent-encoded (RFC 3986), so that
it names one run and holds no line break. It does not say who signed: the line of the signature does, and a run keeps
its name when its record moves or a key is replaced.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote

from mn_contract.errors import InvalidInput, SourceMismatch
from mn_contract.limits import REVISION_MAX
from mn_contract.names import check_id, check_sha256
from mn_engine.domain.bundles import Proved, read_bundle
from mn_engine.domain.signed_notes import SigningKey, VerifierKey, base64_bytes, verified_text

_PREFIX: Final = "membrane"
_SIZE_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A run's root: over `size` leaves whose tree has the root `tree`, at `revision`, chained to those before it as
    `root`. Both are SHA-256 in hex. Raises InvalidInput naming the field where it is none."""

    job_id: str
    run_id: str
    size: int
    tree: str
    revision: int
    root: str

    def __post_init__(self) -> None:
        check_id(self.job_id, "origin")
        check_id(self.run_id, "origin")
        check_sha256(self.tree, "tree")
        check_sha256(self.root, "root")
        for name, value, most in (("size", self.size, _SIZE_MAX), ("revision", self.revision, REVISION_MAX)):
            if not 0 <= value <= most:
                raise InvalidInput(f"{name} must be 0-{most}", field=name)

    @property
    def origin(self) -> str:
        """The run's name among all logs."""
        return "/".join((_PREFIX, *(quote(name, safe="") for name in (self.job_id, self.run_id))))

    @property
    def text(self) -> str:
        """The checkpoint as it is signed."""
        tree = base64.b64encode(bytes.fromhex(self.tree)).decode("ascii")
        return f"{self.origin}\n{self.size}\n{tree}\nrevision {self.revision}\nroot {self.root}\n"

    @classmethod
    def of(cls, text: str) -> Checkpoint:
        """The inverse of `text`. Raises InvalidInput naming the line that is wrong: `origin`, `size`, `tree`,
        `revision` or `root`; `text` where there are more or fewer."""
        lines = text.split("\n")
        if len(lines) != 6 or lines[-1]:
            raise InvalidInput("this is no run's root: such a text has five lines", field="text")
        origin, size, tree, revision, root, _ = lines
        job_id, run_id = _names(origin)
        return cls(
            job_id=job_id,
            run_id=run_id,
            size=_number(size, "size"),
            tree=base64_bytes(tree, "tree").hex(),
            revision=_number(_extension(revision, "revision"), "revision"),
            root=_extension(root, "root"),
        )

    def signed(self, key: SigningKey) -> str:
        """The checkpoint as a note under the key's signature."""
        return key.signed(self.text)


def verified_checkpoint(note: bytes, key: VerifierKey) -> Checkpoint:
    """The checkpoint of a note that the key has signed. Raises what signed_notes.verified_text and Checkpoint.of
    raise."""
    return Checkpoint.of(verified_text(note, key))


def proved_under(checkpoint: Checkpoint, bundle: bytes) -> Proved:
    """What a bundle proves under a checkpoint. Raises what read_bundle raises, and SourceMismatch naming the field in
    which the bundle is of another root, tree or run."""
    proved = read_bundle(bundle)
    for name in ("root", "size", "tree", "revision", "job_id", "run_id"):
        if getattr(proved, name) != getattr(checkpoint, name):
            raise SourceMismatch(
                f"the bundle's {name} is not the signed one: export both again, of one run at one revision", field=name
            )
    return proved


def _names(origin: str) -> tuple[str, str]:
    prefix, *encoded = origin.split("/")
    names = [unquote(one) for one in encoded]
    if prefix != _PREFIX or len(names) != 2 or [quote(name, safe="") for name in names] != encoded:
        raise InvalidInput(f"the origin is none of a run: it is {_PREFIX}/JOB/RUN, percent-encoded", field="origin")
    return names[0], names[1]


def _number(text: str, field: str) -> int:
    digits = text.isascii() and text.isdecimal() and len(text) <= len(str(_SIZE_MAX))
    if not digits or str(int(text)) != text:
        raise InvalidInput(f"{field} is no whole number in decimal digits, without zeros before it", field=field)
    return int(text)


def _extension(line: str, name: str) -> str:
    if not line.startswith(f"{name} "):
        raise InvalidInput(f"the line `{name} ...` is not in its place", field=name)
    return line.removeprefix(f"{name} ")
