import { type Model, PalmError } from "../../engine/web/index.js";
import {
  DETECTORS,
  type FaceOptions,
  MESH_BYTES,
  type MeshFace,
  meshAt,
  nativeOf,
  withThreshold,
} from "./faces.js";
import type { ImageSource, Pixels } from "./images.js";
import { Kit, type KitOptions, MOST_THINGS, networks } from "./kit.js";
import { type Effect, type Look, type WholeLook, loadLook, readLook } from "./look.js";
import { DEFAULTS, Native } from "./native.js";

export interface TryOnOptions extends KitOptions, Pick<FaceOptions, "max_faces" | "min_score"> {
  /** What is worn; or the name of a release that is a look, of `updates`. */
  readonly look?: Look | string;
  /** Whose face and hair wear it; a number is one from the left, 0 the first. */
  readonly face?: "all" | "largest" | "middle" | number;
  /** Strands in front of the face stay over the lipstick. */
  readonly behind_hair?: boolean;
  /** So do hands. */
  readonly behind_hands?: boolean;
  /** So does what has another colour than the face's skin. */
  readonly behind_things?: boolean;
}

/** A picture with a look on. */
export interface TriedOn {
  readonly width: number;
  readonly height: number;
  /** The picture; pixels that no effect covers are as they were. */
  readonly after: Pixels & { readonly data: Uint8ClampedArray<ArrayBuffer> };
  /** The faces that wear it. */
  readonly faces: readonly MeshFace[];
  readonly look: WholeLook;
}

/** Numbers of palm_kits.h. */
const WHOSE = { all: -1, largest: -2, middle: -3 } as const;
const FINISHES = { matte: 0, satin: 1, gloss: 2, shimmer: 3 } as const;
const RGBA = 2;
const NOTHING: Required<Effect> = { colour: "#000000", opacity: 0, finish: "satin" };
/** Sizes of its structs, and where in a look the effects and what follows them are. */
const LOOK_BYTES = 56;
const CANVAS_BYTES = 20;
const LIST_BYTES = 8;
const LIPSTICK_AT = 8;
const HAIR_AT = 24;
const FACE_AT = 40;

function whose(face: TryOnOptions["face"] = "all"): number {
  const number = typeof face === "string" ? (WHOSE[face] as number | undefined) : face;
  const isKnown = typeof face === "string" || (Number.isInteger(face) && face >= 0);
  if (number !== undefined && isKnown) return number;
  throw new PalmError(
    "argument",
    `face: expected all, largest, middle or a number from 0 on, got ${JSON.stringify(face)}`,
  );
}

/** Puts lipstick and hair dye on the faces of pictures and videos. */
export class TryOn extends Kit {
  #look: WholeLook;
  readonly #wearing: readonly number[];
  readonly #struct = this.native.take(LOOK_BYTES);
  readonly #canvas = this.native.take(CANVAS_BYTES);
  readonly #list = this.native.take(LIST_BYTES);
  readonly #meshes = this.native.take(MESH_BYTES * MOST_THINGS);
  #after = { at: 0, bytes: 0 };

  static readonly kit = "TryOn";
  static readonly method = "wear";

  private constructor(native: Native, handle: number, options: TryOnOptions, look: WholeLook) {
    super(native, handle, "try_on", options.mode === "video");
    this.#look = look;
    const { behind_hair = true, behind_hands = true, behind_things = true } = options;
    this.#wearing = [
      whose(options.face),
      ...[behind_hair, behind_hands, behind_things].map(Number),
    ];
  }

  /**
   * Opens the kit.
   *
   * Throws PalmError as `load` does, "argument" for an option or a look that cannot be, and
   * "unsupported" for a look with effects that are not worn here.
   */
  static async create(options: TryOnOptions = {}): Promise<TryOn> {
    const { look: given = {}, behind_hands: behindHands = true } = options;
    whose(options.face);
    const look =
      typeof given === "string" ? await loadLook(given, options.updates) : readLook(given);
    const hands = behindHands ? (["hand_detector", "hand_landmarks"] as const) : [];
    const [native, models] = await Promise.all([
      Native.open(new URL("./palm_kits_try_on.wasm", import.meta.url)),
      networks([DETECTORS.fast, "face_mesh", "hair", ...hands], options),
    ]);
    const changed = native.options(DEFAULTS.meshes, nativeOf(withThreshold(options, models[0])));
    const each = models.map((model: Model) => native.network(model));
    const all = native.words([...each, 0, 0].slice(0, 5));
    return new TryOn(native, native.made("palm_kits_try_on_create", all, changed), options, look);
  }

  /** What is worn; assign another look at any time, for the next picture. */
  get look(): WholeLook {
    return this.#look;
  }

  set look(look: Look) {
    this.#look = readLook(look);
  }

  /**
   * Puts the look on every face of a picture, or of the next frame of a video at this time.
   *
   * look: another one, from this picture on.
   * Throws PalmError "image" for a picture that cannot be read, and as `create` for a look.
   */
  wear(source: ImageSource, timestampMs?: number, look?: Look): TriedOn {
    if (look !== undefined) this.look = look;
    const { width, height } = this.lookAt(source, timestampMs, (pixels) => {
      this.#put();
      this.#room(pixels);
      const list = this.native.view(this.#list, LIST_BYTES);
      list.setUint32(0, 0, true);
      list.setUint32(4, MOST_THINGS, true);
      return [this.#struct, this.#canvas, this.#meshes, this.#list];
    });
    const data = new Uint8ClampedArray(this.native.copied(this.#after.at, 4 * width * height));
    const count = this.native.view(this.#list, LIST_BYTES).getUint32(0, true);
    const faces = Array.from({ length: count }, (_, i) =>
      meshAt(this.native, this.#meshes + i * MESH_BYTES),
    );
    return { width, height, after: { width, height, data }, faces, look: this.#look };
  }

  /** Writes palm_kits_look. */
  #put(): void {
    const view = this.native.view(this.#struct, LOOK_BYTES);
    view.setUint32(0, LOOK_BYTES, true);
    const put = (at: number, effect: Required<Effect> | undefined) => {
      const { colour, opacity, finish } = effect ?? NOTHING;
      [1, 3, 5].forEach((digit, i) => {
        view.setUint8(at + i, Number.parseInt(colour.slice(digit, digit + 2), 16));
      });
      view.setInt32(at + 4, FINISHES[finish], true);
      view.setFloat64(at + 8, opacity, true);
    };
    put(LIPSTICK_AT, this.#look.lipstick);
    put(HAIR_AT, this.#look.hair);
    this.#wearing.forEach((number, i) => {
      view.setInt32(FACE_AT + 4 * i, number, true);
    });
  }

  /** palm_kits_canvas for a picture of this size. */
  #room({ width, height }: Pixels): void {
    const bytes = 4 * width * height;
    if (this.#after.bytes < bytes) {
      if (this.#after.at) this.native.call("palm_give_back", this.#after.at);
      this.#after = { at: 0, bytes: 0 };
      this.#after = { at: this.native.take(bytes), bytes };
    }
    this.native.put(this.#canvas, [this.#after.at, width, height, 0, RGBA]);
  }
}
