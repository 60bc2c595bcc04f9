"""The instruction sets that C libraries are for."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

# Files that are compiled once for each of their sets: simd.cc, int8.cc, <set>.cc.
_FOR_SETS = re.compile(r"(simd|int8|bf16|amx_\w+|avx\w+|neon)\.cc")


@dataclass(frozen=True)
class Target:
    """An instruction set.

    processor: what it is of. simd, int8, files: the sets that simd.cc, int8.cc and <set>.cc are
    compiled for, where kernels have such files. needs: what the machine must have, in
    native/base/cpu.h. ranked_as: the set of x86-64 for which convolutions choose the same
    algorithms: its vectors are as long. flags: the compiler's, by set.
    """

    processor: str
    simd: str
    int8: str
    files: tuple[str, ...]
    needs: str
    ranked_as: str
    flags: Mapping[str, str]

    @property
    def sets(self) -> tuple[str, ...]:
        """All sets that files are compiled for."""
        return tuple(dict.fromkeys((self.simd, self.int8, *self.files)))

    def sets_of(self, file: str) -> tuple[str, ...] | None:
        """Return the sets that a file of this name is compiled for; None: it is for no certain one.

        Empty: it is for none of these.
        """
        match = _FOR_SETS.fullmatch(file)
        if not match:
            return None
        kind = match[1]
        if kind in ("simd", "int8"):
            return (self.simd if kind == "simd" else self.int8,)
        return (kind,) if kind in self.files else ()


_AVX2 = "-mavx2 -mfma -mf16c"
# GCC 12 warns of its own avx512fintrin.h.
_AVX512 = (
    "-mavx512f -mavx512bw -mavx512dq -mavx512vl -mfma -mf16c -Wno-uninitialized "
    "-Wno-maybe-uninitialized"
)
# What every engine with SIMD128 has, and each its libraries are then compiled for as well.
_WASM_CPU = "-mcpu=generic+simd128+bulk_memory+mutable_globals+nontrapping_fptoint+sign_ext"
_ARM, _X86, WASM = "arm64", "x86-64", "WebAssembly"
# Of each processor the best first.
TARGETS: Mapping[str, Target] = {
    "neon_dotprod": Target(
        *(_ARM, "neon", "neon_dotprod", ("neon",), "kNeonDotProd", "scalar"),
        {"neon": "", "neon_dotprod": "-march=armv8.2-a+dotprod"},
    ),
    "neon": Target(_ARM, "neon", "neon", ("neon",), "kScalar", "scalar", {"neon": ""}),
    "avx512": Target(
        *(_X86, "avx512", "avx2", ("avx2",), "kAvx512 | kAvx2", "avx512"),
        {"avx512": _AVX512, "avx2": _AVX2},
    ),
    "avx2": Target(_X86, "avx2", "avx2", ("avx2",), "kAvx2", "avx2", {"avx2": _AVX2}),
    "wasm_relaxed": Target(
        *(WASM, "wasm_relaxed", "wasm_relaxed", (), "kScalar", "scalar"),
        {"wasm_relaxed": f"{_WASM_CPU}+relaxed_simd"},
    ),
    "wasm": Target(WASM, "wasm", "wasm", (), "kScalar", "scalar", {"wasm": _WASM_CPU}),
    "scalar": Target("any", "scalar", "scalar", (), "kScalar", "scalar", {"scalar": ""}),
}


def targets_of(isas: Sequence[str]) -> list[Target]:
    """Return the targets of these names, the best first; ValueError if they do not go together."""
    unknown = [isa for isa in isas if isa not in TARGETS]
    if unknown or not isas:
        known, got = ", ".join(TARGETS), ", ".join(unknown) or "none"
        raise ValueError(f"isas: expected some of {known}, got {got}")
    # The best first, as they are tried.
    targets = [target for isa, target in TARGETS.items() if isa in isas]
    if len({target.processor for target in targets}) > 1:
        raise ValueError(f"isas: expected those of one processor, got {', '.join(isas)}")
    return targets
