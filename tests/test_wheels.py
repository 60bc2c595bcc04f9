"""A wheel is the base with a platform's library, tag and contents: the same bytes each time."""

import base64
import csv
import hashlib
import io
import json
import os
import sys
import tarfile
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

import palmkit.engine
from palmkit.engine.backends.cpu.c_library.sources import unpacked
from palmkit.engine.errors import UnsupportedError

TOOLS = Path(__file__).parents[1] / ".ci"
INFO = "palmkit-1.0.dist-info/"
INDEX = """
[face]
file = "face/face.palm"
version = "2.1"
licence = "Apache-2.0"
"""


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    if not TOOLS.is_dir():
        pytest.skip("tests run without the sources")
    monkeypatch.setattr(sys, "path", [str(TOOLS), *sys.path])
    loader = SourceFileLoader("wheels", str(TOOLS / "wheels"))
    spec = spec_from_loader("wheels", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, "DIST", tmp_path)
    monkeypatch.setattr(module, "BUILD", tmp_path / "build")
    return module


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "palmkit-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("palmkit/__init__.py", "")
        file.writestr("palmkit/models/index.toml", INDEX)
        file.writestr("palmkit/models/face/face.palm", b"weights")
        file.writestr(INFO + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: x\n\n")
        file.writestr(INFO + "RECORD", "")
        file.writestr(
            INFO + "METADATA",
            "Metadata-Version: 2.4\nName: palmkit\nVersion: 1.0\n"
            "License-Expression: Apache-2.0\nLicense-File: LICENSE\n\nText\n",
        )
    return path


def made(wheels: Any, base: Path, data: bytes = b"of another") -> Path:
    library = base.with_name("palm.dll")
    library.write_bytes(data)
    exempt = "Apache-2.0 WITH LLVM-exception"
    linked = [
        wheels.sbom.Linked("libc++", "22.1.8", exempt, "https://github.com/llvm/llvm-project"),
        wheels.sbom.Linked("mingw", "15.0", "ZPL-2.1", "https://www.mingw-w64.org", b"as is"),
    ]
    wheel: Path = wheels.written(base, "win_amd64", wheels.PLATFORMS["win_amd64"], library, linked)
    return wheel


def test_a_wheel_has_the_library_of_its_platform(wheels: Any, base: Path) -> None:
    wheel = made(wheels, base)
    assert wheel.name == "palmkit-1.0-py3-none-win_amd64.whl"
    with zipfile.ZipFile(wheel) as file:
        names = file.namelist()
        assert names[:2] == ["palmkit/__init__.py", "palmkit/engine/palm.dll"]
        assert file.read("palmkit/engine/palm.dll") == b"of another"
        lines = ["Wheel-Version: 1.0", "Root-Is-Purelib: false", "Tag: py3-none-win_amd64"]
        assert file.read(INFO + "WHEEL").decode().splitlines() == lines
        rows = list(csv.reader(io.StringIO(file.read(INFO + "RECORD").decode())))
        assert {row[0] for row in rows} == {*names}
        for name, digest, size in rows:
            if name != INFO + "RECORD":
                content = file.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
                assert (digest, int(size)) == (f"sha256={found.decode()}", len(content))
        assert file.testzip() is None
        modes = {(each.create_system, each.external_attr >> 16) for each in file.infolist()}
        assert modes == {(3, 0o100644)}
    before = wheel.read_bytes()
    assert made(wheels, base).read_bytes() == before


def test_sources_are_packed_and_unpacked_where_they_are_asked_for(
    wheels: Any, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {"palm.h": b"// C\n", "small/program.cc": b"int x;\n", "base/simd/avx.h": b"\xc3\xa4"}
    with zipfile.ZipFile(base, "a") as file:
        for name, content in sources.items():
            file.writestr(f"palmkit/engine/native/{name}", content)
        file.writestr("palmkit/engine/_native.py", b"")
    wheel = made(wheels, base)
    with zipfile.ZipFile(wheel) as file:
        names = [name for name in file.namelist() if name.startswith("palmkit/engine/")]
        file.extractall(tmp_path / "installed")
    engine = "palmkit/engine/"
    assert names == [engine + "_native.py", engine + "native.tar.xz", engine + "palm.dll"]
    folder = tmp_path / "installed/palmkit/engine"
    monkeypatch.setattr(palmkit.engine, "__path__", [str(folder)])
    with unpacked() as native:
        files = [path for path in native.rglob("*") if path.is_file()]
        found = {path.relative_to(native).as_posix(): path.read_bytes() for path in files}
    assert found == sources and not native.exists()
    archive = folder / "native.tar.xz"
    content = archive.read_bytes()
    for damaged in (content[:90], b"", content[:-40] + b"?" * 40):
        archive.write_bytes(damaged)
        with (
            pytest.raises(UnsupportedError, match="native.tar.xz: the runtime's sources"),
            unpacked(),
        ):
            pass
    archive.unlink()
    with pytest.raises(UnsupportedError, match="installed without the sources"), unpacked():
        pass


def contents(wheel: Path) -> dict[str, Any]:
    with zipfile.ZipFile(wheel) as file:
        read: dict[str, Any] = json.loads(file.read(INFO + "sboms/palmkit.cdx.json"))
    return read


def test_a_wheel_says_what_it_contains(
    wheels: Any, base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SOURCE_DATE_EPOCH", raising=False)
    wheel = made(wheels, base)
    said = contents(wheel)
    assert {
        (each["name"], each["version"], each.get("hashes", [{}])[0].get("content"))
        for each in said["components"]
    } == {
        ("palm.dll", "1.0", hashlib.sha256(b"of another").hexdigest()),
        ("libc++", "22.1.8", None),
        ("mingw", "15.0", None),
        ("face.palm", "2.1", hashlib.sha256(b"weights").hexdigest()),
    }
    assert {each["ref"]: each["dependsOn"] for each in said["dependencies"]} == {
        "pkg:pypi/palmkit@1.0": ["palmkit/engine/palm.dll", "palmkit/models/face/face.palm"],
        "palmkit/engine/palm.dll": ["libc++@22.1.8", "mingw@15.0"],
    }
    assert "timestamp" not in said["metadata"]
    with zipfile.ZipFile(wheel) as file:
        assert file.read(INFO + "licenses/mingw.txt") == b"as is"
        assert b"License-File: LICENSE\nLicense-File: mingw.txt\n" in file.read(INFO + "METADATA")
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
    assert contents(made(wheels, base))["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    assert contents(made(wheels, base, b"new"))["serialNumber"] != said["serialNumber"]


@pytest.mark.parametrize(
    ("platform", "names"),
    [
        ("manylinux_2_17_x86_64", ["libc++", "libc++abi", "libunwind", "zig-compiler-rt"]),
        ("macosx_11_0_arm64", ["libc++", "libc++abi", "zig-compiler-rt"]),
        ("win_amd64", ["libc++", "libc++abi", "libunwind", "zig-compiler-rt", "mingw-w64"]),
    ],
)
def test_what_zig_links_is_read_from_its_files(
    wheels: Any, tmp_path: Path, platform: str, names: list[str]
) -> None:
    zig = tmp_path / "ziglang"
    for name, text in {
        "LICENSE": "The MIT License",
        "../ziglang-0.17.1.dist-info/METADATA": "Metadata-Version: 2.4\nVersion: 0.17.1\n",
        "lib/libcxx/include/__config": "#  define _LIBCPP_VERSION 220108\n",
        "lib/libc/include/any-windows-any/_mingw_mac.h": "#define __MINGW64_VERSION_MAJOR 15\n"
        "#define __MINGW64_VERSION_MINOR 0\n",
        "lib/libc/mingw/COPYING": "Zope Public License",
    }.items():
        path = zig.parent / Path(*Path(name).parts[1:]) if name[0] == "." else zig / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    linked = {each.name: each for each in wheels.sbom.linked_by_zig(zig, platform)}
    assert [*linked] == names
    assert linked["libc++"].version == "22.1.8" and not linked["libc++"].notice
    assert linked["zig-compiler-rt"].version == "0.17.1"
    assert linked["zig-compiler-rt"].notice == b"The MIT License"
    if "mingw-w64" in linked:
        assert linked["mingw-w64"].version == "15.0" and linked["mingw-w64"].notice


def test_what_it_says_is_cyclonedx(wheels: Any, base: Path) -> None:
    pytest.importorskip("cyclonedx", reason="make .venv/.dev installs cyclonedx-python-lib")
    from cyclonedx.schema import SchemaVersion
    from cyclonedx.validation.json import JsonStrictValidator

    text = json.dumps(contents(made(wheels, base)))
    assert JsonStrictValidator(SchemaVersion.V1_6).validate_str(text) is None


def test_a_wheel_of_another_compiler_gets_its_contents_once(
    wheels: Any, base: Path, tmp_path: Path
) -> None:
    wheels.sbom.main([str(base)])
    before = base.read_bytes()
    assert [each["name"] for each in contents(base)["components"]] == ["face.palm"]
    wheels.sbom.main([str(base)])
    assert base.read_bytes() == before
    (tmp_path / "empty").mkdir()
    with pytest.raises(SystemExit):
        wheels.sbom.main([str(tmp_path / "empty")])


def test_a_wheel_that_is_too_large_is_told(wheels: Any, base: Path) -> None:
    wheels.MOST_BYTES = 100
    with pytest.raises(SystemExit, match="expected at most 100"):
        made(wheels, base)
    assert not [*base.parent.glob("*win*.whl")]


def test_unknown_platforms_are_told(wheels: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        wheels.main(["amiga"])
    assert "no platform amiga" in capsys.readouterr().err


def test_sources_that_stayed_are_not_written_again(wheels: Any, tmp_path: Path) -> None:
    def archived(**texts: str) -> Path:
        path = tmp_path / "palmkit-1.0.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name, text in texts.items():
                entry = tarfile.TarInfo(f"palmkit-1.0/engine/native/{name}.cc")
                entry.size = len(text)
                archive.addfile(entry, io.BytesIO(text.encode()))
        return path

    source = wheels.unpacked(archived(stays="1", changes="2", goes="3"))
    before = {path.name: path.stat().st_mtime_ns for path in source.iterdir()}
    wheels.unpacked(archived(stays="1", changes="4"))
    after = {path.name: path.stat().st_mtime_ns for path in source.iterdir()}
    assert {*after} == {"stays.cc", "changes.cc"}
    assert after["stays.cc"] == before["stays.cc"]
    assert (source / "changes.cc").read_text() == "4"


@pytest.mark.skipif(os.name == "nt", reason="the stand-in is a script of sh")
@pytest.mark.parametrize(
    ("name", "said", "is_fit"),
    [
        ("manylinux_2_17_x86_64", 'platform tag:\n"manylinux_2_17_x86_64".', True),
        ("manylinux_2_17_x86_64", 'platform tag:\n"manylinux_2_28_x86_64".', False),
        ("win_amd64", "will be copied into the wheel.\n    None\n", True),
        ("win_amd64", "will be copied into the wheel.\n    libgcc.dll\n", False),
        ("win_amd64", "", False),
        ("musllinux_1_1_x86_64", "", True),
    ],
)
def test_other_checkers_are_heard(
    wheels: Any, tmp_path: Path, name: str, said: str, is_fit: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for checker in ("auditwheel", "delvewheel"):
        script = tmp_path / checker
        script.write_text(f"#!/bin/sh\ncat <<'END'\n{said}\nEND\n")
        script.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    if is_fit:
        wheels.check_wheel(tmp_path / "a.whl", name)
        return
    with pytest.raises(SystemExit, match="says"):
        wheels.check_wheel(tmp_path / "a.whl", name)
