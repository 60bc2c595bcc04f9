"""Options: one dataclass a kit, from which constructors, functions and flags derive."""

import inspect
from dataclasses import FrozenInstanceError, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import skimage.data

from palmkit import assets, engine, kits
from palmkit.engine.errors import BackendError
from palmkit.kits import doctor
from palmkit.kits.face.kit import FaceDetectorArguments
from palmkit.kits.face.options import FaceMeshOptions, FaceOptions
from palmkit.kits.options import Options, kept, options_of
from palmkit.kits.ranking.options import RerankerOptions
from palmkit.kits.table import KITS
from tests.demos.driving import NEEDS_MODELS
from tests.kits.conftest import picture

EMPTY = np.zeros((64, 64, 3), np.uint8)


@pytest.mark.parametrize("name", KITS)
def test_class_and_function_show_every_option_with_its_default(name: str) -> None:
    entry = KITS[name]
    options = options_of(entry.load_options())
    for made in (entry.load_kit(), getattr(kits, entry.function)):
        shown = inspect.signature(made).parameters
        for each in options:
            assert shown[each.name].default == each.default
            assert shown[each.name].annotation
    text = inspect.getdoc(entry.load_kit().__init__)
    assert text is not None
    for each in options:
        assert f"{each.name}: {each.about.text}." in text
    own = {each.name for each in fields(entry.load_options())}
    assert own == {each.name for each in options}, "a field that option() did not make"


@NEEDS_MODELS
@pytest.mark.parametrize("name", KITS)
def test_a_kit_reads_every_option_it_has(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kit with the default options looks at pictures in which there is something to find.

    That the options check their own values does not count as reading them.
    """
    entry, read = KITS[name], set[str]()
    kind = entry.load_options()

    def noting(self: Options, attribute: str) -> Any:
        here = inspect.currentframe()
        assert here is not None and here.f_back is not None
        asks = here.f_back.f_globals.get("__name__")
        found = object.__getattribute__(self, attribute)
        if issubclass(type(self), kind) and asks != Options.__module__:
            read.update(found() if attribute == "running" else [attribute])
        return found

    monkeypatch.setattr(Options, "__getattribute__", noting, raising=False)
    if entry.takes == "page":
        with entry.load_kit()(**entry.timed) as kit:
            getattr(kit, entry.method)(doctor.PAGE, doctor.CLICKED)
    else:
        photos: Any = skimage.data
        hands = kits.read_image(assets.path("samples/hands.jpg"))
        seen: list[Any] = [np.ascontiguousarray(photos.astronaut()[:256, 128:384]), hands]
        for mode in ("image", "video"):
            for image in seen:
                with entry.load_kit()(mode, **entry.timed) as kit:
                    for number in range(3):
                        getattr(kit, entry.method)(
                            image, number * 33.0 if mode == "video" else None
                        )
    assert {each.name for each in options_of(kind)} - read == set()


def test_signatures_say_types_and_what_is_returned() -> None:
    shown = str(inspect.signature(kits.FaceDetector))
    assert shown.startswith("(mode: 'Mode' = 'image', *, threads: 'int' = 1")
    assert "max_faces: 'int | None' = None" in shown
    for call, first in (
        (kits.FaceDetector, ["mode"]),
        (kits.Reranker, ["model", "schema"]),
        (kits.segment_portrait, ["image", "background"]),
        (kits.segment_hair, ["image", "background"]),
        (kits.try_on, ["image", "look"]),
        (kits.rerank, ["items", "history", "context"]),
    ):
        by_place = inspect.Parameter.POSITIONAL_OR_KEYWORD
        parameters = inspect.signature(call).parameters.values()
        assert [each.name for each in parameters if each.kind is by_place] == first
    found = inspect.signature(kits.detect_faces)
    assert next(iter(found.parameters.values())).annotation == "Source | list[Source]"
    assert found.return_annotation == "Faces | list[Faces]"
    for name in ("detect", "detect_async"):
        method = inspect.signature(getattr(kits.FaceDetector, name))
        assert list(method.parameters) == [
            "self", "image", "timestamp_ms", "roi", "format", "rotation", "flip"
        ]  # fmt: skip
        assert method.return_annotation == "Faces | list[Faces]"


if TYPE_CHECKING:
    # Checkers see the options: an unused comment, of a call that they take, is an error.
    kits.FaceDetector(max_face=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    kits.FaceDetector(max_faces="1")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    kits.detect_faces()  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    kits.detect_faces(EMPTY, max_face=1)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    kits.Reranker(cold=1)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"threads": 0}, "threads: expected a whole number, at least 1, got 0"),
        ({"threads": True}, "threads: expected a whole number, at least 1, got True"),
        ({"precision": "middling"}, "precision: expected one of 'high', 'normal', 'low'"),
        ({"backend": 3}, "backend: expected a name or a tuple of names, got 3"),
        ({"backend": ()}, "backend: expected a name or a tuple of names"),
        ({"backend": ("cpu", 1)}, "backend: expected a name or a tuple of names"),
        ({"max_faces": 0}, "max_faces: expected a whole number, at least 1, got 0"),
        ({"min_score": 1.5}, "min_score: expected a number from 0 to 1, got 1.5"),
        ({"min_face": -1}, "min_face: expected a number from 0 to inf, got -1"),
        ({"size": 20}, "size: expected a number from 32 to 4096, got 20"),
        ({"detect_every": None}, "detect_every: expected a whole number, at least 1, got None"),
    ],
)
def test_options_check_themselves(options: dict[str, Any], message: str) -> None:
    for made in (FaceOptions, kits.FaceDetector):
        with pytest.raises(ValueError, match=message.replace("(", r"\(")):
            made(**options)


def test_options_are_frozen_and_compare() -> None:
    options = FaceMeshOptions(max_faces=2)
    with pytest.raises(FrozenInstanceError):
        options.max_faces = 3  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    assert options == FaceMeshOptions(max_faces=2) != FaceMeshOptions()
    assert options != FaceOptions(max_faces=2) and FaceOptions(max_faces=2) != FaceOptions()
    assert hash(options) == hash(FaceMeshOptions(max_faces=2)) != hash(FaceMeshOptions())
    assert FaceDetectorArguments(max_faces=2) != FaceDetectorArguments()
    assert repr(options).startswith("FaceMeshOptions(threads=1, precision='high', backend='cpu'")
    assert "max_faces=2, min_score=None" in repr(options)
    assert FaceOptions().detect_every == 10 and FaceMeshOptions().detect_every == 20


@pytest.mark.parametrize("made", [kits.FaceDetector, kits.detect_faces])
def test_what_is_no_option_is_refused_by_the_name_of_what_was_called(made: Any) -> None:
    arguments: tuple[Any, ...] = () if made.__name__ == "FaceDetector" else (EMPTY,)
    with pytest.raises(TypeError, match=rf"{made.__name__}\S*\(\) got an unexpected .* 'max_face'"):
        made(*arguments, max_face=1)


@pytest.mark.parametrize(
    ("call", "old", "new", "value"),
    [
        (kits.FaceMesh, "second_look", "second_pass", False),
        (kits.FaceMesh, "detector", "detector_model", "none.palm"),
        (kits.GestureRecognizer, "second_look", "second_pass", False),
        (kits.GestureRecognizer, "detector", "detector_model", "none.palm"),
        (kits.PortraitSegmenter, "second_look", "second_pass", False),
        (kits.PortraitSegmenter, "finder", "finder_model", "none.palm"),
        (kits.TryOn, "detector", "detector_model", "none.palm"),
    ],
)
def test_former_names_of_options_work_and_warn(call: Any, old: str, new: str, value: Any) -> None:
    """What they do is told from what comes of them: a model that is not there, or a kit."""

    def outcome(name: str) -> str:
        try:
            kit = call(**{name: value})
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return str(getattr(kit._options, new))

    with pytest.warns(DeprecationWarning, match=f"{call.__name__}: {old} is deprecated"):
        before = outcome(old)
    assert before == outcome(new) != outcome("mode" if value is False else "threads")
    with pytest.raises(TypeError, match=f"expected {new}, got {new} and {old}"):
        call(**{old: value, new: value})


def test_the_warning_is_of_the_line_that_uses_the_old_name() -> None:
    with pytest.warns(DeprecationWarning) as told:
        kits.segment_portrait(EMPTY, second_look=False)  # type: ignore[call-overload]  # pyright: ignore[reportCallIssue]
    assert told[0].filename == __file__


def test_backends_are_handed_on(red_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    image = picture(320, 640, (0, 64, 96, 32))
    plain = kits.detect_faces(image, model=red_model, size=640)
    by_numpy = kits.detect_faces(image, model=red_model, size=640, backend="reference")
    np.testing.assert_allclose(by_numpy.boxes, plain.boxes, atol=1e-3)
    chain = ("reference", "cpu")
    by_chain = kits.detect_faces(image, model=red_model, size=640, backend=chain)
    assert np.array_equal(by_chain.boxes, by_numpy.boxes)
    with pytest.raises(BackendError, match="no backend 'abacus'"):
        kits.FaceDetector(model=red_model, backend="abacus")
    seen: list[Any] = []

    def noting(path: Any, backend: Any, **options: Any) -> Any:
        seen.append(backend)
        return engine.load(path, "cpu", **options)

    monkeypatch.setattr("palmkit.kits.kit.load", noting)
    chain = ("first", "cpu")
    # Kits with as many threads share the models that are open.
    for threads, (name, entry) in enumerate(KITS.items(), 2):
        seen.clear()
        entry.load_kit()(backend=chain, threads=threads)
        assert set(seen) == {chain}, name


def test_functions_keep_their_kits_by_options() -> None:
    options = FaceOptions(max_faces=7)
    made = kept(kits.FaceDetector, FaceOptions, options)
    assert made is kept(
        kits.FaceDetector, FaceOptions, FaceMeshOptions(max_faces=7, detect_every=10)
    )
    assert made is not kept(kits.FaceDetector, FaceOptions, options, 1)
    assert made is not kept(kits.FaceDetector, FaceOptions, options, max_faces=8)
    schema = kits.Schema(embeddings={"title": 3})
    with pytest.raises(TypeError, match="unhashable"):
        hash(RerankerOptions(schema=schema))
    items = [{"id": 1, "title": [0.0, 1.0, 0.0]}, {"id": 2, "title": [1.0, 0.0, 0.0]}]
    assert kits.rerank(items, schema=schema).ids == [1, 2]


def test_a_re_ranker_closes_and_takes_precision() -> None:
    items = [{"id": 1, "price": 3.0}, {"id": 2, "price": 4.0}]
    with kits.Reranker(precision="low") as kit:
        session = kit.session()
        assert kit.rerank(items).ids == session.rerank(items).ids
    for closed in (lambda: kit.rerank(items), kit.session, lambda: session.rerank(items)):
        with pytest.raises(RuntimeError, match="re-ranker is closed"):
            closed()
