"""What a caller asks of a backend besides the graph."""

from dataclasses import dataclass

# What an int of the native code holds: how many of these a machine can start it says by itself.
MOST_THREADS = MOST_CORE = 2**31 - 1
PRECISIONS = ("high", "normal", "low")
# In the order of their numbers in palm.h.
PRIORITIES = ("normal", "low", "high")


@dataclass(frozen=True)
class Options:
    """How a graph is made ready; a backend that has no use for one of them leaves it alone.

    threads: how many threads one run uses; 1 starts none.
    precision: "high" computes in float32, each convolution to about 2e-6 of its output's range;
    "normal" to about 1e-5, which allows Winograd's F(6,3). "low" multiplies in bfloat16 (8 bits of
    each factor, sums in float32, denormal numbers as zero) or float16 (11 bits, sums in float32,
    infinite beyond 65504) where the CPU can and the backend has such kernels. Backend gpu stores
    weights and what is between steps in float16, and computes in float32. Elsewhere it means
    "normal".
    tune: time the candidates for each convolution on this machine, and keep the times on disk.
    priority, cores: of the threads of a run, as for `palmkit.engine.load`.
    """

    threads: int = 1
    precision: str = "high"
    tune: bool = False
    priority: str = "normal"
    cores: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """ValueError for what no backend can do."""
        if self.threads < 1:
            raise ValueError(f"threads: expected at least 1, got {self.threads}")
        if self.threads > MOST_THREADS:
            raise ValueError(f"threads: expected at most {MOST_THREADS}, got {self.threads}")
        if self.precision not in PRECISIONS:
            raise ValueError(f"precision: expected one of {PRECISIONS}, got {self.precision!r}")
        if self.priority not in PRIORITIES:
            raise ValueError(f"priority: expected one of {PRIORITIES}, got {self.priority!r}")
        for core in self.cores:
            if not 0 <= core <= MOST_CORE:
                raise ValueError(f"cores: expected numbers from 0 to {MOST_CORE}, got {core!r}")


DEFAULTS = Options()
