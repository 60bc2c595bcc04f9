"""The table of kits, which everything that lists kits derives from.

Names of what is public, the command line, batches, compression, benchmarks and the plans in shipped
models: a kit is an entry here, its names among those that type checkers read, and its own module.
Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from palmkit.kits.face.kit import FaceDetector as FaceDetector
    from palmkit.kits.face.kit import detect_faces as detect_faces
    from palmkit.kits.face.mesh_kit import FaceMesh as FaceMesh
    from palmkit.kits.face.mesh_kit import face_mesh as face_mesh
    from palmkit.kits.hands.kit import GestureRecognizer as GestureRecognizer
    from palmkit.kits.hands.kit import recognize_gestures as recognize_gestures
    from palmkit.kits.options import Options
    from palmkit.kits.portrait.hair import HairSegmenter as HairSegmenter
    from palmkit.kits.portrait.hair import segment_hair as segment_hair
    from palmkit.kits.portrait.kit import PortraitSegmenter as PortraitSegmenter
    from palmkit.kits.portrait.kit import segment_portrait as segment_portrait
    from palmkit.kits.ranking.kit import Reranker as Reranker
    from palmkit.kits.ranking.kit import rerank as rerank
    from palmkit.kits.results.faces import Face as Face
    from palmkit.kits.results.faces import Faces as Faces
    from palmkit.kits.results.hands import Gesture as Gesture
    from palmkit.kits.results.hands import Hand as Hand
    from palmkit.kits.results.hands import Handedness as Handedness
    from palmkit.kits.results.hands import Hands as Hands
    from palmkit.kits.results.mask import Mask as Mask
    from palmkit.kits.results.ranking import Ranking as Ranking
    from palmkit.kits.results.result import PictureResult
    from palmkit.kits.results.tried_on import TriedOn as TriedOn
    from palmkit.kits.tryon.kit import TryOn as TryOn
    from palmkit.kits.tryon.kit import try_on as try_on


class Judged(NamedTuple):
    """A model of a kit whose compression the kit can judge by its results.

    job: its name. option: the kit's option that takes the model. title: what it is, and what is
    compared. alike: parts of the results, "measure:field" of palmkit.kits.compression. options:
    further options of the kit.
    """

    job: str
    option: str
    title: str
    alike: tuple[str, ...]
    options: Mapping[str, Any] = {}


class Entry(NamedTuple):
    """A kit.

    title: what it does, in a few words. module: of its class and its function. kit, function: their
    names. method: of the kit, that takes what it works on. options: the dataclass, "module:Class";
    "": beside the kit, with the name of the class and "Options". results: what it returns first,
    then its parts. results_module: where these are. command: the module of kits/cli that has its
    command; "": one that follows from its options. judged: its models, for compression. timed:
    options that benchmarks need. takes: "picture" or "page".
    """

    title: str
    module: str
    kit: str
    function: str
    method: str
    options: str = ""
    results: tuple[str, ...] = ()
    results_module: str = "palmkit.kits.results"
    command: str = ""
    judged: tuple[Judged, ...] = ()
    timed: Mapping[str, Any] = {}
    takes: str = "picture"

    def homes(self) -> dict[str, str]:
        """Return its public names and their modules."""
        own = {self.kit: self.module, self.function: self.module}
        return own | dict.fromkeys(self.results, self.results_module)

    def load_kit(self) -> Any:
        """Return the kit's class."""
        return getattr(import_module(self.module), self.kit)

    def load_options(self) -> type[Options]:
        """Return the dataclass of its options."""
        module, _, name = (self.options or f"{self.module}:{self.kit}Options").partition(":")
        found: type[Options] = getattr(import_module(module), name)
        return found

    def load_result(self) -> type[PictureResult]:
        """Return the class of its result, for a kit that takes pictures."""
        found: type[PictureResult] = getattr(import_module(self.results_module), self.results[0])
        return found


KITS: Mapping[str, Entry] = {
    "face": Entry(
        "face detection",
        "palmkit.kits.face.kit",
        "FaceDetector",
        "detect_faces",
        "detect",
        "palmkit.kits.face.options:FaceOptions",
        ("Faces", "Face"),
        command="face",
        judged=(
            Judged(
                "face",
                "model",
                "the face detector; boxes, points and scores",
                ("overlap:boxes", "points:keypoints", "shares:scores"),
                # As closely as it sees by itself at most, so that all pictures count alike.
                {"size": 640},
            ),
        ),
        timed={"quality": "fast"},
    ),
    "mesh": Entry(
        "face mesh",
        "palmkit.kits.face.mesh_kit",
        "FaceMesh",
        "face_mesh",
        "detect",
        "palmkit.kits.face.options:FaceMeshOptions",
        ("Faces", "Face"),
        command="face",
        judged=(
            Judged(
                "mesh",
                "model",
                "the face mesh; points and what of them is seen",
                ("points:mesh", "shares:visibility"),
                {"quality": "fast"},
            ),
        ),
        timed={"max_faces": 1, "quality": "fast"},
    ),
    "portrait": Entry(
        "portrait mask",
        "palmkit.kits.portrait.kit",
        "PortraitSegmenter",
        "segment_portrait",
        "segment",
        "palmkit.kits.portrait.options:PortraitOptions",
        ("Mask",),
        command="portrait",
        judged=(Judged("portrait", "model", "the portrait mask; overlap", ("areas:mask",)),),
        timed={"quality": "fast"},
    ),
    "hair": Entry(
        "hair mask",
        "palmkit.kits.portrait.hair",
        "HairSegmenter",
        "segment_hair",
        "segment",
        "palmkit.kits.portrait.options:HairOptions",
        ("Mask",),
        command="hair",
        judged=(
            Judged("hair", "model", "the hair mask; overlap", ("areas:mask",), {"quality": "fast"}),
        ),
        timed={"quality": "fast"},
    ),
    "gesture": Entry(
        "hands",
        "palmkit.kits.hands.kit",
        "GestureRecognizer",
        "recognize_gestures",
        "recognize",
        "palmkit.kits.hands.options:GestureOptions",
        ("Hands", "Hand", "Gesture", "Handedness"),
        command="gesture",
        judged=(
            Judged(
                "hand",
                "detector_model",
                "the hand detector; overlap of the hands",
                ("overlap:boxes",),
            ),
            Judged(
                "gesture",
                "model",
                "the hand landmarks; points, hands, gestures and scores",
                (
                    "points:landmarks",
                    "label:handedness",
                    "label:gestures",
                    "shares:gesture_scores",
                    "shares:scores",
                ),
            ),
        ),
        timed={"max_hands": 2},
    ),
    "tryon": Entry(
        "try-on",
        "palmkit.kits.tryon.kit",
        "TryOn",
        "try_on",
        "wear",
        "palmkit.kits.tryon.options:TryOnOptions",
        ("TriedOn",),
        command="tryon",
        timed={"look": "party", "quality": "fast"},
    ),
    "rerank": Entry(
        "re-ranking",
        "palmkit.kits.ranking.kit",
        "Reranker",
        "rerank",
        "rerank",
        "palmkit.kits.ranking.options:RerankerOptions",
        ("Ranking",),
        command="rerank",
        takes="page",
    ),
}


def homes() -> dict[str, str]:
    """Return the public names of all kits and their modules."""
    return {name: home for entry in KITS.values() for name, home in entry.homes().items()}


def of_pictures() -> tuple[str, ...]:
    """Return the names of the kits that take pictures."""
    return tuple(name for name, entry in KITS.items() if entry.takes == "picture")


def judged() -> dict[str, tuple[Entry, Judged]]:
    """Return the models whose compression can be judged, by their jobs."""
    return {each.job: (entry, each) for entry in KITS.values() for each in entry.judged}
