// The kits as these pages show them: what they are opened with, how they look, and what is said.
import {
  FaceDetector,
  FaceMesh,
  GestureRecognizer,
  HairSegmenter,
  PortraitSegmenter,
  TryOn,
  drawFaces,
  drawHands,
  drawMask,
  drawTriedOn,
  inWorker,
} from "/palmkit/kits/web/index.js";

const counted = (count, one, many) => `${count || "No"} ${count === 1 ? one : many}`;
const share = ({ mask }) =>
  `${Math.round((100 * mask.reduce((sum, value) => sum + value, 0)) / mask.length)} %`;

/** A kit alone, whose call has this name. */
const single = (Kit, method) => async (options) => {
  const kit = await inWorker(Kit, options);
  return { look: (picture, time) => kit[method](picture, time) };
};

/** Hair is sought round the faces, and round heads whose faces are not seen. */
async function hair(options) {
  const [faces, hairs] = await Promise.all([
    inWorker(FaceDetector, options),
    inWorker(HairSegmenter, options),
  ]);
  return {
    look: async (picture, time) =>
      hairs.segment(picture, await faces.detect(picture, time), time),
  };
}

/** Wears the colours that the page has at the time. */
async function tryOn(options, colours) {
  const kit = await inWorker(TryOn, options);
  return { look: (picture, time) => kit.wear(picture, time, { ...colours }) };
}

/** By the name in the address: `?kit=faces`. */
export const KITS = {
  faces: {
    title: "Faces",
    text: "Boxes, scores and five points of every face.",
    sample: "face.jpg",
    open: single(FaceDetector, "detect"),
    draw: drawFaces,
    tell: (faces) => `${counted(faces.length, "face", "faces")}.`,
  },
  mesh: {
    title: "Face mesh",
    text: "478 points of every face, in three dimensions.",
    sample: "face.jpg",
    open: single(FaceMesh, "detect"),
    draw: drawFaces,
    tell: (faces) => `${counted(faces.length, "mesh", "meshes")}.`,
  },
  hands: {
    title: "Hands",
    text: "21 points of every hand, left or right, and ten gestures.",
    sample: "hands.jpg",
    open: single(GestureRecognizer, "recognize"),
    draw: drawHands,
    tell(hands) {
      const each = hands.map((hand) => `${hand.handedness} ${hand.gesture.replaceAll("_", " ")}`);
      return `${counted(hands.length, "hand", "hands")}${each.length ? `: ${each.sort().join(", ")}` : ""}.`;
    },
  },
  portrait: {
    title: "Portrait",
    text: "People, pixel by pixel.",
    sample: "face.jpg",
    open: single(PortraitSegmenter, "segment"),
    draw: drawMask,
    tell: (mask) => `People cover ${share(mask)} of the picture.`,
  },
  hair: {
    title: "Hair",
    text: "Hair, pixel by pixel.",
    sample: "face.jpg",
    open: hair,
    draw: drawMask,
    tell: (mask) => `Hair covers ${share(mask)} of the picture.`,
  },
  tryon: {
    title: "Try-on",
    text: "Lipstick and hair dye, in colours of yours.",
    sample: "face.jpg",
    colours: { lipstick: "#a9142a", hair: "#5b2e8c" },
    open: tryOn,
    draw: drawTriedOn,
    tell: ({ faces }) => `${counted(faces.length, "face wears", "faces wear")} it.`,
  },
};
