"""A process that writes from several threads until it is killed, and says on standard output what was acknowledged.

`python -m tests.crash.burst RECORD SEED`: each line is one write, named before it is tried and told again once it was
acknowledged, so that the reader knows what may be there without an acknowledgement.
"""

from __future__ import annotations

import random
import sys
import threading
from pathlib import Path

from mn_engine.domain.access import OPEN
from mn_engine.store.duckdb import DuckDBStore
from tests.storing import KEY, artifact, batch, bulk, card, event, open_run, supersedes

THREADS = 8
WRITES_MAX = 400
LARGE_BYTES = 100_000

_out = threading.Lock()


def tell(*words: object) -> None:
    """One line, whole, at once."""
    with _out:
        sys.stdout.write(" ".join(map(str, words)) + "\n")
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
    store = DuckDBStore(path, free_bytes_floor=0)
    open_run(store)

    def work(thread: int) -> None:
        rng = random.Random(f"{seed}/{thread}")
        for number in range(WRITES_MAX):
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
