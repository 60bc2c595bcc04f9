import { PalmError } from "../../engine/web/index.js";
import type { Releases } from "./releases.js";

/** How an effect's light falls; hair has none that shimmers. */
export type Finish = "matte" | "satin" | "gloss" | "shimmer";

/** One thing worn. */
export interface Effect {
  /** As "#a9142a". */
  readonly colour: string;
  /** 0 to 1, how far its region takes the colour; left out: 0.8. */
  readonly opacity?: number;
  /** Left out: "satin". */
  readonly finish?: Finish;
}

/** Effects worn together; for an effect stands also its colour. The JSON of Python's looks. */
export interface Look {
  readonly lipstick?: Effect | string;
  readonly hair?: Effect | string;
}

/** A look whose effects have all of their options. */
export type WholeLook = Readonly<Partial<Record<Worn, Required<Effect>>>>;

type Worn = "lipstick" | "hair";
const FINISHES: Readonly<Record<Worn, readonly string[]>> = {
  lipstick: ["matte", "satin", "gloss", "shimmer"],
  hair: ["matte", "satin", "gloss"],
};
const ELSEWHERE: readonly string[] = [
  ...["foundation", "blush", "eye_shadow", "eyeliner", "iris", "glasses"],
];
const OPTIONS: readonly string[] = ["colour", "opacity", "finish"];
const FORMAT = 1;

function refuse(what: string, expected: string, got: unknown): never {
  throw new PalmError("argument", `${what}: expected ${expected}, got ${JSON.stringify(got)}`);
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function readEffect(name: Worn, given: unknown): Required<Effect> {
  const options = typeof given === "string" ? { colour: given } : given;
  if (!isObject(options)) refuse(name, "a colour or options", given);
  const unknown = Object.keys(options).find((key) => !OPTIONS.includes(key));
  if (unknown !== undefined) refuse(name, `one of ${OPTIONS.join(", ")}`, unknown);
  const { colour, opacity = 0.8, finish = "satin" } = options;
  if (typeof colour !== "string" || !/^#[0-9a-f]{6}$/i.test(colour)) {
    refuse(name, "a colour like #b3202a", colour);
  }
  if (typeof opacity !== "number" || !(opacity >= 0 && opacity <= 1)) {
    refuse(`${name} opacity`, "0 to 1", opacity);
  }
  if (typeof finish !== "string" || !FINISHES[name].includes(finish)) {
    refuse(`${name} finish`, `one of ${FINISHES[name].join(", ")}`, finish);
  }
  return { colour: colour.toLowerCase(), opacity, finish: finish as Finish };
}

/**
 * Returns a look with all of its options: of an object, or of the JSON that Python's `Look.save`
 * writes.
 *
 * Throws PalmError "argument" for an option that cannot be, and "unsupported" for an effect that is
 * not worn here.
 */
export function readLook(given: unknown): WholeLook {
  if (!isObject(given)) refuse("look", "effects by their names", given);
  const { palmkit_look: format, ...effects } = given;
  if (format !== undefined && format !== FORMAT) refuse("palmkit_look", String(FORMAT), format);
  const look: Partial<Record<Worn, Required<Effect>>> = {};
  for (const [name, effect] of Object.entries(effects)) {
    if (ELSEWHERE.includes(name)) {
      throw new PalmError("unsupported", `look: ${name} is not worn in browsers: leave it out`);
    }
    if (name !== "lipstick" && name !== "hair") refuse("look", "lipstick or hair", name);
    if (effect !== undefined) look[name] = readEffect(name, effect);
  }
  return look;
}

/** Opens the newest release of a look that can be worn here. */
export async function loadLook(name: string, releases: Releases | undefined): Promise<WholeLook> {
  for (;;) {
    const content = await releases?.model(name);
    if (!releases || !content) {
      throw new PalmError("argument", `look: no release of the name ${name} is here`);
    }
    try {
      return readLook(JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(content)));
    } catch {
      await releases.failed(name);
    }
  }
}
