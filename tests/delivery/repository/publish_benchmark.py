"""How long a publish takes in a repository of 10,000 targets.

python tests/delivery/repository/publish_benchmark.py
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from tuf.api.metadata import TargetFile

from palmkit.delivery.repository import Repository
from palmkit.delivery.repository.contents import stored_name
from palmkit.delivery.repository.roles import role_of
from palmkit.delivery.repository.storage import sha256_of
from tests.delivery.releases import QUICK, write_model

TARGETS = 10_000
TIMES = 3


def fill(repository: Repository, folder: Path, models: int) -> None:
    """Publish one release of each model, then sign small files until there are 10,000 targets."""
    file = write_model(folder / "model.palm")
    each = TARGETS // models
    for number in range(models):
        model = f"model_{number}"
        repository.publish(model, "1.0.0", [file], QUICK)
        with repository.roles.edit_targets(role_of(model)) as targets:
            for index in range(each - len(targets.targets)):
                content = f"{model} {index}".encode()
                path = f"models/{model}/file-{index}"
                target = TargetFile(len(content), {"sha256": sha256_of(content)}, path)
                place = repository.public / stored_name(target)
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                targets.targets[path] = target
    repository.resign()


def best_ms(run: Callable[[int], object]) -> float:
    """Return the shortest of a few times."""
    taken: list[float] = []
    for number in range(TIMES):
        begin = time.perf_counter()
        run(number)
        taken.append((time.perf_counter() - begin) * 1e3)
    return min(taken)


def measure(models: int) -> None:
    """Print the time of one change."""
    with TemporaryDirectory() as name:
        folder = Path(name)
        repository = Repository.create(folder / "repository")
        fill(repository, folder, models)
        files = [write_model(folder / f"{n}.palm", 3.0 + n) for n in range(TIMES)]
        publish = best_ms(lambda n: repository.publish("model_0", f"2.{n}.0", [files[n]], QUICK))
        promote = best_ms(lambda n: repository.promote("model_0", "1.0.0", percent=n))
        resign = best_ms(lambda n: repository.resign(force=True))
        verify = best_ms(lambda n: repository.verify())
    print(
        f"{models:4} models, {TARGETS} targets: publish {publish:.0f} ms, "
        f"promote {promote:.0f} ms, resign {resign:.0f} ms, verify {verify:.0f} ms"
    )


if __name__ == "__main__":
    for count in map(int, sys.argv[1:] or ("100", "1")):
        measure(count)
