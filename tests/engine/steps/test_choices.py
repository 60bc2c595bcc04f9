"""The passes that choose for steps: threads, algorithms, how weights lie in a file; as text."""

from collections.abc import Sequence

import pytest

from palmkit.engine.backends.cpu.passes import STEP_PASSES, tune
from palmkit.engine.backends.cpu.passes.branches import share_out
from palmkit.engine.backends.cpu.passes.read_in_place import read_in_place
from palmkit.engine.backends.cpu.passes.tune import choose_algorithms
from palmkit.engine.steps.rewriting import Lowered, Purpose
from palmkit.engine.steps.step import Step
from tests.engine.steps.text import Text, changed, lines, unchanged

BRANCHES = """
    x = arena(1, 8, 8, 64)
    w = random(64, 3, 3, 64)
    v = random(64, 1, 1, 64)
    t = unary(1, 8, 8, 64, x=x, op="exp", in_place="x")
    p = conv(1, 8, 8, 64, image=t, weights=v, activation="relu")
    q = conv(1, 8, 8, 64, image=t, weights=v, residual=t, in_place="residual")
    u = conv(1, 8, 8, 64, image=p, weights=v)
    s = conv(1, 8, 8, 64, image=q, weights=v)
    y = binary(1, 8, 8, 64, a=u, b=s, op="mul", shape=[4096], a_strides=[1], b_strides=[1])
"""


def test_branches_of_small_steps_are_shared_out() -> None:
    """What the other branch reads is not written over."""
    after = """
        unary(x=x, y=t, op='exp', in_place='x')
        conv(image=t, weights=v, y=p, activation='relu', branch=1)
        conv(image=t, weights=v, residual=t, y=q, branch=2)
        conv(image=p, weights=v, y=u, branch=1)
        conv(image=q, weights=v, y=s, branch=2)
        binary(a=u, b=s, y=y, op='mul', shape=[4096], a_strides=[1], b_strides=[1])
    """
    changed(BRANCHES, after, share_out, threads=2)


def test_one_thread_has_no_branches() -> None:
    unchanged(BRANCHES, share_out, threads=1)


def test_large_steps_are_shared_out_each_by_itself() -> None:
    unchanged(BRANCHES.replace("weights=v", "weights=w"), share_out, threads=2)


def test_a_chain_has_no_branches() -> None:
    chain = """
        x = arena(1, 8, 8, 64)
        v = random(64, 1, 1, 64)
        p = conv(1, 8, 8, 64, image=x, weights=v, residual=x)
        q = conv(1, 8, 8, 64, image=p, weights=v, residual=p)
        s = conv(1, 8, 8, 64, image=q, weights=v, residual=q)
    """
    unchanged(chain, share_out, threads=2)


CONVOLUTIONS = """
    x = input(1, 24, 24, 16)
    w = random(16, 5, 5, 16)
    v = random(16, 1, 1, 16)
    y = output(1, 24, 24, 16)
    a = conv(1, 24, 24, 16, image=x, weights=w, pads=[2, 2, 2, 2])
    conv(image=a, weights=v, y=y)
"""


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch, tmp_path: object) -> list[Sequence[str]]:
    """What is timed, in place of the timing: the last algorithm is the fastest."""
    monkeypatch.setenv("PALMKIT_CACHE_HOME", str(tmp_path))
    calls: list[Sequence[str]] = []

    def time_step(lowered: Lowered, step: Step, algorithms: Sequence[str], *_: object) -> object:
        calls.append(algorithms)
        return {name: 1.0 if name == algorithms[-1] else 2.0 for name in algorithms}

    monkeypatch.setattr(tune, "time_step", time_step)
    return calls


def test_the_fastest_algorithm_is_chosen(timed: list[Sequence[str]]) -> None:
    text = Text.of(CONVOLUTIONS)
    assert text.after(choose_algorithms) == text.before()
    assert timed == []
    after = """
        conv(image=x, weights=w, y=a, pads=[2, 2, 2, 2], algorithm='{fastest}')
        conv(image=a, weights=v, y=y)
    """
    found = Text.of(CONVOLUTIONS, Purpose(tune=True)).after(choose_algorithms)
    assert len(timed) == 1
    assert found == lines(after.replace("{fastest}", timed[0][-1]))


def test_weights_lie_in_a_file_as_they_are_read() -> None:
    text = """
        x = input(1, 8, 8, 64)
        w = random(64, 1, 1, 64)
        d = random(64, 3, 3, 1)
        v = random(32, 1, 1, 64)
        a = conv(1, 8, 8, 64, image=x, weights=w)
        b = separable_conv(1, 8, 8, 32, image=a, depthwise_weights=d, weights=v, strides=[1, 1],
            dilations=[1, 1], pads=[1, 1, 1, 1])
    """
    after = """
        conv(image=x, weights=w, y=a, outputs_last=1)
        separable_conv(image=a, depthwise_weights=d, weights=v, y=b, strides=[1, 1],
            dilations=[1, 1], pads=[1, 1, 1, 1], outputs_last=1)
    """
    changed(text, after, read_in_place, weights="float32")
    made = read_in_place(Text.of(text, Purpose(weights="float32")).lowered)
    before = Text.of(text).lowered
    for step, old in zip(made.steps, before.steps, strict=True):
        turned = made.value(step.input("weights"))
        assert (turned == before.value(old.input("weights")).transpose(1, 2, 3, 0)).all()


@pytest.mark.parametrize("weights", [None, "smallest"])
def test_weights_stay_for_no_file_and_for_a_coded_one(weights: str | None) -> None:
    text = """
        x = input(1, 4, 4, 64)
        w = random(64, 1, 1, 64)
        a = conv(1, 4, 4, 64, image=x, weights=w)
    """
    unchanged(text, read_in_place, weights=weights)


@pytest.mark.parametrize(
    "change",
    [
        ("random(64,", "random(12,"),  # no whole vectors of outputs
        ("random(64, 1, 1, 64)", "random(8, 1, 1, 64)"),  # small ones are copied
        ("64, image=x, weights=w", "64, image=x, weights=w, group=2"),
    ],
)
def test_weights_that_no_kernel_reads_so_stay(change: tuple[str, str]) -> None:
    text = """
        x = input(1, 4, 4, 64)
        w = random(64, 1, 1, 64)
        a = conv(1, 4, 4, 64, image=x, weights=w)
    """
    old, new = change
    outputs = new[len("random(") :].split(",")[0] if new.startswith("random") else "64"
    text = text.replace(old, new).replace("conv(1, 4, 4, 64", f"conv(1, 4, 4, {outputs}")
    if "group" in new:
        text = text.replace("random(64, 1, 1, 64)", "random(64, 1, 1, 32)")
    unchanged(text, read_in_place, weights="float32")


def test_every_pass_is_a_function_with_a_sentence_of_its_own() -> None:
    assert len({each.__name__ for each in STEP_PASSES}) == len(STEP_PASSES)
    assert all((each.__doc__ or "").strip() for each in STEP_PASSES)
