/** PalmKit's kits for browsers. */
export { type ErrorKind, PalmError } from "../../engine/web/index.js";
export { drawFaces, drawHands, drawMask, drawTriedOn } from "./draw.js";
export {
  type Face,
  FaceDetector,
  FaceMesh,
  type FaceOptions,
  type MeshFace,
} from "./faces.js";
export {
  GESTURES,
  type Gesture,
  type GestureOptions,
  GestureRecognizer,
  type Hand,
} from "./hands.js";
export { type InWorker, type KitClass, inWorker } from "./in_worker.js";
export { type ImageSource, type Pixels } from "./images.js";
export type { KitOptions } from "./kit.js";
export { type Effect, type Finish, type Look, type WholeLook, readLook } from "./look.js";
export {
  type HairOptions,
  HairSegmenter,
  type Mask,
  type MaskOptions,
  type PortraitOptions,
  PortraitSegmenter,
} from "./masks.js";
export { type TriedOn, TryOn, type TryOnOptions } from "./try_on.js";
