"""The engines of the comparison, and what each is given."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palmkit.engine.bench.comparison import Subject
from palmkit.engine.bench.engines import OURS


@dataclass(frozen=True)
class Contender:
    """An engine of the web.

    module: its file of page/engines. package: npm's name of it, "" of ours. forms: of the files
    that it reads, the best first. most_threads: 0: as many as are asked for.
    """

    name: str
    title: str
    module: str
    package: str
    forms: tuple[str, ...]
    most_threads: int = 0

    def version(self, folder: Path) -> str:
        """Return the version of what is in node_modules of a folder."""
        if not self.package:
            return ""
        file = folder / "node_modules" / self.package / "package.json"
        return str(json.loads(file.read_text("utf-8"))["version"])

    def refuses(self, subject: Subject, threads: int) -> str:
        """Return why it cannot be given a network; "" if it can."""
        if self.most_threads and threads > self.most_threads:
            return "it has no threads"
        if any(form in subject.files for form in self.forms):
            return ""
        missing = [subject.missing[form] for form in self.forms if form in subject.missing]
        return "; ".join([f"reads .{' or .'.join(self.forms)} only", *missing])

    def job(self, subject: Subject, folder: str, threads: int, modules: str) -> dict[str, Any]:
        """Return what its module is told.

        folder: the address of the network's files; modules: of our runtime's, where it is ours.
        """
        found = {
            "network": Path(subject.name).stem,
            "threads": threads,
            "files": {form: f"{folder}/model.{form}" for form in subject.files},
            "inputs": [
                {"name": name, "dtype": str(array.dtype), "dims": array.shape, "url": url}
                for (name, array), url in zip(
                    subject.inputs.items(), input_urls(subject, folder), strict=True
                )
            ],
        }
        if not self.package:
            builds = ("wasm", "wasm_relaxed") if self.name == OURS else ("wasm",)
            found["builds"] = {
                f"{build}{end}": f"{modules}/palm_{build}{end}.wasm"
                for build in builds
                for end in ("", "_threads")
            }
        return found


def input_urls(subject: Subject, folder: str) -> list[str]:
    """Return where the data of each input are."""
    return [f"{folder}/input.{i}" for i in range(len(subject.inputs))]


# What is ours as well, but for browsers without relaxed SIMD: it is no peer.
SIMD128 = "palmkit_simd128"
CONTENDERS = (
    Contender(OURS, "PalmKit", "palmkit", "", ("palm",)),
    Contender(SIMD128, "PalmKit, SIMD128", "palmkit", "", ("palm",)),
    Contender("onnxruntime", "ONNX Runtime", "onnxruntime", "onnxruntime-web", ("onnx",)),
    Contender("litert", "LiteRT", "litert", "@litertjs/core", ("tflite",)),
    Contender("tflite", "tfjs-tflite", "tflite", "@tensorflow/tfjs-tflite", ("tflite",)),
    Contender("mediapipe", "MediaPipe", "mediapipe", "@mediapipe/tasks-vision", ("tflite",), 1),
)
PEERS = tuple(each for each in CONTENDERS if each.package)
TITLES = {each.name: each.title for each in CONTENDERS if each.name != SIMD128}
