import { DeliveryError } from "./errors.js";

/** An answer without the file: `status` says why. */
export class HttpError extends DeliveryError {
  constructor(
    readonly status: number,
    url: string,
  ) {
    const code = status >= 500 ? "check_fail_http5xx" : "check_fail_http4xx";
    super(code, `${url}: HTTP ${status}`);
  }
}

/**
 * Fetches a file of at most so many bytes, past the browser's cache and without cookies.
 *
 * limitMs: for the wait until something comes; what comes may take as long as it takes. Throws
 * DeliveryError: HttpError, "check_fail_connect", "check_fail_timeout", "hash_mismatch" if it is
 * larger.
 */
export async function fetched(url: string, most: number, limitMs: number): Promise<Uint8Array> {
  const control = new AbortController();
  const begin = () => setTimeout(() => control.abort(), limitMs);
  let timer = begin();
  try {
    const response = await fetch(url, {
      cache: "no-store",
      credentials: "omit",
      referrerPolicy: "no-referrer",
      signal: control.signal,
    });
    if (!response.ok) throw new HttpError(response.status, url);
    const parts: Uint8Array[] = [];
    let size = 0;
    const reader = response.body?.getReader();
    while (reader) {
      const { done, value } = await reader.read();
      if (done) break;
      clearTimeout(timer);
      timer = begin();
      size += value.length;
      if (size > most) {
        throw new DeliveryError("hash_mismatch", `${url}: expected at most ${most} bytes`);
      }
      parts.push(value);
    }
    const all = new Uint8Array(size);
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  } catch (error) {
    if (error instanceof DeliveryError) throw error;
    const code = control.signal.aborted ? "check_fail_timeout" : "check_fail_connect";
    const said = control.signal.aborted ? `nothing came for ${limitMs} ms` : String(error);
    throw new DeliveryError(code, `${url}: ${said}`, { cause: error });
  } finally {
    clearTimeout(timer);
    control.abort();
  }
}
