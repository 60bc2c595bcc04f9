import { type LoadOptions, type Model, PalmError, load } from "../../engine/web/index.js";

/** Where newer models than those of the package come from: `Updates` of palmkit/delivery. */
export interface Releases {
  /** The release of a model that runs here; undefined: the package's. */
  model(name: string): Promise<Uint8Array | undefined>;
  /** Says that it cannot run: the one before it comes next. */
  failed(name: string): Promise<void>;
}

/** What a file is to blame for, and not the machine. */
const OF_FILES: readonly string[] = ["model", "unsupported", "shape"];

/** Opens the newest release of a model that can be opened, in the end the package's. */
export async function loadNewest(
  name: string,
  shipped: URL | string,
  options: LoadOptions,
  releases: Releases | undefined,
): Promise<Model> {
  for (;;) {
    const content = await releases?.model(name);
    if (!releases || !content) return load(shipped, options);
    try {
      return await load(content, options);
    } catch (error) {
      if (!(error instanceof PalmError && OF_FILES.includes(error.kind))) throw error;
      await releases.failed(name);
    }
  }
}
