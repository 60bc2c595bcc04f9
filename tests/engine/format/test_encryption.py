"""Files that only their key opens."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit import engine
from palmkit.engine.errors import ModelError
from palmkit.engine.format import reader, writer
from tests.engine.format.samples import network, sealed
from tests.engine.format.test_format import assert_same

KEY = bytes(range(32))

pytest.importorskip("cryptography", reason="the package cryptography is not installed")


def test_a_file_opens_with_its_key_alone(tmp_path: Path) -> None:
    graph, path = network(), tmp_path / "shut.palm"
    engine.save(graph, path, "smallest", key=KEY)
    content = path.read_bytes()
    assert b"leaky_relu" not in content
    assert_same(engine.convert(path, key=KEY), graph)
    engine.save(graph, tmp_path / "open.palm")
    x = {"x": np.random.default_rng(0).normal(size=(1, 2, 3, 4)).astype(np.float32)}
    shut = engine.load(path, key=KEY).run(x)
    for name, value in engine.load(tmp_path / "open.palm").run(x).items():
        assert shut[name].tobytes() == value.tobytes()
    for key in (None, bytes(32), KEY[::-1]):
        with pytest.raises(ModelError, match=r"shut.palm: encrypted"):
            engine.load(path, key=key)
        with pytest.raises(ModelError, match=r"shut.palm: encrypted"):
            engine.convert(path, key=key)


def test_no_two_files_are_alike() -> None:
    from palmkit.engine.format.encryption import encrypted

    assert encrypted(b"the same", KEY)[:12] != encrypted(b"the same", KEY)[:12]


@pytest.mark.parametrize("key", [b"", b"short", bytes(33)])
def test_key_of_another_length_is_a_mistake(key: bytes, tmp_path: Path) -> None:
    path = tmp_path / "model.palm"
    with pytest.raises(ValueError, match=f"key: expected 32 bytes, got {len(key)}"):
        engine.save(network(), path, key=key)
    assert not path.exists()
    with pytest.raises(ValueError, match="key: expected for .palm only"):
        engine.save(network(), tmp_path / "model.onnx", key=KEY)


def test_every_change_is_seen(tmp_path: Path) -> None:
    path = tmp_path / "shut.palm"
    writer.save(network(), path, key=KEY)
    content = path.read_bytes()
    for place in range(128, len(content) - 24, 7):
        bad = bytearray(content)
        bad[place] ^= 1
        path.write_bytes(sealed(bad))
        with pytest.raises(ModelError):
            reader.load(path, KEY)


def test_a_key_does_no_harm_to_a_file_that_is_open(tmp_path: Path) -> None:
    writer.save(network(), tmp_path / "open.palm")
    assert_same(reader.load(tmp_path / "open.palm", KEY), network())


def test_an_older_engine_says_what_it_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer.save(network(), tmp_path / "shut.palm", key=KEY)
    known: Any = ("control_flow", "narrow_types", "ordered")
    monkeypatch.setattr(reader, "FEATURES", known)
    with pytest.raises(engine.UnsupportedError, match="upgrade palmkit: the file needs encrypted"):
        reader.loads((tmp_path / "shut.palm").read_bytes())
