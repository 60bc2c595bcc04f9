import { PalmError } from "../../engine/web/index.js";
import type { Fields } from "./documents.js";

type Bytes = Uint8Array<ArrayBuffer>;

/** The bytes of a text in hexadecimal digits; undefined where it is none. */
export function fromHex(text: string): Bytes | undefined {
  if (text.length % 2 || /[^0-9a-fA-F]/.test(text)) return undefined;
  return Uint8Array.from({ length: text.length / 2 }, (_, i) =>
    Number.parseInt(text.slice(2 * i, 2 * i + 2), 16),
  );
}

export function toHex(bytes: ArrayBuffer | Uint8Array): string {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

export async function sha256(bytes: Uint8Array): Promise<string> {
  return toHex(await crypto.subtle.digest("SHA-256", bytes as Bytes));
}

/** DER of what a PEM document holds. */
function fromPem(text: string): Bytes {
  const base64 = text.replace(/-----[A-Z ]+-----/g, "").replace(/\s/g, "");
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

/** ECDSA's two numbers of `bytes` each, from DER; undefined where it is no signature. */
function fromDer(signature: Uint8Array, bytes: number): Bytes | undefined {
  const raw = new Uint8Array(2 * bytes);
  if (signature[0] !== 0x30 || signature[1] !== signature.length - 2) return undefined;
  let at = 2;
  for (const end of [bytes, 2 * bytes]) {
    const length = signature[at + 1] ?? 0;
    if (signature[at] !== 0x02 || !length || at + 2 + length > signature.length) return undefined;
    let number = signature.subarray(at + 2, at + 2 + length);
    while (number.length > 1 && number[0] === 0) number = number.subarray(1);
    if (number.length > bytes) return undefined;
    raw.set(number, end - number.length);
    at += 2 + length;
  }
  return at === signature.length ? raw : undefined;
}

/** By TUF's name of a scheme: how WebCrypto imports its keys and verifies. */
const SCHEMES = {
  ed25519: { keys: { name: "Ed25519" }, verify: { name: "Ed25519" } },
  "ecdsa-sha2-nistp256": {
    keys: { name: "ECDSA", namedCurve: "P-256" },
    verify: { name: "ECDSA", hash: "SHA-256" },
    bytes: 32,
  },
  "ecdsa-sha2-nistp384": {
    keys: { name: "ECDSA", namedCurve: "P-384" },
    verify: { name: "ECDSA", hash: "SHA-384" },
    bytes: 48,
  },
  "rsassa-pss-sha256": {
    keys: { name: "RSA-PSS", hash: "SHA-256" },
    verify: { name: "RSA-PSS", saltLength: 32 },
  },
} as const;

/**
 * Whether a key has signed a message; false as well where the key is none, or of another scheme.
 *
 * Throws PalmError "unsupported" where the browser cannot tell.
 */
export async function isSigned(key: Fields, signature: string, message: Bytes): Promise<boolean> {
  const name = key.text("scheme") as keyof typeof SCHEMES;
  if (!Object.hasOwn(SCHEMES, name)) return false;
  const scheme = SCHEMES[name];
  const text = key.object("keyval").text("public");
  try {
    const given = fromHex(signature);
    const bytes = given && "bytes" in scheme ? fromDer(given, scheme.bytes) : given;
    const material = name === "ed25519" ? fromHex(text) : fromPem(text);
    if (!bytes || !material) return false;
    const form = name === "ed25519" ? "raw" : "spki";
    const imported = await crypto.subtle.importKey(form, material, scheme.keys, false, ["verify"]);
    return await crypto.subtle.verify(scheme.verify, imported, bytes, message);
  } catch (error) {
    if (error instanceof DOMException && error.name === "NotSupportedError") {
      const expected = "Chrome 137, Firefox 129, Safari 17 or newer";
      throw new PalmError("unsupported", `this browser verifies no ${name}: expected ${expected}`, {
        cause: error,
      });
    }
    // What browsers throw for keys and signatures that are none.
    if (error instanceof Error) return false;
    throw error;
  }
}
