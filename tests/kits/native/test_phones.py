"""docs/phones.md: its bridge to Java runs with a JDK, its CMake project has both libraries."""

import os
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from palmkit import kits
from palmkit.kits.image import Image
from palmkit.kits.kit import shipped_model
from tests.engine.native import program as engine
from tests.kits.native.program import SANITIZER, SOURCES, built, cmake, run

JAVAC = shutil.which("javac")
LIBRARY = engine.library()

pytestmark = [
    pytest.mark.skipif(JAVAC is None, reason="needs a JDK"),
    pytest.mark.skipif(cmake() is None or engine.compiler() is None, reason="needs compilers"),
    pytest.mark.skipif(LIBRARY is None, reason="libpalm.so is not built"),
    pytest.mark.skipif(bool(SANITIZER), reason="Java runs without the sanitizers"),
]

MAIN = """
package com.example;

import java.nio.ByteBuffer;
import java.nio.file.*;

final class Main {
    public static void main(String[] given) throws Exception {
        byte[] bytes = Files.readAllBytes(Path.of(given[1]));
        ByteBuffer pixels = ByteBuffer.allocateDirect(bytes.length).put(bytes);
        int width = Integer.parseInt(given[2]), height = Integer.parseInt(given[3]);
        int stride = Integer.parseInt(given[4]);
        Faces faces = new Faces();
        try {
            faces.create("none.palm");
        } catch (IllegalStateException error) {
            System.out.println(error.getMessage());
        }
        long handle = faces.create(given[0]);
        float[] to = new float[12];
        int count = faces.find(handle, pixels, width, height, stride, 90, 0, to);
        for (int i = 0; i < 6 * count; ++i) System.out.print(to[i] + " ");
        try {
            faces.find(handle, pixels, width, height + 1, stride, 90, 40, to);
        } catch (IllegalStateException error) {
            System.out.println(error.getMessage());
        }
        faces.free(handle);
    }
}
"""


def blocks(language: str) -> list[str]:
    text = (engine.ROOT / "docs" / "phones.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_the_bridge_to_java(tmp_path: Path, astronaut: Image) -> None:
    home = Path(os.path.realpath(JAVAC or "")).parents[1]
    (bridge,), (faces,) = blocks("c"), blocks("java")
    (tmp_path / "faces_jni.c").write_text(bridge)
    (tmp_path / "Faces.java").write_text(faces)
    (tmp_path / "Main.java").write_text(MAIN)
    folders = (SOURCES, engine.HEADER, home / "include", home / "include" / "linux")
    command = [*(engine.compiler() or []), "-std=c99", "-Wall", "-Wextra", "-Werror", "-shared"]
    command += ["-fPIC", *(f"-I{folder}" for folder in folders), str(tmp_path / "faces_jni.c")]
    command += [str(SOURCES / "palm_network.c"), "-o", str(tmp_path / "libapp.so")]
    for place, name in ((built(), "palm_kits"), (LIBRARY, "palm")):
        command += [f"-L{place}", f"-l{name}", f"-Wl,-rpath,{place}"]
    run(command)
    sources = [str(tmp_path / f"{name}.java") for name in ("Faces", "Main")]
    run([str(JAVAC), "-d", str(tmp_path), *sources])
    picture = np.zeros((512, 520, 4), np.uint8)
    picture[:, :512, :3] = np.rot90(astronaut)
    # As cameras have it: nothing behind the last row.
    pixels = picture.tobytes()[: -8 * 4]
    (tmp_path / "pixels").write_bytes(pixels)
    command = [str(home / "bin" / "java"), "-Xcheck:jni", f"-Djava.library.path={tmp_path}"]
    command += ["-cp", str(tmp_path), "com.example.Main", str(shipped_model("face_detector"))]
    said = run([*command, str(tmp_path / "pixels"), "512", "512", str(4 * 520)])
    missing, found, *_ = said.splitlines()
    assert missing == "none.palm: cannot be read: No such file or directory"
    numbers, refusal = found.split(" the ", 1)
    assert refusal == "buffer is smaller than the picture"
    with kits.FaceDetector("video") as detector:
        (face,) = detector.detect(astronaut)
    expected = [0, face.score, *face.box]
    np.testing.assert_allclose(np.array(numbers.split(), np.float64), expected, rtol=0, atol=1e-3)


def test_the_apps_project(tmp_path: Path) -> None:
    """CMake takes both libraries as parts of another project; to build them takes minutes."""
    (project,) = blocks("cmake")
    (tmp_path / "CMakeLists.txt").write_text(project)
    (tmp_path / "faces_jni.c").write_text("")
    (tmp_path / "palmkit").symlink_to(engine.ROOT)
    build = tmp_path / "build"
    run([str(cmake()), "-S", str(tmp_path), "-B", str(build)])
    targets = run([str(cmake()), "--build", str(build), "--target", "help"])
    assert {"app", "palm", "palm_kits"} <= set(targets.replace(":", " ").split())
