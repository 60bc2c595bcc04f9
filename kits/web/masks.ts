import type { Model } from "../../engine/web/index.js";
import type { Face } from "./faces.js";
import type { ImageSource, Pixels } from "./images.js";
import { Kit, type KitOptions, networks, shared } from "./kit.js";
import { DEFAULTS, Native } from "./native.js";

export interface MaskOptions extends KitOptions {
  /** Fit the mask to the picture's own edges. */
  readonly refine?: boolean;
}

export interface PortraitOptions extends MaskOptions {
  /**
   * After a glance at a picture infer the part where people are, and follow small people in videos.
   */
  readonly second_pass?: boolean;
}

export interface HairOptions extends MaskOptions {
  /**
   * Look also for the hair of people whose faces are not given, such as those seen from behind; a
   * glance at the picture says where they are.
   */
  readonly heads?: boolean;
}

/** The mask of people, or of hair, in a picture. */
export interface Mask {
  readonly width: number;
  readonly height: number;
  /** Row by row, 0 to 1: how likely each pixel belongs to it. */
  readonly mask: Float32Array;
  readonly subject: "person" | "hair";
}

const flag = (name: "is_refined" | "second_pass", value: boolean | undefined) =>
  value === undefined ? {} : { [name]: Number(value) };

abstract class Segmenter extends Kit {
  #mask = { at: 0, bytes: 0 };
  readonly #struct = this.native.take(16);

  protected masked(
    source: ImageSource,
    subject: Mask["subject"],
    timestampMs: number | undefined,
    before: () => number[],
  ): Mask {
    const { width, height } = this.lookAt(source, timestampMs, (pixels) => [
      ...before(),
      this.#room(pixels),
    ]);
    return { width, height, mask: this.native.floats(this.#mask.at, width * height), subject };
  }

  /** palm_kits_mask for a picture of this size. */
  #room({ width, height }: Pixels): number {
    const bytes = 4 * width * height;
    if (this.#mask.bytes < bytes) {
      if (this.#mask.at) this.native.call("palm_give_back", this.#mask.at);
      this.#mask = { at: 0, bytes: 0 };
      this.#mask = { at: this.native.take(bytes), bytes };
    }
    this.native.put(this.#struct, [this.#mask.at, 0, width, height]);
    return this.#struct;
  }
}

/** Finds the people of a picture, pixel by pixel. */
export class PortraitSegmenter extends Segmenter {
  static readonly kit = "PortraitSegmenter";
  static readonly method = "segment";

  /** Opens the kit. Throws PalmError as `load` does. */
  static async create(options: PortraitOptions = {}): Promise<PortraitSegmenter> {
    const [native, models] = await Promise.all([
      Native.open(new URL("./palm_kits_portrait.wasm", import.meta.url)),
      networks(["portrait", "person_finder"], options),
    ]);
    const [portrait, finder] = models as [Model, Model];
    const changed = native.options(DEFAULTS.masks, {
      ...shared(options),
      ...flag("is_refined", options.refine),
      ...flag("second_pass", options.second_pass),
    });
    const found = [native.network(portrait), native.network(finder)] as const;
    const handle = native.made("palm_kits_portrait_create", ...found, changed);
    return new PortraitSegmenter(native, handle, "portrait", options.mode === "video");
  }

  /** Returns the mask of a picture, or of the next frame of a video at this time. */
  segment(source: ImageSource, timestampMs?: number): Mask {
    return this.masked(source, "person", timestampMs, () => []);
  }
}

/** Finds the hair round faces, and round heads whose faces are not seen. */
export class HairSegmenter extends Segmenter {
  #faces = 0;

  static readonly kit = "HairSegmenter";
  static readonly method = "segment";

  /** Opens the kit. Throws PalmError as `load` does. */
  static async create(options: HairOptions = {}): Promise<HairSegmenter> {
    const { heads = true } = options;
    const [native, models] = await Promise.all([
      Native.open(new URL("./palm_kits_hair.wasm", import.meta.url)),
      networks(heads ? ["hair", "person_finder"] : ["hair"], options),
    ]);
    const [hair, finder] = models as [Model, Model?];
    const changed = native.options(DEFAULTS.masks, {
      ...shared(options),
      ...flag("is_refined", options.refine),
    });
    const handle = native.made("palm_kits_hair_create", native.network(hair), changed);
    if (finder) native.call("palm_kits_hair_find_heads", handle, native.network(finder));
    return new HairSegmenter(native, handle, "hair", options.mode === "video");
  }

  /**
   * Returns the mask of a picture, or of the next frame of a video at this time.
   *
   * faces: those that FaceDetector found in it; without any, and without heads, all of the picture
   * is looked at.
   */
  segment(source: ImageSource, faces: readonly Face[] = [], timestampMs?: number): Mask {
    return this.masked(source, "hair", timestampMs, () => {
      if (this.#faces) this.native.call("palm_give_back", this.#faces);
      this.#faces = this.native.take(72 * faces.length + 1);
      faces.forEach(({ box, score, keypoints, id }, i) => {
        const at = this.#faces + 72 * i;
        this.native.putFloats(at, [...box, score, ...keypoints]);
        this.native.view(at + 64, 8).setBigInt64(0, BigInt(id ?? -1), true);
      });
      return [this.#faces, faces.length];
    });
  }
}
