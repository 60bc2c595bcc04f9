"""Importing the kits is nearly free: what costs time is imported when it is first used."""

import subprocess
import sys

HEAVY = {
    "PIL", "cryptography", "cv2", "numpy", "onnx", "onnxruntime", "packaging", "requests",
    "sqlalchemy", "sqlite3", "starlette", "tflite", "torch", "tqdm", "tuf", "zstandard",
}  # fmt: skip
# Of what Python brings, of PalmKit, and what others of these would import.
LATER = {
    "bz2", "hashlib", "importlib.resources", "lzma", "queue", "random", "secrets", "shutil",
    "tempfile", "zipfile", "palmkit.delivery", "palmkit.engine.deprecated", "palmkit.engine.ops",
    "palmkit.engine.passes", "palmkit.engine.replacing", "palmkit.engine.steps",
    "palmkit.kits.draw", "palmkit.kits.stream", "palmkit.models",
}  # fmt: skip


def modules_after(code: str) -> set[str]:
    code = f"{code}\nimport sys; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def imported_by(code: str) -> set[str]:
    return {name for name in modules_after(code) if "." not in name}


def test_importing_kits_imports_nothing_heavy() -> None:
    before = imported_by("import importlib.metadata")
    after = imported_by("import palmkit.kits")
    assert not after & HEAVY
    assert len(after - before) < 15


def test_importing_a_kit_leaves_out_what_it_may_not_need() -> None:
    loaded = imported_by("from palmkit.kits import FaceDetector")
    assert "numpy" in loaded
    assert not loaded & (HEAVY - {"numpy"})


def test_a_face_detector_imports_only_what_it_always_needs() -> None:
    loaded = modules_after("from palmkit.kits import FaceDetector") - modules_after("import numpy")
    assert not loaded & LATER
    kits = {name.split(".")[2] for name in loaded if name.startswith("palmkit.kits.")}
    assert not kits & {"hands", "portrait", "ranking", "tryon"}
    results = {name for name in loaded if name.startswith("palmkit.kits.results.")}
    assert results == {f"palmkit.kits.results.{name}" for name in ("faces", "result", "things")}


def test_asking_for_models_imports_only_what_a_local_answer_takes() -> None:
    assert not imported_by("import palmkit.delivery") & HEAVY
    code = "from palmkit import delivery; delivery.get('face_detector', 'local')"
    assert not imported_by(code) & (HEAVY - {"numpy", "sqlite3"})


def test_a_command_imports_no_other_and_no_progress_bar() -> None:
    code = "from palmkit.kits.cli import main; main(['info', '--help'])"
    ended = f"try:\n    {code}\nexcept SystemExit:\n    print()"
    loaded = modules_after(ended)
    assert "palmkit.kits.cli.info" in loaded
    others = {"argparse", "importlib.metadata", "tqdm"} | {
        f"palmkit.kits.cli.{name}" for name in ("compress", "face", "kit", "serve", "models")
    }
    assert loaded & others == {"argparse"}
