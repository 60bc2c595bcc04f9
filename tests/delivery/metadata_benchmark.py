"""How long a device's check for updates takes: python -m tests.delivery.metadata_benchmark.

A repository of 10,000 targets, one role for each of 25 models as a real one has, on this machine.
cold: nothing here yet. warm: nothing was published. published: one release since. Each is refresh,
then the policy and the manifest of one model, everything verified; imports are not counted.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from palmkit.delivery.http import Http
from palmkit.delivery.trust import Remote
from tests.delivery.fault_server import FaultServer, serving
from tests.delivery.tuf_repository import TufRepository

PATHS = ("rollout/model0.json", "models/model0/file0")


def make(server: FaultServer, targets: int, models: int) -> TufRepository:
    repository = TufRepository(server.files)
    names = [f"model-model{index}" for index in range(models)]
    for index, name in enumerate(names):
        repository.delegate(name, f"models/model{index}/*")
        for file in range(targets // models):
            repository.add(name, f"models/model{index}/file{file}", b"%d %d" % (index, file))
    repository.delegate("rollout", "rollout/*")
    for index in range(models):
        repository.add("rollout", f"rollout/model{index}.json", b"policy %d" % index)
    repository.bump("targets", "rollout", *names)
    return repository


def check(remote: Remote) -> float:
    """Do one check, and return its milliseconds."""
    began = time.perf_counter()
    remote.refresh()
    for path in PATHS:
        remote.target(path)
    return (time.perf_counter() - began) * 1000


def measure(targets: int, models: int, runs: int) -> dict[str, tuple[float, int, int]]:
    """Return the best of some runs by name: milliseconds, requests, bytes."""
    with serving() as server, tempfile.TemporaryDirectory() as folder:
        repository, http = make(server, targets, models), Http()
        server.files.setdefault("/", b"")
        http.get_bytes(f"{server.url}/", 1)

        def best(make_remote: Callable[[int], Remote], publish: bool) -> tuple[float, int, int]:
            found: list[tuple[float, int, int]] = []
            for run in range(runs):
                remote = make_remote(run)
                if publish:
                    repository.add("model-model0", PATHS[1], b"release %d" % run)
                    repository.bump("model-model0")
                server.requests.clear()
                milliseconds = check(remote)
                size = sum(len(server.files.get(path, b"")) for path in server.paths())
                found.append((milliseconds, len(server.requests), size))
            return min(found)

        def remote_in(name: str) -> Remote:
            return Remote(Path(folder, name), [server.url], repository.root(), http)

        result = {"cold": best(lambda run: remote_in(f"cold{run}"), False)}
        result["warm"] = best(lambda run: remote_in("cold0"), False)
        result["published"] = best(lambda run: remote_in("cold0"), True)
        http.close()
        return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--targets", type=int, default=10_000)
    parser.add_argument("--models", type=int, default=25)
    parser.add_argument("--runs", type=int, default=20)
    options = parser.parse_args()
    print(f"{options.targets} targets of {options.models} models, best of {options.runs}")
    for name, found in measure(options.targets, options.models, options.runs).items():
        print("{:10} {:7.1f} ms {:3} requests {:8} bytes".format(name, *found))


if __name__ == "__main__":
    main()
