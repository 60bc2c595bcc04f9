import { PalmError } from "./errors.js";

/** The arrays that hold each type of palm_dtype; those of 16 bits hold a float's bits. */
const ARRAYS = {
  float32: Float32Array,
  float64: Float64Array,
  float16: Uint16Array,
  int8: Int8Array,
  uint8: Uint8Array,
  int16: Int16Array,
  uint16: Uint16Array,
  int32: Int32Array,
  uint32: Uint32Array,
  int64: BigInt64Array,
  uint64: BigUint64Array,
  bool: Uint8Array,
  bfloat16: Uint16Array,
} as const;

export type DType = keyof typeof ARRAYS;
export type Data =
  | Float32Array
  | Float64Array
  | Int8Array
  | Uint8Array
  | Int16Array
  | Uint16Array
  | Int32Array
  | Uint32Array
  | BigInt64Array
  | BigUint64Array;

/** An input or output of a model. A dim that is a text is of any size that a plan has. */
export interface Value {
  readonly name: string;
  readonly dtype: DType;
  readonly dims: readonly (number | string)[];
}

/** A dense array, row-major. */
export interface Tensor {
  readonly data: Data;
  readonly dims: readonly number[];
}

/** Returns "float32[1, 3, 256, 256]". */
export function describe({ dtype, dims }: Pick<Value, "dtype" | "dims">): string {
  return `${dtype}[${dims.join(", ")}]`;
}

export function countOf(dims: readonly number[]): number {
  return dims.reduce((product, dim) => product * dim, 1);
}

export function bytesOf(dtype: DType, dims: readonly number[]): number {
  return countOf(dims) * ARRAYS[dtype].BYTES_PER_ELEMENT;
}

/** Returns an array of its own with the bytes of one. */
export function copyOf(dtype: DType, bytes: Uint8Array): Data {
  const { buffer } = new Uint8Array(bytes);
  return new ARRAYS[dtype](buffer);
}

/** Throws PalmError "shape" if the data is not of the type and size. */
export function check(name: string, dtype: DType, dims: readonly number[], given: unknown): Data {
  const expected = describe({ dtype, dims });
  if (!(given instanceof ARRAYS[dtype])) {
    const kind = Object.prototype.toString.call(given).slice(8, -1);
    throw new PalmError("shape", `input ${name}: expected ${expected}, got ${kind}`);
  }
  if (given.length !== countOf(dims)) {
    const got = `${given.length} numbers`;
    throw new PalmError("shape", `input ${name}: expected ${expected}, got ${got}`);
  }
  return given;
}
