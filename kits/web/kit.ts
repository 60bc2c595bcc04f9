import { type LoadOptions, type Model, PalmError } from "../../engine/web/index.js";
import { addressOf } from "../../engine/web/modules.js";
import { type ImageSource, type Pixels, pixelsOf } from "./images.js";
import { MODELS, type ModelName } from "./models.js";
import { Native, type NativeOptions } from "./native.js";
import { type Releases, loadNewest } from "./releases.js";

/** Options of all kits. */
export interface KitOptions {
  /** "video": frames of one video, in order; "image": each picture stands for itself. */
  readonly mode?: "image" | "video";
  /** Steady what is found in videos. */
  readonly smoothing?: boolean;
  /** A folder with the models; left out: the one of this package. */
  readonly models?: URL | string;
  /** Takes newer models from signed releases: `Updates` of palmkit/delivery. */
  readonly updates?: Releases;
  readonly threads?: number;
  readonly signal?: AbortSignal;
}

export const MOST_THINGS = 256;

/**
 * Returns the whole address of a folder.
 *
 * Throws PalmError "argument" for what is no address.
 */
export function folderAt(folder: URL | string): URL {
  const url = addressOf(folder, "models: expected a folder's address");
  if (!url.pathname.endsWith("/")) url.pathname += "/";
  return url;
}

/** Opens shipped models by their names. */
export async function networks(
  names: readonly ModelName[],
  options: KitOptions,
): Promise<Model[]> {
  const { threads, signal } = options;
  const loading: LoadOptions = {
    ...(threads !== undefined && { threads }),
    ...(signal && { signal }),
  };
  const folder = options.models === undefined ? undefined : folderAt(options.models);
  const { updates } = options;
  return Promise.all(
    names.map((name) => {
      const shipped = folder ? new URL(`${name}.palm`, folder) : MODELS[name];
      return loadNewest(name, shipped, loading, updates);
    }),
  );
}

/** What all kits are: `call` names their functions in palm_kits.h. */
export abstract class Kit {
  #frame = 0;

  protected constructor(
    protected readonly native: Native,
    protected readonly handle: number,
    private readonly kind: string,
    private readonly isVideo: boolean,
  ) {}

  /** Gives the kit's memory back; it is of no use from then on. */
  close(): void {
    this.native.close();
  }

  /**
   * Runs the kit on a picture.
   *
   * timestampMs: of a frame of a video, with any origin; left out, it comes 1/30 s after the last.
   */
  protected lookAt(
    source: ImageSource,
    timestampMs: number | undefined,
    rest: (pixels: Pixels) => number[],
  ): Pixels {
    if (timestampMs !== undefined && !Number.isFinite(timestampMs)) {
      throw new PalmError("argument", `timestampMs: expected milliseconds, got ${timestampMs}`);
    }
    const pixels = pixelsOf(source);
    const frame = this.isVideo && timestampMs !== undefined ? this.frame(timestampMs) : 0;
    const image = this.native.image(pixels);
    const name = `palm_kits_${this.kind}_run`;
    this.native.call(name, this.handle, image, 0, frame, ...rest(pixels));
    return pixels;
  }

  /** palm_kits_frame. */
  private frame(timestampMs: number): number {
    this.#frame ||= this.native.words([0, 0, 0, 0]);
    this.native.view(this.#frame, 8).setFloat64(0, timestampMs, true);
    return this.#frame;
  }
}

/** A kit that finds things, each a struct of `bytes`. */
export abstract class Finder<Thing> extends Kit {
  readonly #things: number;
  readonly #list: number;

  protected constructor(
    native: Native,
    handle: number,
    kind: string,
    isVideo: boolean,
    private readonly bytes: number,
  ) {
    super(native, handle, kind, isVideo);
    this.#things = native.take(bytes * MOST_THINGS);
    this.#list = native.take(8);
  }

  protected find(source: ImageSource, timestampMs?: number): Thing[] {
    this.lookAt(source, timestampMs, () => {
      const list = this.native.view(this.#list, 8);
      list.setUint32(0, 0, true);
      list.setUint32(4, MOST_THINGS, true);
      return [this.#things, this.#list];
    });
    const count = this.native.view(this.#list, 8).getUint32(0, true);
    return Array.from({ length: count }, (_, i) => this.thing(this.#things + i * this.bytes));
  }

  protected abstract thing(at: number): Thing;
}

/** Native options of what all kits have. */
export function shared(options: KitOptions): Partial<NativeOptions> {
  return {
    is_video: Number(options.mode === "video"),
    ...(options.smoothing !== undefined && { is_smooth: Number(options.smoothing) }),
  };
}

/** Returns a number as native code counts it: undefined is its default. */
export function given<Name extends keyof NativeOptions>(
  name: Name,
  value: number | undefined,
): Partial<NativeOptions> {
  return value === undefined ? {} : { [name]: value };
}

