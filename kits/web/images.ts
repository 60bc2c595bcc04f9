import { PalmError } from "../../engine/web/index.js";

/** What a kit looks at. */
export type ImageSource =
  | ImageData
  | ImageBitmap
  | HTMLImageElement
  | HTMLCanvasElement
  | OffscreenCanvas
  | HTMLVideoElement
  | VideoFrame
  | Pixels;

/** Rows of red, green, blue and alpha, which is not looked at. */
export interface Pixels {
  readonly width: number;
  readonly height: number;
  readonly data: Uint8ClampedArray | Uint8Array;
}

const MOST_SIDE = 65536;
const MOST_PIXELS = 2 ** 28;
// So much every browser's canvas holds. A larger one may stay empty, without a word.
const SURE_SIDE = 4096;
const NONE = "expected a picture: an element, a bitmap, a frame, or its pixels";
const EMPTY = "the picture is empty, or not loaded yet: await its decode()";
const SMALLER = "make it smaller, as by createImageBitmap with resizeWidth";
// From here on a video has a frame to show.
const HAVE_CURRENT_DATA = 2;

let drawing: OffscreenCanvasRenderingContext2D | CanvasRenderingContext2D | null = null;

/**
 * Returns the pixels of a picture, upright as browsers show it.
 *
 * Throws PalmError "image" for a picture that is empty, too large, not loaded yet, or of another
 * origin that does not let pages read it.
 */
export function pixelsOf(source: ImageSource): Pixels {
  if (isPixels(source)) return checked(source);
  const { width, height } = sizeOf(source);
  check(width, height);
  try {
    const context = canvasOf(width, height);
    context.drawImage(source, 0, 0, width, height);
    return context.getImageData(0, 0, width, height);
  } catch (error) {
    throw meaning(error);
  }
}

/** A picture as it goes to a worker. */
export type Sent = ImageBitmap | Pixels;

/**
 * Returns what a picture shows now, for a worker: the given one stays as it is.
 *
 * Throws PalmError "image" as `pixelsOf` does.
 */
export async function sendable(source: ImageSource): Promise<Sent> {
  try {
    if (isPixels(source)) {
      const { width, height, data } = checked(source);
      return { width, height, data: data.slice() };
    }
    const { width, height } = sizeOf(source);
    check(width, height);
    return await createImageBitmap(source);
  } catch (error) {
    throw meaning(error);
  }
}

function isPixels(source: ImageSource): source is Pixels {
  if (typeof source === "object" && (source as ImageSource | null)) return "data" in source;
  throw new PalmError("image", `${NONE}, got ${String(source)}`);
}

/** Returns the error of a caller for what a browser throws of a picture. */
export function meaning(error: unknown): unknown {
  const name = error instanceof DOMException ? error.name : "";
  // A picture of another origin cannot be read, nor sent to a worker.
  if (name === "SecurityError" || name === "DataCloneError") {
    return new PalmError(
      "image",
      "the picture is of another origin: load it with crossorigin='anonymous' from a server " +
        "that allows it",
      { cause: error },
    );
  }
  // It has a size, or it would have come to naught before.
  if (name === "InvalidStateError" || error instanceof RangeError) {
    return new PalmError(
      "image",
      `the picture cannot be read: await its decode(), or, if it is large, ${SMALLER}`,
      { cause: error },
    );
  }
  if (error instanceof TypeError) return new PalmError("image", NONE, { cause: error });
  return error;
}

function sizeOf(source: Exclude<ImageSource, Pixels>): { width: number; height: number } {
  if ("naturalWidth" in source) return { width: source.naturalWidth, height: source.naturalHeight };
  if ("videoWidth" in source) {
    const isThere = source.readyState >= HAVE_CURRENT_DATA;
    return isThere
      ? { width: source.videoWidth, height: source.videoHeight }
      : { width: 0, height: 0 };
  }
  if ("displayWidth" in source) {
    return { width: source.displayWidth, height: source.displayHeight };
  }
  return { width: source.width, height: source.height };
}

function check(width: number, height: number): void {
  if (!width || !height) {
    throw new PalmError("image", EMPTY);
  }
  if (width > MOST_SIDE || height > MOST_SIDE || width * height > MOST_PIXELS) {
    throw new PalmError(
      "image",
      `expected at most ${MOST_SIDE} pixels a side and 2^28 in all, got ${width} x ${height}: ` +
        SMALLER,
    );
  }
}

function checked(pixels: Pixels): Pixels {
  const { width, height, data } = pixels;
  check(width, height);
  if (data.length !== 4 * width * height) {
    const expected = `${4 * width * height} bytes of ${width} x ${height} pixels`;
    throw new PalmError("image", `expected ${expected}, got ${data.length}`);
  }
  return pixels;
}

/** One canvas for all pictures: each is read before the next is drawn. */
function canvasOf(width: number, height: number) {
  if (!drawing) {
    const canvas =
      typeof OffscreenCanvas === "undefined"
        ? document.createElement("canvas")
        : new OffscreenCanvas(width, height);
    drawing = canvas.getContext("2d", { willReadFrequently: true }) as typeof drawing;
  }
  if (!drawing) throw new PalmError("image", "the browser gave no canvas to read pictures with");
  const context = drawing;
  // This also clears it.
  context.canvas.width = width;
  context.canvas.height = height;
  if (Math.max(width, height) > SURE_SIDE) checkHolds(context, width, height);
  return context;
}

/** Throws PalmError "image" if a canvas of this size does not take what is drawn. */
function checkHolds(context: NonNullable<typeof drawing>, width: number, height: number): void {
  const last = [width - 1, height - 1, 1, 1] as const;
  context.fillRect(...last);
  let isThere = false;
  try {
    isThere = context.getImageData(...last).data[3] !== 0;
  } catch {
    // Of Firefox, an error that says no more.
  }
  if (!isThere) {
    drawing = null; // it may not take smaller ones any more
    throw new PalmError(
      "image",
      `the browser has no canvas for a picture of ${width} x ${height}: ${SMALLER}`,
    );
  }
  context.clearRect(...last);
}
