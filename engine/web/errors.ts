/** Who has to act, as in palm.h, and what a browser may lack. */
export type ErrorKind =
  | "model" // the file cannot be read, is no model, or is damaged
  | "shape" // an input of another type or size than the model has
  | "unsupported" // the file or the call asks for what this library has not
  | "backend" // the machine: no memory, or threads that failed
  | "argument" // an option that no call may have
  | "interrupted" // the caller ended it
  | "simd" // the browser has no SIMD in WebAssembly
  | "download" // a file did not arrive
  | "delivery" // a release that cannot be fetched or believed
  | "image"; // a picture that cannot be read

/** Every error of this library that a caller can act on: `message` is one line that says how. */
export class PalmError extends Error {
  override readonly name = "PalmError";

  constructor(
    readonly kind: ErrorKind,
    message: string,
    options?: ErrorOptions,
  ) {
    super(message, options);
  }
}

/** The kinds by the statuses of palm.h. */
const STATUSES: readonly ErrorKind[] = [
  "backend",
  "model",
  "shape",
  "unsupported",
  "backend",
  "argument",
  "interrupted",
];

/** Returns the kind of a status of palm.h. */
export function kindOf(status: number): ErrorKind {
  return STATUSES[status] ?? "backend";
}
