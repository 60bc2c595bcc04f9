import type { Face, MeshFace } from "./faces.js";
import type { Hand } from "./hands.js";
import type { Mask } from "./masks.js";
import type { TriedOn } from "./try_on.js";

type Context = CanvasRenderingContext2D | OffscreenCanvasRenderingContext2D;

const ACCENT = "rgb(38 198 218)";
const SIDES = { left: "rgb(255 179 71)", right: ACCENT } as const;
// From the wrist to each finger's first joint and along it; and across the palm.
const BONES = [
  ...[0, 4, 8, 12, 16].flatMap((first) => [
    [0, first + 1] as const,
    ...[1, 2, 3].map((joint) => [first + joint, first + joint + 1] as const),
  ]),
  ...[5, 9, 13].map((first) => [first, first + 4] as const),
];

const lineOf = ({ canvas }: Context) => Math.max(1, Math.min(canvas.width, canvas.height) / 320);

function dots(context: Context, points: Float32Array, dims: number, radius: number): void {
  for (let i = 0; i + 1 < points.length; i += dims) {
    context.beginPath();
    context.arc(points[i] ?? 0, points[i + 1] ?? 0, radius, 0, 2 * Math.PI);
    context.fill();
  }
}

/** Draws the boxes, key points and, if there are any, meshes of faces on a canvas of their picture. */
export function drawFaces(context: Context, faces: readonly (Face | MeshFace)[]): void {
  const line = lineOf(context);
  context.save();
  context.strokeStyle = context.fillStyle = ACCENT;
  context.lineWidth = line;
  for (const face of faces) {
    const [x = 0, y = 0, width = 0, height = 0] = face.box;
    context.strokeRect(x, y, width, height);
    if ("mesh" in face) dots(context, face.mesh, 3, line / 2);
    else dots(context, face.keypoints, 2, Math.min(Math.min(width, height) / 36, 3 * line));
  }
  context.restore();
}

/** Draws the bones and joints of hands on a canvas of their picture; sides differ in colour. */
export function drawHands(context: Context, hands: readonly Hand[]): void {
  const line = lineOf(context);
  context.save();
  context.lineWidth = 2 * line;
  for (const { landmarks, handedness } of hands) {
    context.strokeStyle = context.fillStyle = SIDES[handedness];
    for (const [from, to] of BONES) {
      context.beginPath();
      context.moveTo(landmarks[3 * from] ?? 0, landmarks[3 * from + 1] ?? 0);
      context.lineTo(landmarks[3 * to] ?? 0, landmarks[3 * to + 1] ?? 0);
      context.stroke();
    }
    dots(context, landmarks, 3, 2 * line);
  }
  context.restore();
}

/** Tints what a mask covers, half-transparent, on a canvas of its picture. */
export function drawMask(context: Context, { width, height, mask }: Mask): void {
  const tint = [38, 198, 218] as const;
  const picture = context.getImageData(0, 0, width, height);
  for (let i = 0; i < mask.length; ++i) {
    const share = (mask[i] ?? 0) / 2;
    for (let c = 0; c < 3; ++c) {
      const at = 4 * i + c;
      picture.data[at] = (picture.data[at] ?? 0) * (1 - share) + (tint[c] ?? 0) * share;
    }
  }
  context.putImageData(picture, 0, 0);
}

/** Shows the picture with a look on, on a canvas of its size. */
export function drawTriedOn(context: Context, { after: { width, height, data } }: TriedOn): void {
  context.putImageData(new ImageData(data, width, height), 0, 0);
}
