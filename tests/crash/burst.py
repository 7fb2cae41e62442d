"""A process that writes from several threads until it is killed, and says on standard output what was acknowledged.

`python -m tests.crash.burst RECORD SEED [WRITES]`: each line is one write, named before it is tried and told again once
it was acknowledged, so that the reader knows what may be there without an acknowledgement.
"""

from __future__ import annotations

import os
import random
import sys
import threading
from pathlib import Path

from mn_engine.domain.access import OPEN
from mn_engine.store.duckdb import DuckDBStore
from tests.storing import KEY, artifact, batch, bulk, card, event, open_run, supersedes

THREADS = 8
WRITES_MAX = 3200
LARGE_BYTES = 100_000

_out = threading.Lock()
_watched = os.environ.get("MN_POWER_DIR")
_told = os.open(f"{_watched}/acknowledged", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if _watched else None
"""Under the power-loss shim, lines go to a file that it watches, so that they stand in its log in their order."""


def tell(*words: object) -> None:
    """One line, whole, at once."""
    line = " ".join(map(str, words)) + "\n"
    with _out:
        if _told is not None:
            os.write(_told, line.encode())
        else:
            sys.stdout.write(line)
            sys.stdout.flush()


def large(seed: str) -> bytes:
    """Bytes of an artifact that lies in a file of its own."""
    return random.Random(seed).randbytes(LARGE_BYTES)


def write(store: DuckDBStore, name: str, rng: random.Random) -> None:
    """One write of some kind, told once it was acknowledged."""
    kind = rng.choice(["event", "event", "event", "blob", "bulk"])
    tell("try", kind, name)
    if kind == "event":
        first = card(f"{name}/1")
        second = card(f"{name}/2", relations=supersedes(f"{name}/1"))
        done = event(name, first, second, artifacts=(artifact(name.encode()),))
        tell("ack", kind, name, store.commit(batch(done)).events[0].revision)
    elif kind == "blob":
        upload = store.upload(KEY)
        data = large(name)
        upload.write(data[:60_000])
        upload.write(data[60_000:])
        kept = upload.finish(media_type="text/plain", owner="ada", acl=OPEN, expected_sha256="")
        tell("ack", kind, name, kept.sha256)
    else:
        table = bulk(*(card(f"{name}/{place}") for place in range(50)))
        receipt = store.commit_table(KEY, owner="ada", key=name, fingerprint="f" * 64, cards=table)
        tell("ack", kind, name, receipt.events[0].revision)


def main() -> None:
    """Writes until it is killed, or until there is nothing left to write."""
    path, seed = Path(sys.argv[1]), sys.argv[2]
    writes = int(sys.argv[3]) if len(sys.argv) > 3 else WRITES_MAX
    store = DuckDBStore(path, free_bytes_floor=0)
    open_run(store)

    def work(thread: int) -> None:
        rng = random.Random(f"{seed}/{thread}")
        for number in range(writes // THREADS or 1):
            write(store, f"s{seed}-t{thread}-n{number}", rng)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tell("end")
    store.close()


if __name__ == "__main__":
    main()
