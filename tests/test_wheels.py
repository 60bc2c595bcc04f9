"""A wheel for another platform is the base's with its library and tag, the same bytes each time."""

import base64
import csv
import hashlib
import io
import zipfile
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[1] / ".ci" / "wheels"
INFO = "palmkit-1.0.dist-info/"


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    if not SCRIPT.is_file():
        pytest.skip("tests run without the sources")
    loader = SourceFileLoader("wheels", str(SCRIPT))
    spec = spec_from_loader("wheels", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    monkeypatch.setattr(module, "DIST", tmp_path)
    return module


@pytest.fixture
def base(tmp_path: Path) -> Path:
    path = tmp_path / "palmkit-1.0-py3-none-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("palmkit/__init__.py", "")
        file.writestr("palmkit/engine/libpalm.so", b"of this machine")
        file.writestr(INFO + "WHEEL", "Wheel-Version: 1.0\nTag: py3-none-linux_x86_64\n\n")
        file.writestr(INFO + "RECORD", "")
    return path


def test_a_wheel_has_the_library_of_its_platform(wheels: Any, base: Path, tmp_path: Path) -> None:
    library = tmp_path / "palm.dll"
    library.write_bytes(b"of another")
    made = wheels.written(base, "win_amd64", wheels.PLATFORMS["win_amd64"], library)
    assert made.name == "palmkit-1.0-py3-none-win_amd64.whl"
    with zipfile.ZipFile(made) as file:
        names = file.namelist()
        assert names[:2] == ["palmkit/__init__.py", "palmkit/engine/palm.dll"]
        assert file.read("palmkit/engine/palm.dll") == b"of another"
        assert file.read(INFO + "WHEEL").decode() == "Wheel-Version: 1.0\nTag: py3-none-win_amd64\n"
        rows = list(csv.reader(io.StringIO(file.read(INFO + "RECORD").decode())))
        assert {row[0] for row in rows} == {*names}
        for name, digest, size in rows:
            if name != INFO + "RECORD":
                content = file.read(name)
                found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=")
                assert (digest, int(size)) == (f"sha256={found.decode()}", len(content))
    before = made.read_bytes()
    wheels.written(base, "win_amd64", wheels.PLATFORMS["win_amd64"], library)
    assert made.read_bytes() == before


def test_a_wheel_that_is_too_large_is_told(wheels: Any, base: Path, tmp_path: Path) -> None:
    library = tmp_path / "palm.dll"
    library.write_bytes(bytes(20))
    wheels.MOST_BYTES = 100
    with pytest.raises(SystemExit, match="expected at most 100"):
        wheels.written(base, "win_amd64", wheels.PLATFORMS["win_amd64"], library)


def test_unknown_platforms_are_told(wheels: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        wheels.main(["amiga"])
    assert "no platform amiga" in capsys.readouterr().err
