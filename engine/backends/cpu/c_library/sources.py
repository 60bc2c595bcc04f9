"""The runtime's sources that a C library takes, and what of the kernels it needs."""

from __future__ import annotations

import io
import re
import tarfile
import tempfile
from collections.abc import Collection, Generator, Iterable, Sequence
from contextlib import contextmanager
from pathlib import Path

from palmkit.engine.backends.cpu.c_library.targets import WASM, Target
from palmkit.engine.backends.cpu.c_library.texts import NEEDS, WAYS
from palmkit.engine.errors import UnsupportedError
from palmkit.engine.steps.plan import Plan, PlannedStep

# How the ways of convolving are made (native/kernels/conv/conv.h), by the attribute `algorithm`.
_MAKERS = {
    "depthwise": "make_depthwise_conv(node, shape)",
    "gemm": "make_gemm_conv(node, shape)",
    "sparse": "make_sparse_conv(node, shape)",
    "rows": "make_row_conv(node, shape)",
    **{f"winograd_{n}": f"make_winograd_conv(node, shape, {n})" for n in (2, 4, 6)},
}
_FILES = {way: re.sub(r"make_(\w+)\(.*", r"\1.cc", maker) for way, maker in _MAKERS.items()}
# Activations that are only clamps, or slopes.
_PLAIN = ("", "clip", "prelu", "leaky_relu")
# Functions by another name in kernels/unary/ops.inc.
_FUNCTIONS = {"relu": "clip"}
_BASE = ("base/cpu.cc", "base/half.cc", "base/step.cc", "base/attrs.cc", "base/attr_defaults.cc")
_SMALL = (*_BASE, "small/program.cc")
_RUNTIME = (
    *_BASE,
    *(
        f"base/{each}.cc"
        for each in ("arena", "crc32", "error", "isas", "placement", "runner", "threads")
    ),
    *(f"entropy/{each}.cc" for each in ("decode", "inflate", "stored")),
    *("model_file.cc", "plans.cc", "program.cc", "session.cc", "tensor_spec.cc"),
    *("palm.cc", "palm_queries.cc", "palm.h", "palm.map"),
)
# What completes zig's C++ library for WebAssembly, and how CMake is told of zig.
_OF_WASM = (
    *("wasm/platform.cc", "wasm/errors.cc", "wasm/format.cc", "wasm/abort.cc"),
    *(f"wasm/std/{each}" for each in ("condition_variable", "mutex", "thread", "unistd.h")),
)
_OF_ZIG = ("zig.cmake", "zig_archives.cmake")
# What only the planning of steps asks.
_OF_PLANNING = "kernels/separable_conv/cost.cc"
_INCLUDED = re.compile(r'#include "(?P<path>[\w/]+\.(?:h|inc))"')


class Needs:
    """What of the kernels some plans need."""

    def __init__(self) -> None:
        """Need nothing."""
        self.kernels: dict[str, None] = {}
        self.ways: dict[str, None] = {}
        self._blocks: set[tuple[int, int]] = set()
        self._functions: set[str] = set()
        self._has_gates = self._has_functions = False

    def add(self, plan: Plan) -> None:
        """Take what this plan needs as well."""
        for step in plan.steps:
            self.kernels[step.kernel] = None
            if step.kernel == "conv":
                self.ways[str(step.attrs["algorithm"])] = None
            self._has_gates |= step.inputs.get("gate", -1) >= 0
            activations = [step.attrs.get(each) for each in ("activation", "depthwise_activation")]
            functions = [str(each) for each in activations if (each or "") not in _PLAIN]
            self._has_functions |= bool(functions)
            op = str(step.attrs.get("op", ""))
            if step.kernel == "unary" or (step.kernel, op) == ("binary", "pow"):
                functions.append(op)
            self._functions.update(_FUNCTIONS.get(each, each) for each in functions)
            self._add_depthwise(plan, step)

    def _add_depthwise(self, plan: Plan, step: PlannedStep) -> None:
        weights = step.inputs.get("depthwise_weights")
        if step.attrs.get("algorithm") == "depthwise":
            weights = step.inputs["weights"]
        if weights is not None:
            strides = step.attrs.get("strides", (1, 1))
            stride = strides[0] if isinstance(strides, Sequence) else strides
            self._blocks.add((plan.tensors[weights].dims[-2], int(stride)))

    def text(self, any_model: bool = False) -> str:
        """Return what stands in for native/base/needs.h.

        any_model: of a runtime, which may be given other models of the same kernels.
        """
        known = [f"(kernel_width == {k} && stride == {s})" for k, s in sorted(self._blocks)]
        ways = [f'algorithm == "{way}"' for way in sorted({*self.ways, "gemm"})]
        functions = [f'name == "{each}"' for each in sorted(self._functions)]
        return NEEDS.substitute(
            gates=str(any_model or self._has_gates).lower(),
            functions=str(any_model or self._has_functions).lower(),
            ways=" || ".join(ways),
            named=" ||\n         ".join(functions) or "false",
            blocks=" ||\n         ".join(known) or "false",
        )


@contextmanager
def unpacked() -> Generator[Path]:
    """Give the folder of the runtime's sources; those of a wheel, one archive, for as long.

    Raises UnsupportedError if there are none, or the archive is damaged, or this Python was built
    without lzma.
    """
    import palmkit.engine

    for each in palmkit.engine.__path__:
        folder, archive = Path(each) / "native", Path(each) / "native.tar.xz"
        if (folder / "small/program.cc").is_file():
            yield folder
            return
        if archive.is_file():
            with tempfile.TemporaryDirectory(prefix="palmkit-") as elsewhere:
                _unpack(archive, Path(elsewhere))
                yield Path(elsewhere) / "native"
            return
    raise UnsupportedError("this palmkit was installed without the sources of its runtime")


def _unpack(archive: Path, folder: Path) -> None:
    try:
        import lzma
    except ImportError as error:
        raise UnsupportedError(f"{archive}: needs a Python that has lzma") from error
    try:
        # All of it first: tarfile does not look whether an archive ends as it should.
        content = lzma.decompress(archive.read_bytes())
    except lzma.LZMAError as error:
        raise UnsupportedError(f"{archive}: the runtime's sources are damaged: {error}") from error
    with tarfile.open(fileobj=io.BytesIO(content)) as packed:
        for entry in packed:
            source = packed.extractfile(entry)
            assert source is not None, "files alone are packed"
            place = folder / entry.name
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(source.read())


def of_models(
    native: Path, needs: Needs, targets: Sequence[Target], threads: bool = False
) -> dict[str, str]:
    """Return the sources that some plans' kernels need, by their paths in the library.

    Files in native/small stand in for those of the same path in native; with threads, those in
    native/small/threaded before them.
    """
    left_out = {f"kernels/conv/{_FILES[way]}" for way in _FILES}
    left_out -= {f"kernels/conv/{_FILES[way]}" for way in needs.ways}
    left_out |= {"kernels/conv/cost.cc", "kernels/conv/ways.cc", _OF_PLANNING}
    small = native / "small"
    instead = [small / "threaded", small] if threads else [small]
    wanted = [*_SMALL, *(["base/threads.cc"] if threads else []), *_folders(needs)]
    files = _copied(native, wanted, targets, instead, left_out)
    files["palm/base/needs.h"] = needs.text()
    if needs.ways:
        ways = "".join(f'  if (way == "{way}") return {_MAKERS[way]};\n' for way in needs.ways)
        files["palm/kernels/conv/ways.cc"] = WAYS.substitute(ways=ways)
    return dict(sorted(files.items()))


def of_runtime(native: Path, needs: Needs, targets: Sequence[Target]) -> dict[str, str]:
    """Return the sources of a runtime with the kernels of some plans, by their paths in it."""
    is_wasm = targets[0].processor == WASM
    wanted = [*_RUNTIME, *_folders(needs), *(_OF_WASM if is_wasm else ())]
    files = _copied(native, wanted, targets, left_out=[_OF_PLANNING])
    if is_wasm:
        files |= {each: (native / each).read_text("utf-8") for each in _OF_ZIG}
    files["palm/base/needs.h"] = needs.text(any_model=True)
    steps = "".join(f"PALM_STEP({kernel})\n" for kernel in sorted(needs.kernels))
    files["palm/steps.inc"] = steps
    return dict(sorted(files.items()))


def _folders(needs: Needs) -> list[str]:
    return [f"kernels/{kernel}/" for kernel in needs.kernels]


def _copied(
    native: Path,
    wanted: Iterable[str],
    targets: Sequence[Target],
    instead: Sequence[Path] = (),
    left_out: Collection[str] = (),
) -> dict[str, str]:
    """The wanted files and folders, and what they include, as the first of `instead` has them."""
    sets = {each for target in targets for each in target.sets}
    of_others = _lines_of_others(native, sets)
    files: dict[str, str] = {}
    left = list(wanted)
    left += [
        path.relative_to(native).as_posix()
        for each in sorted(sets)
        for path in sorted(native.glob(f"base/simd/**/{each}.h"))
    ]
    seen: set[str] = set(left_out)
    while left:
        path = left.pop()
        if path in seen:
            continue
        seen.add(path)
        if path.endswith("/"):
            left += [f"{path}{name}" for name in _compiled(native / path, targets)]
            continue
        source = next((base / path for base in (*instead, native) if (base / path).is_file()), None)
        if source is None:
            continue
        text = source.read_text("utf-8")
        if path.endswith(".inc"):
            text = "".join(line for line in text.splitlines(True) if not of_others.match(line))
        files[f"palm/{path}"] = text
        for included in _INCLUDED.finditer(text):
            left += _with_sources(included["path"])
    return files


def _compiled(kernel: Path, targets: Sequence[Target]) -> list[str]:
    if not kernel.is_dir():
        return []
    return [
        each.name
        for each in sorted(kernel.glob("*.cc"))
        if each.name not in ("test.cc", "bench.cc")
        and any(target.sets_of(each.name) != () for target in targets)
    ]


def _with_sources(header: str) -> Iterable[str]:
    """The header, and the sources of what it declares, if those are not of the base."""
    yield header
    if header.startswith("kernels/"):
        yield header.rpartition("/")[0] + "/" if header.count("/") > 1 else f"{header[:-1]}cc"


def _lines_of_others(native: Path, sets: set[str]) -> re.Pattern[str]:
    """What matches the lines of lists that are of instruction sets which the library has not."""
    known: set[str] = set()
    for each in native.glob("base/*isas.inc"):
        known.update(re.findall(r"_ISA\((\w+),", each.read_text("utf-8")))
    others = "|".join(sorted(known - sets))
    return re.compile(rf"PALM_(?:\w+_)?(?:ISA\(|KERNEL\(\w+, \w+?_)(?:{others})[,)]")
