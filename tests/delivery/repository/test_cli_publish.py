"""palmkit models create, publish, promote, ... as CI and people run them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from palmkit.delivery import encryption
from palmkit.delivery.policy import Condition
from palmkit.delivery.repository import Conflict, Repository
from palmkit.kits.cli import main
from palmkit.kits.cli.command import UsageError
from palmkit.kits.cli.models_rollout import conditions
from tests.delivery.releases import write_model
from tests.delivery.tuf_device import Device

Run = Callable[..., Any]


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Runs a command on a new repository, and gives its JSON; `code` is what it should end with."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PALMKIT_PASSPHRASE", "a long sentence")
    monkeypatch.delenv("PALMKIT_REPOSITORY", raising=False)

    def run_it(command: str, *more: str | Path, code: int = 0) -> Any:
        arguments = ["models", *command.split(), *map(str, more), "--json"]
        try:
            ended = main(arguments)
        except SystemExit as error:
            ended = int(error.code or 0)
        out, err = capsys.readouterr()
        assert ended == code, err
        return json.loads(out) if out else err

    run_it("create")
    write_model(tmp_path / "model.palm")
    return run_it


def test_from_nothing_to_a_rollout_and_back(tmp_path: Path, run: Run) -> None:
    made = run("publish doubler 1.0.0 model.palm --notes first --metric map=0.5")
    assert made["main"] == "doubler-1.0.0.palm" and made["pending"] == []
    assert run("promote doubler 1.0.0")["channels"]["stable"][0]["percent"] == 100
    write_model(tmp_path / "better.palm", 3.0)
    run("publish doubler 1.1.0 better.palm --golden 1 --sdk >=0.1,<3")
    policy = run("promote doubler 1.1.0 --percent 5 --when os=linux --when memory_mb>=512")
    assert [each["release"] for each in policy["channels"]["stable"]] == ["1.1.0", "1.0.0"]
    assert run("halt doubler 1.1.0")["channels"]["stable"][0]["halt"]
    assert run("recall doubler 1.1.0")["channels"]["stable"][0]["recall"]
    run("promote doubler 1.1.0")
    policy = run("recall doubler")
    assert [each["recall"] for each in policy["channels"]["stable"]] == [True, False]
    (listed,) = run("releases")["models"]
    assert [each["release"] for each in listed["releases"]] == ["1.0.0", "1.1.0"]
    assert listed["releases"][0]["metrics"] == {"map": 0.5}
    assert listed["releases"][1]["needs"]["sdk"] == ">=0.1,<3"
    assert listed["policy"]["epoch"] == policy["epoch"]
    assert run("floor doubler 1.0.0")["floor"] == "1.0.0"
    assert run("floor doubler none")["floor"] is None
    assert run("retry doubler")["retry_epoch"] == 1
    assert "1.1.0" in run("revoke doubler 1.1.0")["revoked"]
    assert run("verify") == {"problems": []}


def test_in_words(tmp_path: Path, run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["models", "releases"]) == 0
    assert capsys.readouterr().out == "no release yet\n"
    assert main(["models", "publish", "doubler", "1.0.0", "model.palm"]) == 0
    assert "published doubler 1.0.0\n  doubler-1.0.0.palm" in capsys.readouterr().out
    run("promote doubler 1.0.0 --channel beta --percent 0.5 --when os=linux")
    assert main(["models", "halt", "doubler", "1.0.0"]) == 0
    assert capsys.readouterr().out == (
        "doubler: epoch 3\n  beta     1.0.0        0.5 %  halted os in ['linux']\n"
    )
    assert main(["models", "verify"]) == 0
    assert capsys.readouterr().out == "all is as it should be\n"
    assert main(["models", "resign"]) == 0
    assert capsys.readouterr().out == "nothing to sign yet\n"


def test_codes_tell_ci_what_went_wrong(
    tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    run("publish doubler 1.0.0 model.palm")
    run("publish doubler 1.0.0 model.palm")
    write_model(tmp_path / "other.palm", 7.0)
    assert "a release never changes" in run("publish doubler 1.0.0 other.palm", code=1)
    assert "no such file: none.palm" in run("publish doubler 2.0.0 none.palm", code=1)
    assert "expected a version like" in run("publish doubler newest model.palm", code=1)
    assert "no release 3.0.0" in run("promote doubler 3.0.0", code=1)
    assert "got 101" in run("promote doubler 1.0.0 --percent 101", code=1)
    assert "--when: expected something like" in run("promote doubler 1.0.0 --when x", code=2)
    assert "--metric: expected" in run("publish doubler 2 model.palm --metric map", code=2)
    assert "RELEASE and --to" in run("recall doubler 1.0.0 --to 0.9", code=2)
    assert "expected one of root, targets" in run("rotate-key door", code=2)
    assert "no repository" in run("releases --repository elsewhere", code=1)
    assert "already" in run("create", code=1)
    monkeypatch.delenv("PALMKIT_PASSPHRASE")
    assert "$PALMKIT_PASSPHRASE" in run("promote doubler 1.0.0", code=1)
    assert "or --no-passphrase" in run("create --repository other", code=2)
    run("create --repository other --no-passphrase")
    monkeypatch.setenv("PALMKIT_PASSPHRASE", "a long sentence")

    def conflict(*args: object) -> None:
        raise Conflict("written by somebody else at the same time")

    monkeypatch.setattr(Repository, "retry", conflict)
    assert "somebody else" in run("retry doubler", code=75)
    (tmp_path / "repository/public/metadata/timestamp.json").unlink()
    assert run("verify", code=1)["problems"]


def test_golden_inputs_encryption_and_deltas(tmp_path: Path, run: Run) -> None:
    key = bytes(range(32))
    (tmp_path / "key.bin").write_bytes(key)
    given: dict[str, Any] = {"ones/x": np.ones((1, 16), np.float32)}
    np.savez(tmp_path / "inputs.npz", **given)
    run("publish doubler 1.0.0 model.palm --golden inputs.npz --key key.bin --key-id app")
    manifest = Repository.open(tmp_path / "repository").manifest("doubler", "1.0.0")
    file = manifest.file(manifest.main)
    assert file.encryption is not None and file.encryption.key_id == "app"
    stored = tmp_path / f"repository/public/targets/models/doubler/{file.sha256}.{file.name}"
    encryption.decrypt(stored, tmp_path / "plain.palm", key)
    assert (tmp_path / "plain.palm").read_bytes() == (tmp_path / "model.palm").read_bytes()
    run("publish doubler 1.0.0 model.palm --golden inputs.npz --key key.bin --key-id app")
    (tmp_path / "short.bin").write_bytes(b"short")
    assert "32" in run("publish doubler 2 model.palm --key short.bin --key-id app", code=1)
    assert run("publish doubler 1.2.0 model.palm --golden none")["files"][0]["size"]


def test_a_delta_is_made_where_it_saves_enough(tmp_path: Path, run: Run) -> None:
    from palmkit.delivery import delta

    first = write_model(tmp_path / "first.palm", 2.0, 200_000)
    run("publish large 1.0.0 first.palm --golden 1")
    second = write_model(tmp_path / "second.palm", 2.0, 200_016)
    made = run("publish large 1.1.0 second.palm --golden 1")
    repository = Repository.open(tmp_path / "repository")
    manifest = repository.manifest("large", "1.1.0")
    (found,) = manifest.file(manifest.main).deltas
    assert found.base == repository.manifest("large", "1.0.0").files[0].sha256
    assert found.name in [each["name"] for each in made["files"]]
    assert found.size < 0.6 * second.stat().st_size
    device = Device(tmp_path / "device", repository.root())
    patch = device.get(repository.public, f"models/large/{found.name}")
    whole = delta.apply(found.codec, first.read_bytes(), patch, second.stat().st_size)
    assert whole == second.read_bytes()
    run("publish large 1.2.0 second.palm --golden 1 --no-deltas")
    manifest = repository.manifest("large", "1.2.0")
    assert manifest.file(manifest.main).deltas == ()
    run("publish shipped 1.0.0 second.palm --golden 1 --shipped first.palm")
    manifest = repository.manifest("shipped", "1.0.0")
    assert len(manifest.file(manifest.main).deltas) == 1


def test_ceremony(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("publish doubler 1.0.0 model.palm")
    for name in ("ada", "ben", "cleo"):
        monkeypatch.setenv("PALMKIT_PASSPHRASE", f"secret of {name}")
        run("ceremony key", f"{name}.pem")
    monkeypatch.setenv("PALMKIT_PASSPHRASE", "a long sentence")
    repository = Repository.open(tmp_path / "repository")
    (old,) = repository.roles.keys_of("root")
    adding = " ".join(f"--add root={name}.pub" for name in ("ada", "ben", "cleo"))
    started = run(
        f"ceremony start next.json {adding} --remove root={old.keyid[:8]} --threshold root=2"
    )
    assert "root: threshold 1 -> 2" in started["changes"]
    assert len(started["missing"]) == 2
    assert "not signed enough" in run("ceremony finish next.json", code=1)
    run("ceremony sign next.json --key repository/keys/root.pem")
    for name in ("ada", "cleo"):
        monkeypatch.setenv("PALMKIT_PASSPHRASE", f"secret of {name}")
        run(f"ceremony sign next.json --key {name}.pem")
    assert "cannot be opened" in run("ceremony sign next.json --key ben.pem", code=1)
    monkeypatch.setenv("PALMKIT_PASSPHRASE", "a long sentence")
    assert run("ceremony show next.json")["missing"] == []
    assert "root: threshold 1 -> 2" in run("ceremony finish next.json")["changes"]
    assert "ceremony" in run("rotate-key root", code=1)
    # A key made in keys/ is known there: root's holders let it sign the timestamp.
    new = run("ceremony key repository/keys/timestamp-2.pem")
    (old,) = Repository.open(tmp_path / "repository").roles.keys_of("timestamp")
    adding = "--add timestamp=repository/keys/timestamp-2.pub"
    run(f"ceremony start next.json {adding} --remove timestamp={old.keyid[:8]}")
    for name in ("ben", "cleo"):
        monkeypatch.setenv("PALMKIT_PASSPHRASE", f"secret of {name}")
        run(f"ceremony sign next.json --key {name}.pem")
    monkeypatch.setenv("PALMKIT_PASSPHRASE", "a long sentence")
    assert (
        f"timestamp: + key {new['key'][:8]} (ed25519)"
        in run("ceremony finish next.json")["changes"]
    )
    assert "expected --key FILE" in run("ceremony sign next.json", code=2)
    assert "ROLE=VALUE" in run("ceremony start x.json --add ada.pub", code=2)
    assert run("verify") == {"problems": []}


def test_keys_and_upkeep(tmp_path: Path, run: Run) -> None:
    run("publish doubler 1.0.0 model.palm")
    for name in ("root", "targets", "models", "rollout", "snapshot", "timestamp"):
        assert run(f"rotate-key {name}")["role"] == name
    assert b"ENCRYPTED" in (tmp_path / "repository/keys/models-2.pem").read_bytes()
    assert "both or none" in run("rotate-key models --uri awskms:alias/x", code=2)
    run("ceremony key elsewhere.pem")
    uri = f"encrypted:{tmp_path / 'elsewhere.pem'}"
    new = run("rotate-key models --uri", uri, "--public-key", "elsewhere.pub")
    assert new["key"] in Repository.open(tmp_path / "repository").ring
    write_model(tmp_path / "new.palm", 5.0)
    run("publish doubler 1.1.0 new.palm")
    assert run("resign --force")["signed"] == ["rollout", "snapshot", "timestamp"]
    assert run("mirror", tmp_path / "www")["copied"] > 10
    assert run("prune --keep-days 0")["files"] > 0
    assert run("verify") == {"problems": []}


def test_the_passphrase_is_asked_for_once(
    run: Run, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[str] = []

    def type_it(prompt: str) -> str:
        asked.append(prompt)
        return "a long sentence"

    monkeypatch.delenv("PALMKIT_PASSPHRASE")
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("palmkit.kits.cli.repositories.getpass", type_it)
    run("publish doubler 1.0.0 model.palm")
    assert asked == ["passphrase of the keys: "]


@pytest.mark.parametrize(
    ("text", "condition"),
    [
        ("os=linux,macos", Condition("os", "in", ["linux", "macos"])),
        ("memory_mb>=2000", Condition("memory_mb", "at_least", 2000)),
        ("memory_mb<=2000", Condition("memory_mb", "at_most", 2000)),
        ("cpu:avx2,fma", Condition("cpu", "has", ["avx2", "fma"])),
        ("sdk>=0.2", Condition("sdk", "in", ">=0.2")),
        ("sdk:>=0.2,<1", Condition("sdk", "in", ">=0.2,<1")),
        ("sdk=<1", Condition("sdk", "in", "<1")),
        ("tag:beta", Condition("tag", "has", ["beta"])),
    ],
)
def test_conditions(text: str, condition: Condition) -> None:
    assert conditions([text]) == (condition,)
    assert conditions(None) is None
    assert conditions(["none"]) == ()
    with pytest.raises(UsageError, match="expected a number"):
        conditions(["memory_mb>=much"])


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    names = "create publish releases promote halt recall revoke floor retry resign rotate-key"
    for name in [*names.split(), "ceremony", "verify", "prune", "mirror"]:
        with pytest.raises(SystemExit) as ended:
            main(["models", name, "--help"])
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert "examples:" in text and "palmkit models" in text and "Exit codes" in text
        assert max(map(len, text.splitlines())) <= 100
