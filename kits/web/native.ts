// palm_kits.h: modules, their structs, and networks that they call.
import { type Model, PalmError, type Tensor } from "../../engine/web/index.js";
import { Instance } from "../../engine/web/instance.js";
import { compile } from "../../engine/web/modules.js";
import type { Pixels } from "./images.js";

/** Options of palm_kits_options, which kits/native/palm_kits.h describes. */
export interface NativeOptions {
  is_video: number;
  max_count: number;
  min_score: number;
  min_presence: number;
  min_face: number;
  detector_size: number;
  tile: number;
  detect_every: number;
  is_smooth: number;
  second_pass: number;
  is_refined: number;
  hold_ms: number;
}

/** Where the options lie, as kits/native/wasm/host.cc has it, and which are doubles. */
const OFFSETS: Readonly<Record<keyof NativeOptions, number>> = {
  is_video: 4,
  max_count: 8,
  min_score: 16,
  min_presence: 24,
  min_face: 32,
  detector_size: 40,
  tile: 44,
  detect_every: 48,
  is_smooth: 52,
  second_pass: 56,
  is_refined: 60,
  hold_ms: 64,
};
const DOUBLES: ReadonlySet<string> = new Set(["min_score", "min_presence", "min_face", "hold_ms"]);
const OPTIONS_BYTES = 72;
const TENSOR_WORDS = 4;
const NO_MEMORY = "out of memory"; // of engine/native/wasm/platform.cc
const RGBA = 2;

/** What `palm_host_options` is asked for. */
export const DEFAULTS = { faces: 0, meshes: 1, hands: 2, masks: 3 } as const;

/** An instance of a kit's module, with its networks. */
export class Native {
  readonly #networks: Model[] = [];
  #failure: unknown;
  #image = { at: 0, bytes: 0 };
  readonly #struct: number;

  private constructor(private readonly instance: Instance) {
    this.#struct = instance.take(32);
  }

  /** module: where it is; a kit names its own, so that bundlers bring no other's along. */
  static async open(module: URL): Promise<Native> {
    let native: Native | undefined;
    const network = (user = 0, inputs = 0, inputCount = 0, outputs = 0, outputCount = 0) =>
      native?.run(user, inputs, inputCount, outputs, outputCount) ?? 1;
    const instance = await Instance.of(await compile(module), false, { network });
    native = new Native(instance);
    return native;
  }

  /** A palm_kits_network of a model; it runs at the sizes that the file has plans for. */
  network(model: Model): number {
    const { instance } = this;
    const image = model.inputs.findIndex(({ name }) => name === "image");
    const sizes = model.plans.flatMap((plan) => {
      const [, height, width] = plan[image] ?? [];
      return height === undefined || width === undefined ? [] : [width, height];
    });
    if (!sizes.length) throw new PalmError("model", "expected a network with an input image");
    const user = this.#networks.push(model) - 1;
    const at = this.words(sizes);
    return this.words([instance.call("palm_host_run"), user, at, sizes.length / 2]);
  }

  /** palm_kits_options: the defaults of a kit, and what is other. */
  options(kit: number, changed: Partial<NativeOptions>): number {
    const { instance } = this;
    const at = instance.take(OPTIONS_BYTES);
    const defaults = instance.call("palm_host_options", kit);
    instance.bytes(at, OPTIONS_BYTES).set(instance.bytes(defaults, OPTIONS_BYTES));
    const view = new DataView(instance.memory.buffer, at);
    for (const [name, value] of Object.entries(changed)) {
      const offset = OFFSETS[name as keyof NativeOptions];
      if (DOUBLES.has(name)) view.setFloat64(offset, value, true);
      else view.setInt32(offset, value, true);
    }
    return at;
  }

  /** palm_kits_image of a picture, until the next one. */
  image({ width, height, data }: Pixels): number {
    const { instance } = this;
    if (this.#image.bytes < data.length) {
      if (this.#image.at) instance.call("palm_give_back", this.#image.at);
      this.#image = { at: 0, bytes: 0 };
      this.#image = { at: instance.take(data.length), bytes: data.length };
    }
    instance.bytes(this.#image.at, data.length).set(data);
    instance.words(this.#struct, 7).set([this.#image.at, width, height, 0, RGBA, 0, 0]);
    return this.#struct;
  }

  /** Memory with these words in it. */
  words(values: readonly number[]): number {
    const at = this.instance.take(4 * values.length);
    this.put(at, values);
    return at;
  }

  put(at: number, words: readonly number[]): void {
    this.instance.words(at, words.length).set(words);
  }

  putFloats(at: number, values: readonly number[]): void {
    new Float32Array(this.instance.memory.buffer, at, values.length).set(values);
  }

  take(bytes: number): number {
    return this.instance.take(bytes);
  }

  view(at: number, bytes: number): DataView {
    return new DataView(this.instance.memory.buffer, at, bytes);
  }

  /** A copy of memory. */
  copied(at: number, bytes: number): ArrayBuffer {
    return this.instance.memory.buffer.slice(at, at + bytes) as ArrayBuffer;
  }

  floats(at: number, count: number): Float32Array {
    return new Float32Array(this.instance.memory.buffer, at, count).slice();
  }

  text(at: number): string {
    return this.instance.text(at);
  }

  /** Makes a handle, by a call that puts it where its last argument says. */
  made(name: string, ...values: number[]): number {
    const at = this.words([0]);
    this.call(name, ...values, at);
    return this.instance.words(at, 1)[0] ?? 0;
  }

  /** Calls an export, as Instance does; what a network threw is thrown on. */
  call(name: string, ...values: number[]): number {
    this.#failure = undefined;
    try {
      return this.instance.call(name, ...values);
    } catch (error) {
      throw this.#failure ?? withRemedy(error);
    }
  }

  close(): void {
    for (const model of this.#networks) model.close();
  }

  /** Runs a network for the module: reads palm_kits_tensors and writes others. */
  run(
    user: number,
    inputs: number,
    inputCount: number,
    outputs: number,
    outputCount: number,
  ): number {
    const model = this.#networks[user];
    if (!model) return 1;
    try {
      const given: Record<string, Tensor> = {};
      for (const { name, dims, data } of this.#tensors(inputs, inputCount)) {
        if (model.inputs.some((input) => input.name === name)) given[name] = { data, dims };
      }
      const results = model.run(given);
      for (const { name, data } of this.#tensors(outputs, outputCount)) {
        const made = results[name]?.data;
        if (!(made instanceof Float32Array) || made.length !== data.length) {
          throw new PalmError("model", `expected a network with an output ${name} of this kit`);
        }
        data.set(made);
      }
      return 0;
    } catch (error) {
      this.#failure = error;
      return 1;
    }
  }

  #tensors(at: number, count: number) {
    const { buffer } = this.instance.memory;
    return Array.from({ length: count }, (_, i) => {
      const [name = 0, dimsAt = 0, rank = 0, data = 0] = this.instance.words(
        at + 4 * TENSOR_WORDS * i,
        TENSOR_WORDS,
      );
      const dims = [...new BigInt64Array(buffer, dimsAt, rank)].map(Number);
      const length = dims.reduce((product, dim) => product * dim, 1);
      return { name: this.text(name), dims, data: new Float32Array(buffer, data, length) };
    });
  }
}

function withRemedy(error: unknown): unknown {
  if (!(error instanceof PalmError) || error.message !== NO_MEMORY) return error;
  const remedy = "open the kit again, and give it smaller pictures";
  return new PalmError("backend", `${NO_MEMORY}: ${remedy}`, { cause: error });
}
