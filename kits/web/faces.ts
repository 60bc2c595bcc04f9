import type { Model } from "../../engine/web/index.js";
import type { ImageSource } from "./images.js";
import { DEFAULTS, Native, type NativeOptions } from "./native.js";
import { Finder, type KitOptions, given, networks, shared } from "./kit.js";

export interface FaceOptions extends KitOptions {
  /** Keep so many, those of the best score. */
  readonly max_faces?: number;
  /** Least score of a face, 0 to 1. */
  readonly min_score?: number;
  /** Leave out faces whose shorter side is less, in pixels; below 1: of the picture's. */
  readonly min_face?: number;
  readonly quality?: "fast" | "best";
  /** Longest side of what the detector sees, in pixels. */
  readonly size?: number;
  /** See large pictures also in squares of this side. */
  readonly tile?: number;
}

/** A face, in pixels of the picture. */
export interface Face {
  /** x, y, width, height, inside the picture. */
  readonly box: Float32Array;
  /** 0 to 1. */
  readonly score: number;
  /** x, y of the left eye, right eye, nose, and the left and right corner of the mouth. */
  readonly keypoints: Float32Array;
  /** The same number for the same face while it is tracked; null in image mode. */
  readonly id: number | null;
}

/** A face with its mesh. */
export interface MeshFace extends Face {
  /** x, y, z of 478 points, z smaller nearer to the camera. */
  readonly mesh: Float32Array;
  /** Of each point, 0 hidden to 1 seen. */
  readonly visibility: Float32Array;
}

export const DETECTORS = { fast: "face_detector", best: "face_detector_best" } as const;
const FACE_BYTES = 72;
export const MESH_BYTES = 7720;

export function nativeOf(options: FaceOptions): Partial<NativeOptions> {
  return {
    ...shared(options),
    ...given("max_count", options.max_faces),
    ...given("min_score", options.min_score),
    ...given("min_face", options.min_face),
    ...given("detector_size", options.size),
    ...given("tile", options.tile),
  };
}

/** The threshold of a detector, which its file says. */
export function withThreshold<Options extends FaceOptions>(
  options: Options,
  detector: Model | undefined,
): Options {
  const threshold = Number(detector?.metadata["threshold"]);
  return Number.isFinite(threshold) ? { min_score: threshold, ...options } : options;
}

function faceAt(native: Native, at: number): Face {
  const numbers = native.floats(at, 15);
  const id = Number(native.view(at + 64, 8).getBigInt64(0, true));
  return {
    box: numbers.slice(0, 4),
    score: numbers[4] ?? 0,
    keypoints: numbers.slice(5),
    id: id < 0 ? null : id,
  };
}

/** palm_kits_mesh. */
export function meshAt(native: Native, at: number): MeshFace {
  return {
    ...faceAt(native, at),
    mesh: native.floats(at + FACE_BYTES, 478 * 3),
    visibility: native.floats(at + 5808, 478),
  };
}

/** Finds faces in pictures and videos, best first. */
export class FaceDetector extends Finder<Face> {
  static readonly kit = "FaceDetector";
  static readonly method = "detect";

  /** Opens the kit. Throws PalmError as `load` does. */
  static async create(options: FaceOptions = {}): Promise<FaceDetector> {
    const [native, [detector]] = await Promise.all([
      Native.open(new URL("./palm_kits_faces.wasm", import.meta.url)),
      networks([DETECTORS[options.quality ?? "fast"]], options),
    ]);
    const changed = native.options(DEFAULTS.faces, nativeOf(withThreshold(options, detector)));
    const handle = native.made("palm_kits_faces_create", native.network(detector as Model), changed);
    return new FaceDetector(native, handle, "faces", options.mode === "video", FACE_BYTES);
  }

  /**
   * Finds faces in a picture, or in the next frame of a video at this time, best first.
   *
   * Throws PalmError "image" for a picture that cannot be read.
   */
  detect(source: ImageSource, timestampMs?: number): Face[] {
    return this.find(source, timestampMs);
  }

  protected override thing(at: number): Face {
    return faceAt(this.native, at);
  }
}

/** Finds faces with meshes of 478 points. */
export class FaceMesh extends Finder<MeshFace> {
  static readonly kit = "FaceMesh";
  static readonly method = "detect";

  /** Opens the kit. Throws PalmError as `load` does. */
  static async create(options: FaceOptions = {}): Promise<FaceMesh> {
    const [native, [detector, mesh]] = await Promise.all([
      Native.open(new URL("./palm_kits_meshes.wasm", import.meta.url)),
      networks([DETECTORS[options.quality ?? "fast"], "face_mesh"], options),
    ]);
    const changed = native.options(DEFAULTS.meshes, nativeOf(withThreshold(options, detector)));
    const handle = native.made(
      "palm_kits_meshes_create",
      native.network(detector as Model),
      native.network(mesh as Model),
      changed,
    );
    return new FaceMesh(native, handle, "meshes", options.mode === "video", MESH_BYTES);
  }

  /**
   * Finds faces in a picture, or in the next frame of a video at this time, best first.
   *
   * Throws PalmError "image" for a picture that cannot be read.
   */
  detect(source: ImageSource, timestampMs?: number): MeshFace[] {
    return this.find(source, timestampMs);
  }

  protected override thing(at: number): MeshFace {
    return meshAt(this.native, at);
  }
}
