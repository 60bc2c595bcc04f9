/** Versions and specifiers as PEP 440 has them, which releases and SDKs are compared by. */

const VERSION = new RegExp(
  [
    /^v?(?:(?<epoch>\d+)!)?(?<release>\d+(?:\.\d+)*)/,
    /(?:[-_.]?(?<pre>alpha|a|beta|b|preview|pre|c|rc)[-_.]?(?<preN>\d+)?)?/,
    /(?:-(?<postN1>\d+)|[-_.]?(?<post>post|rev|r)[-_.]?(?<postN2>\d+)?)?/,
    /(?:[-_.]?(?<dev>dev)[-_.]?(?<devN>\d+)?)?/,
    /(?:\+(?<local>[a-z0-9]+(?:[-_.][a-z0-9]+)*))?$/,
  ]
    .map(({ source }) => source)
    .join(""),
  "i",
);
const STAGES: Readonly<Record<string, number>> = {
  a: 0, alpha: 0, b: 1, beta: 1, c: 2, pre: 2, preview: 2, rc: 2,
};

interface Version {
  readonly epoch: number;
  readonly release: readonly number[];
  /** Which stage before the release, and its number. */
  readonly pre: readonly [number, number] | undefined;
  readonly post: number | undefined;
  readonly dev: number | undefined;
  readonly local: readonly (number | string)[];
}

function parse(text: string): Version | undefined {
  const found = VERSION.exec(text.trim())?.groups;
  if (!found) return undefined;
  const release = (found["release"] ?? "").split(".").map(Number);
  const isPost = found["post"] !== undefined || found["postN1"] !== undefined;
  const stage = STAGES[found["pre"]?.toLowerCase() ?? ""];
  const local = (found["local"] ?? "").toLowerCase().split(/[-_.]/).filter(Boolean);
  return {
    epoch: Number(found["epoch"] ?? 0),
    release,
    pre: stage === undefined ? undefined : [stage, Number(found["preN"] ?? 0)],
    post: isPost ? Number(found["postN1"] ?? found["postN2"] ?? 0) : undefined,
    dev: found["dev"] === undefined ? undefined : Number(found["devN"] ?? 0),
    local: local.map((part) => (/^\d+$/.test(part) ? Number(part) : part)),
  };
}

function compareNumbers(a: readonly number[], b: readonly number[]): number {
  for (let i = 0; i < Math.max(a.length, b.length); ++i) {
    const [x, y] = [a[i] ?? 0, b[i] ?? 0];
    if (x !== y) return x < y ? -1 : 1;
  }
  return 0;
}

function compareLocal(a: Version["local"], b: Version["local"]): number {
  for (let i = 0; i < Math.max(a.length, b.length); ++i) {
    const [x, y] = [a[i], b[i]];
    if (x === y) continue;
    if (x === undefined) return -1;
    if (y === undefined) return 1;
    if (typeof x !== typeof y) return typeof x === "number" ? 1 : -1;
    return x < y ? -1 : 1;
  }
  return 0;
}

/** Numbers that are compared in turn behind the release: 1.dev0 is before 1a0, 1 behind 1rc9. */
function stageOf({ pre, post, dev }: Version): number[] {
  const first = pre ?? (dev !== undefined && post === undefined ? [-1, 0] : [3, 0]);
  return [...first, post ?? -1, dev ?? Number.POSITIVE_INFINITY];
}

function comparePublic(a: Version, b: Version): number {
  return (
    Math.sign(a.epoch - b.epoch) ||
    compareNumbers(a.release, b.release) ||
    compareNumbers(stageOf(a), stageOf(b))
  );
}

/** Whether a text is a version. */
export function isVersion(text: string): boolean {
  return parse(text) !== undefined;
}

/** Below 0, 0 or above 0 as the first version is older, the same, or newer; NaN: one is none. */
export function compareVersions(first: string, second: string): number {
  const [a, b] = [parse(first), parse(second)];
  if (!a || !b) return Number.NaN;
  return comparePublic(a, b) || compareLocal(a.local, b.local);
}

function isPre({ pre, dev }: Version): boolean {
  return pre !== undefined || dev !== undefined;
}

function starts(version: Version, prefix: Version): boolean {
  return (
    version.epoch === prefix.epoch &&
    prefix.release.every((number, i) => number === (version.release[i] ?? 0))
  );
}

function isOne(version: Version, operator: string, text: string): boolean {
  if (text.endsWith(".*")) {
    const prefix = parse(text.slice(0, -2));
    if (!prefix || !/^[=!]=$/.test(operator)) return false;
    return starts(version, prefix) === (operator === "==");
  }
  const other = parse(text);
  if (!other) return false;
  const order = comparePublic(version, other);
  switch (operator) {
    case "==":
      return order === 0 && (!other.local.length || !compareLocal(version.local, other.local));
    case "!=":
      return order !== 0 || (other.local.length > 0 && compareLocal(version.local, other.local) !== 0);
    case "<=":
      return order <= 0;
    case ">=":
      return order >= 0;
    case "<":
      // Not what comes before the very version.
      return comparePublic(version, isPre(other) ? other : { ...other, dev: 0 }) < 0;
    case ">":
      // Nor what comes after it.
      if (other.dev !== undefined || other.post === undefined) {
        const { post, dev } = other;
        const isAfter = comparePublic({ ...version, post, dev }, other) === 0;
        return order > 0 && !(dev === undefined && isAfter);
      }
      return comparePublic(version, { ...other, post: other.post + 1, dev: 0 }) >= 0;
    case "~=": {
      if (other.release.length < 2) return false;
      const prefix = { ...other, release: other.release.slice(0, -1) };
      return order >= 0 && starts(version, prefix);
    }
    default:
      return false;
  }
}

/** Whether a version matches a specifier like ">=0.1,<2"; false if either is none. */
export function fits(specifier: string, version: string): boolean {
  const parsed = parse(version);
  if (!parsed) return false;
  return specifier
    .split(",")
    .map((part) => part.trim())
    .filter(Boolean)
    .every((part) => {
      const found = /^(~=|==|!=|<=|>=|<|>)\s*(\S+)$/.exec(part);
      return found !== null && isOne(parsed, found[1] ?? "", found[2] ?? "");
    });
}
