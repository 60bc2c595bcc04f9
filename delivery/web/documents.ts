import { type Code, DeliveryError } from "./errors.js";

/** What JSON can say. */
export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };

const MOST_SHOWN = 80;

/** A JSON object whose fields are read by name and kind; unknown fields are ignored. */
export class Fields {
  readonly #values: Readonly<Record<string, Json>>;

  /** where: what it is, for messages. Throws DeliveryError with `code`, as all methods do. */
  constructor(
    value: Json | undefined,
    readonly where: string,
    private readonly code: Code,
  ) {
    if (typeof value !== "object" || value === null || Array.isArray(value)) {
      throw this.#error(where, "an object", value);
    }
    this.#values = value as Readonly<Record<string, Json>>;
  }

  /** Reads a document: UTF-8 and JSON. */
  static parse(content: Uint8Array, where: string, code: Code): Fields {
    let value: Json;
    try {
      value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(content));
    } catch (error) {
      throw new DeliveryError(code, `${where}: not JSON`, { cause: error });
    }
    return new Fields(value, where, code);
  }

  #error(where: string, expected: string, got: Json | undefined): DeliveryError {
    const text = got === undefined ? "nothing" : JSON.stringify(got);
    const shown = text.length > MOST_SHOWN ? `${text.slice(0, MOST_SHOWN - 3)}...` : text;
    return new DeliveryError(this.code, `${where}: expected ${expected}, got ${shown}`);
  }

  /** The error that says that a field is not what was expected. */
  refuse(name: string, expected: string): DeliveryError {
    return this.#error(`${this.where}: ${name}`, expected, this.value(name));
  }

  value(name: string): Json | undefined {
    return Object.hasOwn(this.#values, name) ? this.#values[name] : undefined;
  }

  names(): string[] {
    return Object.keys(this.#values);
  }

  /** Whether the field is there and not null. */
  has(name: string): boolean {
    return (this.value(name) ?? null) !== null;
  }

  text(name: string, kind?: RegExp, most = 1 << 16): string {
    const value = this.value(name);
    if (typeof value !== "string" || value.length > most || (kind && !kind.test(value))) {
      throw this.refuse(name, kind ? `a text like ${kind.source}` : `a text of at most ${most}`);
    }
    return value;
  }

  whole(name: string, least: number, most = Number.MAX_SAFE_INTEGER): number {
    const value = this.value(name);
    if (!Number.isSafeInteger(value) || Number(value) < least || Number(value) > most) {
      throw this.refuse(name, `a whole number from ${least} to ${most}`);
    }
    return Number(value);
  }

  number(name: string, least: number, most: number): number {
    const value = this.value(name);
    if (typeof value !== "number" || !(value >= least && value <= most)) {
      throw this.refuse(name, `a number from ${least} to ${most}`);
    }
    return value;
  }

  flag(name: string): boolean {
    const value = this.value(name);
    if (typeof value !== "boolean") throw this.refuse(name, "true or false");
    return value;
  }

  object(name: string): Fields {
    return new Fields(this.value(name), `${this.where}: ${name}`, this.code);
  }

  objects(name: string, most = 1000): Fields[] {
    return this.#list(name, most).map(
      (value, i) => new Fields(value, `${this.where}: ${name}[${i}]`, this.code),
    );
  }

  texts(name: string, most = 10000): string[] {
    return this.#list(name, most).map((value, i) => {
      if (typeof value !== "string") throw this.refuse(`${name}[${i}]`, "a text");
      return value;
    });
  }

  #list(name: string, most: number): readonly Json[] {
    const value = this.value(name);
    if (!Array.isArray(value) || value.length > most) {
      throw this.refuse(name, `a list of at most ${most}`);
    }
    return value as readonly Json[];
  }

  /** The object as it was read. */
  get json(): Json {
    return this.#values;
  }
}

/** By code points, as Python sorts texts. */
function byCodePoints(a: string, b: string): number {
  const [first, second] = [[...a], [...b]];
  for (const [i, letter] of first.entries()) {
    const other = second[i];
    if (other === undefined) return 1;
    if (letter !== other) return (letter.codePointAt(0) ?? 0) - (other.codePointAt(0) ?? 0);
  }
  return first.length - second.length;
}

/**
 * Returns canonical JSON, which is what is signed (OLPC's).
 *
 * Throws DeliveryError "sig_fail" for a number that is not whole, which has none.
 */
export function canonical(value: Json): string {
  if (typeof value === "string") return `"${value.replace(/[\\"]/g, "\\$&")}"`;
  if (typeof value === "number") {
    if (Number.isSafeInteger(value)) return `${value}`;
    throw new DeliveryError("sig_fail", `metadata: ${value} has no canonical form`);
  }
  if (value === null || typeof value === "boolean") return `${value}`;
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  const entries = value as { readonly [name: string]: Json };
  const names = Object.keys(entries).sort(byCodePoints);
  return `{${names.map((name) => `${canonical(name)}:${canonical(entries[name] ?? null)}`).join(",")}}`;
}
