/** The runtime of PalmKit in WebAssembly: opens `.palm` files and runs them. */
export { type ErrorKind, PalmError } from "./errors.js";
export { type LoadOptions, type Model, load } from "./model.js";
export type { Build, Builds } from "./modules.js";
export { type Data, type DType, type Tensor, type Value, describe } from "./values.js";
