import { PalmError, kindOf } from "./errors.js";
import { canShareMemory } from "./modules.js";

/** What the C++ of an instance throws: it unwinds through WebAssembly without being caught there. */
class Thrown extends Error {
  constructor(
    readonly status: number,
    text: string,
  ) {
    super(text);
  }
}

type Call = (...values: number[]) => number;

// Of 64 KB: what the module begins with, and the 1 GB that its build says.
const FEWEST_PAGES = 64;
const MOST_PAGES = 16384;
const NO_SUCH_CALL = 52; // WASI's ENOSYS

/** Returns the imports of an instance on a memory; `memory` is called when one is used. */
export function importsOf(
  module: WebAssembly.Module,
  memory: () => WebAssembly.Memory,
  calls: Readonly<Record<string, Call>> = {},
) {
  const imports: Record<string, Record<string, WebAssembly.ImportValue>> = {
    env: {},
    wasi_snapshot_preview1: {},
    palm: {
      ...calls,
      throw(status: number, text: number): never {
        throw new Thrown(status, textAt(memory(), text));
      },
    },
  };
  for (const { module: from, name, kind } of WebAssembly.Module.imports(module)) {
    const group = imports[from];
    if (!group) throw new PalmError("backend", `the module imports ${from}.${name}`);
    // There are no files, arguments or variables: C's library is told so.
    if (kind === "function") group[name] ??= () => NO_SUCH_CALL;
    if (kind === "memory") group[name] = memory();
  }
  const wasi = imports["wasi_snapshot_preview1"] ?? {};
  wasi["clock_time_get"] = (_clock: number, _precision: bigint, at: number) => {
    const now = BigInt(Math.round(performance.now() * 1e6));
    new DataView(memory().buffer).setBigUint64(at, now, true);
    return 0;
  };
  return imports;
}

function textAt(memory: WebAssembly.Memory, at: number): string {
  const bytes = new Uint8Array(memory.buffer);
  // A copy, as text in memory that is shared is not decoded.
  return at ? new TextDecoder().decode(bytes.slice(at, bytes.indexOf(0, at))) : "";
}

/**
 * A module with its memory.
 *
 * A call that fails leaves the instance as it was in the middle of it: it is of no more use, and
 * says so.
 */
export class Instance {
  #failure: PalmError | undefined;

  private constructor(
    readonly module: WebAssembly.Module,
    readonly memory: WebAssembly.Memory,
    private readonly calls: Readonly<Record<string, Call>>,
  ) {}

  /**
   * Makes an instance with a memory of its own, shared or not. calls: what it imports of `palm`
   * beside throwing.
   *
   * Throws PalmError "unsupported" where memory cannot be shared.
   */
  static async of(
    module: WebAssembly.Module,
    isShared: boolean,
    calls: Readonly<Record<string, Call>> = {},
  ): Promise<Instance> {
    let memory: WebAssembly.Memory | undefined;
    if (isShared) {
      if (!canShareMemory()) {
        throw new PalmError(
          "unsupported",
          "threads: expected a page that is cross-origin isolated: serve it with the headers " +
            "Cross-Origin-Opener-Policy: same-origin and " +
            "Cross-Origin-Embedder-Policy: require-corp, or ask for one thread",
        );
      }
      memory = new WebAssembly.Memory({ initial: FEWEST_PAGES, maximum: MOST_PAGES, shared: true });
    }
    const { exports } = await WebAssembly.instantiate(
      module,
      importsOf(module, () => memory as WebAssembly.Memory, calls),
    );
    memory ??= exports["memory"] as WebAssembly.Memory;
    const instance = new Instance(module, memory, exports as Readonly<Record<string, Call>>);
    instance.call("_initialize");
    return instance;
  }

  /**
   * Calls an export. Throws PalmError if it fails, and from then on: what would be a status of
   * palm.h elsewhere is thrown here.
   */
  call(name: string, ...values: number[]): number {
    if (this.#failure) {
      const { kind, message } = this.#failure;
      throw new PalmError(kind, `it failed before: ${message}`, { cause: this.#failure });
    }
    const call = this.calls[name];
    if (!call) throw new PalmError("backend", `the module has no ${name}`);
    try {
      return call(...values);
    } catch (error) {
      const failure =
        error instanceof Thrown
          ? new PalmError(kindOf(error.status), error.message, { cause: error })
          : new PalmError("backend", `the runtime stopped: ${String(error)}`, { cause: error });
      this.fail(failure);
      throw failure;
    }
  }

  /** Is of no more use from now on. */
  fail(failure: PalmError): void {
    this.#failure ??= failure;
  }

  /** The value of a number that the module exports. */
  global(name: string): number {
    const global = this.calls[name] as unknown as WebAssembly.Global<"i32"> | undefined;
    if (!global) throw new PalmError("backend", `the module has no ${name}`);
    return global.value;
  }

  /** Memory that begins at a multiple of 64. */
  take(bytes: number): number {
    const at = this.call("palm_take", bytes);
    if (!at) throw new PalmError("backend", `out of memory: could not get ${bytes} bytes`);
    return at;
  }

  /** The bytes there, until a call grows the memory. */
  bytes(at: number, size: number): Uint8Array {
    return new Uint8Array(this.memory.buffer, at >>> 0, size);
  }

  words(at: number, count: number): Uint32Array {
    return new Uint32Array(this.memory.buffer, at >>> 0, count);
  }

  text(at: number): string {
    return textAt(this.memory, at >>> 0);
  }
}
