import { PalmError } from "./errors.js";

/** The builds of a module: with relaxed SIMD or without, for one thread or for memory that is shared. */
export type Build = "wasm" | "wasm_threads" | "wasm_relaxed" | "wasm_relaxed_threads";

/** Where a module's builds are: `build` left out is not tried. */
export type Builds = Readonly<Partial<Record<Build, URL | string>>>;

// (func (result v128) i32.const 0 i8x16.splat i8x16.popcnt)
const SIMD = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 10, 1, 8, 0, 65, 0, 253, 15,
  253, 98, 11,
];
// (func (result v128) i32.const 1 i8x16.splat i32.const 2 i8x16.splat i8x16.relaxed_swizzle)
const RELAXED = [
  0, 97, 115, 109, 1, 0, 0, 0, 1, 5, 1, 96, 0, 1, 123, 3, 2, 1, 0, 10, 15, 1, 13, 0, 65, 1, 253, 15,
  65, 2, 253, 15, 253, 128, 2, 11,
];

const validates = (bytes: readonly number[]) => WebAssembly.validate(new Uint8Array(bytes));

/** Whether instances may share memory here: in Node, and in pages that are cross-origin isolated. */
export function canShareMemory(): boolean {
  const isolated = (globalThis as { crossOriginIsolated?: boolean }).crossOriginIsolated;
  return typeof SharedArrayBuffer !== "undefined" && isolated !== false;
}

/** Whether this thread may wait for others: that of a page must not. */
export function mayWait(): boolean {
  return typeof document === "undefined";
}

function checkSimd(): void {
  if (!validates(SIMD)) {
    throw new PalmError(
      "simd",
      "expected WebAssembly with SIMD: Chrome 91, Firefox 89, Safari 16.4 or newer",
    );
  }
}

/**
 * Returns the best build that this engine runs.
 *
 * Throws PalmError "simd" where it has no SIMD, and "unsupported" if no build fits.
 */
export function bestBuild(builds: Builds, threads: boolean): Build {
  checkSimd();
  const sets = validates(RELAXED) ? (["wasm_relaxed", "wasm"] as const) : (["wasm"] as const);
  for (const set of sets) {
    const build: Build = threads ? `${set}_threads` : set;
    if (builds[build]) return build;
  }
  throw new PalmError("unsupported", `no build of the module for ${sets.join(" or ")}`);
}

/**
 * Returns a whole address, of a page's from there on.
 *
 * expected: what was to come, for the PalmError "argument" of what is none.
 */
export function addressOf(source: URL | string, expected: string): URL {
  const base = typeof location === "undefined" ? undefined : location.href;
  try {
    return new URL(source, base);
  } catch (error) {
    throw new PalmError("argument", `${expected}, got ${String(source)}`, { cause: error });
  }
}

const compiled = new Map<string, Promise<WebAssembly.Module>>();

/**
 * Compiles a module, once for each address.
 *
 * Throws PalmError "download" if it does not arrive, and "simd" where it has no SIMD.
 */
export function compile(url: URL | string): Promise<WebAssembly.Module> {
  const key = String(url);
  let module = compiled.get(key);
  if (!module) {
    module = fetched(key).catch((error: unknown) => {
      compiled.delete(key); // it may arrive the next time
      throw error;
    });
    compiled.set(key, module);
  }
  return module;
}

async function fetched(url: string): Promise<WebAssembly.Module> {
  checkSimd();
  if (url.startsWith("file:")) return WebAssembly.compile(await readBytes(url));
  const response = await get(url);
  const type = response.headers.get("content-type") ?? "";
  try {
    // Servers that do not know the type are no reason to fail.
    return await (type.startsWith("application/wasm")
      ? WebAssembly.compileStreaming(response)
      : WebAssembly.compile(await response.arrayBuffer()));
  } catch (error) {
    const what = `expected a WebAssembly module, got ${type || "no type"}: ${String(error)}`;
    throw new PalmError("download", `${url}: ${what}`, { cause: error });
  }
}

/** Fetches an address. Throws PalmError "download" if it does not arrive. */
export async function get(url: string, signal?: AbortSignal): Promise<Response> {
  let response: Response;
  try {
    response = await fetch(url, signal ? { signal } : {});
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new PalmError("download", `${url}: ${String(error)}`, { cause: error });
  }
  if (!response.ok) throw new PalmError("download", `${url}: status ${response.status}`);
  return response;
}

/** Returns the bytes of a file (in Node) or of an address. */
export async function readBytes(
  url: string,
  signal?: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  if (!url.startsWith("file:")) {
    return new Uint8Array(await (await get(url, signal)).arrayBuffer());
  }
  const name = "node:fs/promises"; // so that bundlers leave it alone
  const files = (await import(/* @vite-ignore */ name)) as typeof import("node:fs/promises");
  try {
    return new Uint8Array(await files.readFile(new URL(url)));
  } catch (error) {
    throw new PalmError("download", `${url}: ${String(error)}`, { cause: error });
  }
}
