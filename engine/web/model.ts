import { PalmError } from "./errors.js";
import { Instance } from "./instance.js";
import { type Build, addressOf, bestBuild, compile, mayWait, readBytes } from "./modules.js";
import { Threads } from "./threads.js";
import {
  type Data,
  type DType,
  type Tensor,
  type Value,
  bytesOf,
  check,
  copyOf,
} from "./values.js";

export interface LoadOptions {
  /** Threads of a run, 1 to 256. More than one need a page that is cross-origin isolated, and a
   * worker or Node: the thread of a page must not wait. */
  readonly threads?: number;
  /** Where the runtime's builds are, instead of beside this file. */
  readonly builds?: Readonly<Partial<Record<Build, URL | string>>>;
  readonly signal?: AbortSignal;
}

const BUILDS: Readonly<Record<Build, URL>> = {
  wasm: new URL("./palm_wasm.wasm", import.meta.url),
  wasm_threads: new URL("./palm_wasm_threads.wasm", import.meta.url),
  wasm_relaxed: new URL("./palm_wasm_relaxed.wasm", import.meta.url),
  wasm_relaxed_threads: new URL("./palm_wasm_relaxed_threads.wasm", import.meta.url),
};
const BORROW = 1;
const POINTER = 4;

/** A plan that is ready to run. */
interface Program {
  readonly program: number;
  /** Arrays of palm_input and palm_output. */
  readonly inputs: number;
  readonly outputs: number;
  readonly results: readonly { name: string; dtype: DType; dims: number[]; at: number }[];
}

/**
 * Opens a `.palm` file: its bytes, or where they are.
 *
 * Throws PalmError: "download" if it does not arrive, "model" if it is no model or damaged,
 * "unsupported" if it needs more than this runtime has, "simd" where WebAssembly has no SIMD.
 */
export async function load(
  source: URL | string | ArrayBuffer | Uint8Array,
  options: LoadOptions = {},
): Promise<Model> {
  const threads = options.threads ?? 1;
  if (!Number.isInteger(threads) || threads < 1 || threads > 256) {
    throw new PalmError("argument", `threads: expected 1 to 256, got ${threads}`);
  }
  if (threads > 1 && !mayWait()) {
    throw new PalmError("unsupported", "threads: load the model in a worker, or with one thread");
  }
  const builds = options.builds ?? BUILDS;
  const build = bestBuild(builds, threads > 1);
  const module = compile(builds[build] as URL | string);
  module.catch(() => undefined); // it is awaited below, if the file arrives
  const bytes = await bytesFrom(source, options.signal);
  const instance = await Instance.of(await module, threads > 1);
  const model = new Opened(instance, bytes, threads);
  await model.startThreads();
  return model;
}

async function bytesFrom(
  source: URL | string | ArrayBuffer | Uint8Array,
  signal?: AbortSignal,
): Promise<Uint8Array> {
  if (source instanceof ArrayBuffer) return new Uint8Array(source);
  if (source instanceof Uint8Array) return source;
  if (source instanceof URL || typeof source === "string") {
    return readBytes(addressOf(source, "expected an address").href, signal);
  }
  throw new PalmError("argument", "expected a model's bytes or its address");
}

/** A model that is open. It serves one caller at a time; `close` gives its memory back. */
export interface Model {
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly metadata: Readonly<Record<string, string>>;
  /** The dims of the inputs that the file has plans for. */
  readonly plans: readonly (readonly (readonly number[])[])[];

  /**
   * Runs the model, and returns its outputs by name, in arrays of their own.
   *
   * inputs: data of all inputs, by name; with dims where the model's are open. Throws PalmError
   * "shape" for inputs of other types and sizes than a plan has, after which it runs again;
   * "backend" or "model" if the run fails, after which it does not.
   */
  run(inputs: Readonly<Record<string, Data | Tensor>>): Record<string, Tensor>;
  close(): void;
}

class Opened implements Model {
  readonly inputs: readonly Value[];
  readonly outputs: readonly Value[];
  readonly metadata: Readonly<Record<string, string>>;
  readonly plans: readonly (readonly (readonly number[])[])[];
  readonly #model: number;
  readonly #room: number;
  readonly #programs = new Map<number, Program>();
  /** Of one program at a time, as it has all the threads. */
  #session: { readonly program: Program; readonly handle: number } | undefined;
  #threads: Threads | undefined;
  #instance: Instance | undefined;

  constructor(
    instance: Instance,
    bytes: Uint8Array,
    private readonly threads: number,
  ) {
    this.#instance = instance;
    this.#room = instance.take(8 * POINTER);
    const file = instance.take(bytes.length);
    instance.bytes(file, bytes.length).set(bytes);
    this.#model = this.#made("palm_open_bytes", file, bytes.length, BORROW);
    this.inputs = this.#values("palm_model_input", this.#model);
    this.outputs = this.#values("palm_model_output", this.#model);
    const metadata: Record<string, string> = {};
    const entries = instance.call("palm_model_metadata_count", this.#model);
    for (let i = 0; i < entries; ++i) {
      const key = instance.text(instance.call("palm_model_metadata_key", this.#model, i));
      metadata[key] = instance.text(instance.call("palm_model_metadata_value", this.#model, i));
    }
    this.metadata = metadata;
    const plans = instance.call("palm_model_plan_count", this.#model);
    this.plans = Array.from({ length: plans }, (_, plan) =>
      this.inputs.map(({ dims }, input) =>
        numbers(instance, instance.call("palm_model_plan_dims", this.#model, plan, input), dims),
      ),
    );
  }

  async startThreads(): Promise<void> {
    if (this.threads > 1) {
      this.#threads = await Threads.start(this.#open(), this.threads - 1);
    }
  }

  run(inputs: Readonly<Record<string, Data | Tensor>>): Record<string, Tensor> {
    const instance = this.#open();
    const unknown = Object.keys(inputs).filter((name) => !this.inputs.some((i) => i.name === name));
    if (unknown.length) {
      const known = this.inputs.map(({ name }) => name).join(", ");
      throw new PalmError("shape", `expected inputs ${known}, got ${unknown.join(", ")} as well`);
    }
    const plan = this.#planOf(inputs);
    const data = this.inputs.map(({ name, dtype }, i) =>
      check(name, dtype, this.plans[plan]?.[i] ?? [], dataOf(inputs[name])),
    );
    const program = this.#program(plan);
    const session = this.#sessionOf(program);
    const places = instance.words(program.inputs, 2 * data.length);
    data.forEach(({ buffer, byteOffset, byteLength }, i) => {
      const given = new Uint8Array(buffer, byteOffset, byteLength);
      instance.bytes(places[2 * i] ?? 0, byteLength).set(given);
    });
    instance.call(
      "palm_run",
      ...[session, program.inputs, data.length, program.outputs, program.results.length],
    );
    const results: Record<string, Tensor> = {};
    for (const { name, dtype, dims, at } of program.results) {
      results[name] = { data: copyOf(dtype, instance.bytes(at, bytesOf(dtype, dims))), dims };
    }
    return results;
  }

  close(): void {
    this.#threads?.end();
    this.#instance = undefined;
    this.#programs.clear();
  }

  #open(): Instance {
    if (!this.#instance) throw new PalmError("argument", "the model is closed");
    return this.#instance;
  }

  /** Calls what makes a handle and puts it where its last argument says. */
  #made(name: string, ...values: number[]): number {
    const instance = this.#open();
    instance.call(name, ...values, this.#room);
    return instance.words(this.#room, 1)[0] ?? 0;
  }

  #values(name: string, of: number): Value[] {
    const instance = this.#open();
    const count = instance.call(`${name}_count`, of);
    return Array.from({ length: count }, (_, i) => {
      const value = instance.call(name, of, i);
      const dtype = instance.call("palm_value_dtype", value);
      const rank = instance.call("palm_value_rank", value);
      const dims = instance.call("palm_value_dims", value);
      return {
        name: instance.text(instance.call("palm_value_name", value)),
        dtype: instance.text(instance.call("palm_dtype_name", dtype)) as DType,
        dims: numbers(instance, dims, { length: rank }).map((dim, axis) =>
          dim >= 0 ? dim : instance.text(instance.call("palm_value_dim_name", value, axis)),
        ),
      };
    });
  }

  /** The plan for inputs of these sizes. */
  #planOf(inputs: Readonly<Record<string, Data | Tensor>>): number {
    if (this.plans.length === 1) return 0;
    const found = this.plans.findIndex((plan) =>
      this.inputs.every(({ name }, i) => {
        const given = inputs[name];
        const dims = given && "dims" in given ? given.dims : undefined;
        return dims?.length === plan[i]?.length && dims?.every((dim, a) => dim === plan[i]?.[a]);
      }),
    );
    if (found >= 0) return found;
    const known = this.plans.map((plan) => plan.map((dims) => `[${dims.join(", ")}]`).join(" "));
    const names = this.inputs.map(({ name }) => name).join(", ");
    throw new PalmError("shape", `expected ${names} with dims ${known.join(" or ")}`);
  }

  #program(plan: number): Program {
    let program = this.#programs.get(plan);
    if (!program) this.#programs.set(plan, (program = this.#prepare(plan)));
    return program;
  }

  #sessionOf(program: Program): number {
    if (this.#session?.program !== program) {
      if (this.#session) this.#open().call("palm_session_free", this.#session.handle);
      this.#session = undefined;
      const handle = this.#made("palm_session_create", program.program, this.threads);
      this.#session = { program, handle };
    }
    return this.#session.handle;
  }

  #prepare(plan: number): Program {
    const instance = this.#open();
    const program = this.#made("palm_program_create", this.#model, plan, 0);
    const results = this.#values("palm_program_output", program).map(({ name, dtype, dims }) => {
      const known = dims as number[];
      return { name, dtype, dims: known, at: instance.take(bytesOf(dtype, known)) };
    });
    const given = this.inputs.map(({ dtype }, i) => bytesOf(dtype, this.plans[plan]?.[i] ?? []));
    const inputs = this.#buffers(given.map((size) => [instance.take(size), size]));
    const outputs = this.#buffers(
      results.map(({ dtype, dims, at }) => [at, bytesOf(dtype, dims)]),
    );
    return { program, inputs, outputs, results };
  }

  /** An array of pointers and sizes. */
  #buffers(buffers: (readonly [number, number])[]): number {
    const instance = this.#open();
    const at = instance.take(2 * POINTER * buffers.length);
    instance.words(at, 2 * buffers.length).set(buffers.flat());
    return at;
  }
}

function dataOf(given: Data | Tensor | undefined): unknown {
  return given && "dims" in given ? given.data : given;
}

function numbers(instance: Instance, at: number, { length }: { length: number }): number[] {
  if (!length) return [];
  return [...new BigInt64Array(instance.memory.buffer, at, length)].map(Number);
}

