import { type Json, Fields, canonical } from "./documents.js";
import { DeliveryError } from "./errors.js";
import { isSigned, sha256, toHex } from "./keys.js";

export type Top = "root" | "timestamp" | "snapshot" | "targets";

/** Which keys sign a role, and how many of them must. */
export interface Authority {
  readonly keyids: readonly string[];
  readonly threshold: number;
  readonly keys: Fields;
}

/** What a document says of a file: its size in bytes, and digests by their names. */
export interface Described {
  readonly length?: number;
  readonly hashes: ReadonlyMap<string, string>;
}

/** A role's metadata that the role's keys have signed. */
export interface Signed {
  readonly version: number;
  readonly expiresMs: number;
  readonly fields: Fields;
}

const DIGESTS: Readonly<Record<string, string>> = { sha256: "SHA-256", sha512: "SHA-512" };
const TIME = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/;

/** Returns milliseconds since 1970 of a time like 2026-01-31T12:00:00Z; NaN where it is none. */
export function timeMs(text: string): number {
  return TIME.test(text) ? Date.parse(text) : Number.NaN;
}

/** The keys of a role by a document that delegates to it. */
export function authority(document: Fields, role: Fields): Authority {
  return {
    keyids: role.texts("keyids"),
    threshold: role.whole("threshold", 1),
    keys: document.object("keys"),
  };
}

/** Throws DeliveryError "sig_fail" unless enough of a role's keys have signed a document. */
async function verify(document: Fields, signed: Json, by: Authority, where: string): Promise<void> {
  const message = new TextEncoder().encode(canonical(signed));
  const signatures = new Map<string, string>();
  for (const each of document.objects("signatures")) {
    const keyid = each.text("keyid");
    if (signatures.has(keyid)) throw each.refuse("keyid", "one signature of each key");
    signatures.set(keyid, each.text("sig"));
  }
  let count = 0;
  for (const keyid of new Set(by.keyids)) {
    const signature = signatures.get(keyid);
    if (signature === undefined || !by.keys.has(keyid)) continue;
    if (await isSigned(by.keys.object(keyid), signature, message)) ++count;
  }
  if (count < by.threshold) {
    throw new DeliveryError(
      "sig_fail",
      `${where}: signed by ${count} of its keys, expected ${by.threshold}`,
    );
  }
}

/**
 * Reads a role's metadata. Throws DeliveryError "sig_fail" unless all these authorities, or the one
 * that a root is itself, have signed it.
 */
export async function read(
  content: Uint8Array,
  type: Top,
  where: string,
  authorities: readonly Authority[],
): Promise<Signed> {
  const document = Fields.parse(content, where, "sig_fail");
  const fields = document.object("signed");
  if (fields.text("_type") !== type) throw fields.refuse("_type", `"${type}"`);
  if (!/^1\.\d+(\.\d+)?$/.test(fields.text("spec_version"))) {
    throw fields.refuse("spec_version", "1.x");
  }
  const expiresMs = timeMs(fields.text("expires"));
  if (!Number.isFinite(expiresMs)) throw fields.refuse("expires", "a time");
  const own = type === "root" ? [authorityOf(fields, "root")] : [];
  for (const by of [...authorities, ...own]) await verify(document, fields.json, by, where);
  return { version: fields.whole("version", 1), expiresMs, fields };
}

/** The keys of a top-level role. */
export function authorityOf(root: Fields, role: Top): Authority {
  return authority(root, root.object("roles").object(role));
}

/** Reads what a document says of a file. */
export function described(fields: Fields): Described {
  const hashes = new Map<string, string>();
  if (fields.has("hashes")) {
    const given = fields.object("hashes");
    for (const name of given.names()) hashes.set(name, given.text(name));
  }
  return { hashes, ...(fields.has("length") && { length: fields.whole("length", 0) }) };
}

/** Throws DeliveryError "hash_mismatch" unless the content is what was described. */
export async function check(content: Uint8Array, known: Described, where: string): Promise<void> {
  if (known.length !== undefined && content.length !== known.length) {
    throw new DeliveryError(
      "hash_mismatch",
      `${where}: expected ${known.length} bytes, got ${content.length}`,
    );
  }
  for (const [name, wanted] of known.hashes) {
    const digest = Object.hasOwn(DIGESTS, name) && DIGESTS[name];
    if (!digest) throw new DeliveryError("hash_mismatch", `${where}: unknown digest ${name}`);
    const found = await crypto.subtle.digest(digest, content as Uint8Array<ArrayBuffer>);
    if (toHex(found) !== wanted.toLowerCase()) {
      throw new DeliveryError("hash_mismatch", `${where}: its ${name} is another`);
    }
  }
}

/** Turns a shell pattern, as of delegations, into an expression for one part of a path. */
function expressionOf(pattern: string): RegExp {
  let text = "";
  for (let i = 0; i < pattern.length; ++i) {
    const letter = pattern.charAt(i);
    const end = letter === "[" ? pattern.indexOf("]", i + 2) : -1;
    if (letter === "*") text += ".*";
    else if (letter === "?") text += ".";
    else if (end > 0) {
      const inside = pattern.slice(i + 1, end).replace(/[\\[\]^]/g, "\\$&");
      text += inside.startsWith("!") ? `[^${inside.slice(1)}]` : `[${inside}]`;
      i = end;
    } else text += letter.replace(/[$()*+.?[\\\]^{|}/-]/g, "\\$&");
  }
  return new RegExp(`^(?:${text})$`, "su");
}

function matches(path: string, pattern: string): boolean {
  const [parts, patterns] = [path.split("/"), pattern.split("/")];
  return (
    parts.length === patterns.length &&
    parts.every((part, i) => expressionOf(patterns[i] ?? "").test(part))
  );
}

/** A role that targets delegate to. */
export interface Delegated extends Authority {
  readonly name: string;
  readonly terminating: boolean;
}

/** The roles that may sign a target, in the order in which they are asked. */
export async function delegatedFor(targets: Fields, path: string): Promise<Delegated[]> {
  if (!targets.has("delegations")) return [];
  const delegations = targets.object("delegations");
  const digest = await sha256(new TextEncoder().encode(path));
  if (delegations.has("succinct_roles")) {
    const bins = delegations.object("succinct_roles");
    const bits = bins.whole("bit_length", 1, 32);
    const bin = Number.parseInt(digest.slice(0, 8), 16) >>> (32 - bits);
    const digits = (2 ** bits - 1).toString(16).length;
    const name = `${bins.text("name_prefix")}-${bin.toString(16).padStart(digits, "0")}`;
    return [{ ...authority(delegations, bins), name, terminating: true }];
  }
  const found: Delegated[] = [];
  for (const role of delegations.objects("roles")) {
    const isFor = role.has("paths")
      ? role.texts("paths").some((pattern) => matches(path, pattern))
      : role.texts("path_hash_prefixes").some((prefix) => digest.startsWith(prefix));
    if (!isFor) continue;
    found.push({
      ...authority(delegations, role),
      name: role.text("name"),
      terminating: role.flag("terminating"),
    });
  }
  return found;
}
