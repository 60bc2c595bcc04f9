import type { Model } from "../../engine/web/index.js";
import type { ImageSource } from "./images.js";
import { Finder, type KitOptions, given, networks, shared } from "./kit.js";
import { DEFAULTS, Native } from "./native.js";

export interface GestureOptions extends KitOptions {
  /** Keep so many, those of the best score. */
  readonly max_hands?: number;
  /** Least score of what the detector finds, 0 to 1. */
  readonly min_score?: number;
  /** How certain the landmarks must be that they are on a hand, 0 to 1. */
  readonly min_presence?: number;
  /**
   * Longest side of what the detector sees; if left out 224, and then 448 without a near hand, in
   * videos every `detect_every` frames, and 896 in pictures where that finds none.
   */
  readonly size?: number;
  /** Infer each hand of a picture twice, which is better and takes longer. */
  readonly second_pass?: boolean;
  /** Search for new hands every so many frames of a video. */
  readonly detect_every?: number;
  /** Of a video: a gesture counts once it was held so long. */
  readonly hold_ms?: number;
}

export const GESTURES = [
  ...(["fist", "open_palm", "one", "two", "three", "four", "ok", "thumb_up", "thumb_down"] as const),
  ...(["finger_heart", "other"] as const),
] as const;
export type Gesture = (typeof GESTURES)[number];

/** A hand, in pixels of the picture. */
export interface Hand {
  /** x, y, width, height round the landmarks, inside the picture. */
  readonly box: Float32Array;
  /** How certain it is that a hand is there, 0 to 1. */
  readonly score: number;
  /** x, y, z of 21 points: the wrist, then four joints of each finger from the thumb, outwards. */
  readonly landmarks: Float32Array;
  readonly handedness: "left" | "right";
  readonly gesture: Gesture;
  readonly gesture_score: number;
  /** The same number for the same hand while it is tracked; null in image mode. */
  readonly id: number | null;
}

const HAND_BYTES = 296;
const LANDMARKS = 21;

/** Finds hands, their side and what they show. */
export class GestureRecognizer extends Finder<Hand> {
  static readonly kit = "GestureRecognizer";
  static readonly method = "recognize";

  /** Opens the kit. Throws PalmError as `load` does. */
  static async create(options: GestureOptions = {}): Promise<GestureRecognizer> {
    const [native, models] = await Promise.all([
      Native.open(new URL("./palm_kits_hands.wasm", import.meta.url)),
      networks(["hand_detector", "hand_landmarks"], options),
    ]);
    const [detector, landmarks] = models as [Model, Model];
    const { second_pass } = options;
    const changed = native.options(DEFAULTS.hands, {
      ...shared(options),
      ...given("max_count", options.max_hands),
      ...given("min_score", options.min_score),
      ...given("min_presence", options.min_presence),
      ...given("detector_size", options.size),
      ...given("detect_every", options.detect_every),
      ...given("hold_ms", options.hold_ms),
      ...given("second_pass", second_pass === undefined ? undefined : Number(second_pass)),
    });
    const found = [native.network(detector), native.network(landmarks)] as const;
    const handle = native.made("palm_kits_hands_create", ...found, changed);
    return new GestureRecognizer(native, handle, "hands", options.mode === "video", HAND_BYTES);
  }

  /**
   * Finds hands in a picture, or in the next frame of a video at this time, best first.
   *
   * Throws PalmError "image" for a picture that cannot be read.
   */
  recognize(source: ImageSource, timestampMs?: number): Hand[] {
    return this.find(source, timestampMs);
  }

  protected override thing(at: number): Hand {
    const view = this.native.view(at, HAND_BYTES);
    const numbers = this.native.floats(at, 5 + 3 * LANDMARKS);
    const id = Number(view.getBigInt64(288, true));
    return {
      box: numbers.slice(0, 4),
      score: numbers[4] ?? 0,
      landmarks: numbers.slice(5),
      handedness: view.getFloat32(272, true) >= 0.5 ? "right" : "left",
      gesture: GESTURES[view.getInt32(280, true)] ?? "other",
      gesture_score: view.getFloat32(276, true),
      id: id < 0 ? null : id,
    };
  }
}
