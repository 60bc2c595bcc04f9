import { type Json, Fields } from "./documents.js";
import { DeliveryError } from "./errors.js";
import { toHex } from "./keys.js";
import { compareVersions, fits, isVersion } from "./versions.js";

export const MODEL = /^[a-z][a-z0-9_]{0,63}$/;
const RELEASE = /^[0-9A-Za-z][0-9A-Za-z.!+-]{0,63}$/;
const FILE = /^[0-9A-Za-z][0-9A-Za-z._+-]{0,127}$/;
const SHA256 = /^[0-9a-f]{64}$/;
const MOST_FILE_BYTES = 2 ** 32;

/** A release's main file: its size in bytes, and the digest that is its name where it is kept. */
export interface Manifest {
  readonly model: string;
  readonly release: string;
  readonly main: { readonly name: string; readonly size: number; readonly sha256: string };
  /** Digests of all its files. */
  readonly digests: readonly string[];
  readonly palmFormat: number;
  readonly sdk: string;
  readonly isEncrypted: boolean;
}

export interface Candidate {
  readonly release: string;
  readonly percent: number;
  readonly salt: string;
  readonly halt: boolean;
  readonly recall: boolean;
  readonly when: readonly { readonly fact: string; readonly test: string; readonly value: Json }[];
}

/** What is to run where; see palmkit.delivery.policy. */
export interface Policy {
  readonly model: string;
  readonly epoch: number;
  readonly channels: ReadonlyMap<string, readonly Candidate[]>;
  readonly floor: string | undefined;
  readonly revoked: ReadonlySet<string>;
  readonly retryEpoch: number;
  readonly nextCheckS: number;
}

/** Facts of this device, for conditions. */
export type Facts = Readonly<Record<string, string | number | readonly string[] | undefined>>;

function ofFirstSchema(fields: Fields): Fields {
  if (fields.whole("schema", 1) !== 1) throw fields.refuse("schema", "1, or a newer palmkit");
  return fields;
}

function version(fields: Fields, name: string): string {
  const text = fields.text(name, RELEASE);
  if (!isVersion(text)) throw fields.refuse(name, "a version like 1.2.0");
  return text;
}

/** Reads a manifest. Throws DeliveryError "manifest_invalid". */
export function manifestOf(content: Uint8Array): Manifest {
  const fields = ofFirstSchema(Fields.parse(content, "manifest", "manifest_invalid"));
  const files = fields.objects("files", 64).map((file) => ({
    name: file.text("name", FILE),
    size: file.whole("size", 0, MOST_FILE_BYTES),
    sha256: file.text("sha256", SHA256),
    isEncrypted: file.has("encryption"),
  }));
  const name = fields.text("main", FILE);
  const main = files.find((file) => file.name === name);
  if (!main) throw fields.refuse("main", "one of its files");
  const needs = fields.object("needs");
  return {
    model: fields.text("model", MODEL),
    release: version(fields, "release"),
    main,
    digests: files.map((file) => file.sha256),
    palmFormat: needs.whole("palm_format", 1),
    sdk: needs.text("sdk"),
    isEncrypted: main.isEncrypted,
  };
}

/** Reads a policy. Throws DeliveryError "policy_invalid". */
export function policyOf(content: Uint8Array): Policy {
  const fields = ofFirstSchema(Fields.parse(content, "policy", "policy_invalid"));
  const channels = fields.object("channels");
  return {
    model: fields.text("model", MODEL),
    epoch: fields.whole("epoch", 0),
    channels: new Map(
      channels.names().map((name) => [name, channels.objects(name, 64).map(candidateOf)]),
    ),
    floor: fields.has("floor") ? version(fields, "floor") : undefined,
    revoked: new Set(fields.texts("revoked")),
    retryEpoch: fields.whole("retry_epoch", 0),
    nextCheckS: fields.number("next_check_s", 60, 30 * 86400),
  };
}

function candidateOf(fields: Fields): Candidate {
  return {
    release: version(fields, "release"),
    percent: fields.number("percent", 0, 100),
    salt: fields.text("salt", undefined, 256),
    halt: fields.flag("halt"),
    recall: fields.flag("recall"),
    when: fields.objects("when", 64).map((each) => ({
      fact: each.text("fact"),
      test: each.text("test"),
      value: each.value("value") ?? null,
    })),
  };
}

/** This device's place, 0 to below 1, in a release's rollout: uniform and permanent. */
export async function bucket(
  seed: Uint8Array,
  model: string,
  release: string,
  salt: string,
): Promise<number> {
  const by = { name: "HMAC", hash: "SHA-256" };
  const key = await crypto.subtle.importKey("raw", seed as Uint8Array<ArrayBuffer>, by, false, ["sign"]);
  const message = new TextEncoder().encode(`${model}|${release}|${salt}`);
  const digest = await crypto.subtle.sign("HMAC", key, message);
  return Number(BigInt(`0x${toHex(digest.slice(0, 8))}`)) / 2 ** 64;
}

function holds({ fact, test, value }: Candidate["when"][number], facts: Facts): boolean {
  const known = Object.hasOwn(facts, fact) ? facts[fact] : undefined;
  if (fact === "sdk" && test === "in") {
    return typeof known === "string" && typeof value === "string" && fits(value, known);
  }
  if (test === "in") {
    return Array.isArray(value) && !Array.isArray(known) && value.includes(known as Json);
  }
  if (test === "has") {
    return (
      Array.isArray(value) &&
      Array.isArray(known) &&
      value.every((one) => typeof one === "string" && known.includes(one))
    );
  }
  if (typeof known !== "number" || typeof value !== "number") return false;
  return test === "at_least" ? known >= value : test === "at_most" && known <= value;
}

/** Whether a release is neither revoked by its name nor below the floor. */
export function isAllowed(policy: Policy, release: string): boolean {
  if (!isVersion(release) || policy.revoked.has(release)) return false;
  return policy.floor === undefined || compareVersions(release, policy.floor) >= 0;
}

/** Whether a release is revoked by the digest of its manifest or of a file. */
export function isForbidden(policy: Policy, digests: readonly string[]): boolean {
  return digests.some((each) => policy.revoked.has(each));
}

/**
 * Returns the first candidate of a channel that this device is to run; undefined: nothing new.
 *
 * installed: the release that runs here now. canRun: whether a release fits and has not failed here.
 * Throws DeliveryError "policy_invalid" if there is no such channel.
 */
export async function choose(
  policy: Policy,
  channel: string,
  facts: Facts,
  seed: Uint8Array,
  installed: string | undefined,
  canRun: (release: string) => Promise<boolean>,
): Promise<Candidate | undefined> {
  const candidates = policy.channels.get(channel);
  if (!candidates) {
    const known = [...policy.channels.keys()].sort().join(", ") || "none";
    throw new DeliveryError("policy_invalid", `no channel "${channel}", those there are: ${known}`);
  }
  for (const candidate of candidates) {
    const { release, salt, percent, halt, recall, when } = candidate;
    if (recall || !isAllowed(policy, release)) continue;
    if (!when.every((condition) => holds(condition, facts))) continue;
    if (release !== installed) {
      if (halt || (await bucket(seed, policy.model, release, salt)) >= percent / 100) continue;
    }
    if (await canRun(release)) return candidate;
  }
  return undefined;
}
