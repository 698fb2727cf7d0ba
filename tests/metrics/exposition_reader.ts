// The text format of Prometheus, version 0.0.4, read as strictly as its page has it, and the
// conventions that promtool checks: for machines without promtool.

import { assert } from "@std/assert";

export interface Line {
  readonly name: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly value: number;
}

/** The lines of one family. */
export interface ReadFamily {
  readonly name: string;
  readonly type: string;
  readonly help: string;
  readonly lines: readonly Line[];
}

const SAMPLE = /^([a-zA-Z_:][\w:]*)(?:\{((?:[a-zA-Z_]\w*="(?:[^"\\\n]|\\["\\n])*",?)*)\})? (\S+)$/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\\n]|\\["\\n])*)"/g;
const VALUE = /^(?:[+-]Inf|NaN|-?\d+(?:\.\d+)?(?:e[+-]\d+)?)$/;
const BASE_UNITS = /(?:_seconds|_bytes|_total|_info|[a-z])$/;
const OTHER_UNITS = /_(?:ms|milliseconds|minutes|hours|kb|mb|kib|mib|percent)(?:_|$)/;

/** Reads a whole text. @throws whatever is against the format or the conventions */
export function readExposition(text: string): ReadFamily[] {
  assert(text.endsWith("\n"), "the last line has no end");
  const families: (ReadFamily & { lines: Line[] })[] = [];
  let help: { name: string; text: string } | undefined;
  for (const line of text.slice(0, -1).split("\n")) {
    const [, kind, name = "", rest = ""] = /^# (HELP|TYPE) (\S+) (.+)$/.exec(line) ?? [];
    if (kind === "HELP") help = { name, text: rest };
    else if (kind === "TYPE") {
      assert(help?.name === name, `${name} has no help before its type`);
      assert(families.every((one) => one.name !== name), `${name} is there twice`);
      families.push({ name, type: rest, help: help.text, lines: [] });
    } else {
      const family = families.at(-1);
      assert(family !== undefined, `no family before ${line}`);
      family.lines.push(readLine(line));
    }
  }
  families.forEach(keepRules);
  return families;
}

function readLine(line: string): Line {
  const [, name = "", labels = "", value = ""] = SAMPLE.exec(line) ?? [];
  assert(name !== "" && VALUE.test(value), `not a sample: ${line}`);
  const pairs = Array.from(labels.matchAll(LABEL), ([, key = "", text = ""]) => [key, text]);
  return { name, labels: Object.fromEntries(pairs), value: numberOf(value) };
}

function numberOf(text: string): number {
  return text.endsWith("Inf") ? Number(text.replace("Inf", "Infinity")) : Number(text);
}

function keepRules({ name, type, lines }: ReadFamily): void {
  assert(/^zonewright_[a-z_]+$/.test(name), `${name} has not our prefix`);
  assert(BASE_UNITS.test(name) && !OTHER_UNITS.test(name), `${name} has no base unit`);
  assert((type === "counter") === name.endsWith("_total"), `${name} is a ${type}`);
  const seen = new Set<string>();
  for (const line of lines) {
    const key = `${line.name} ${JSON.stringify(line.labels)}`;
    assert(!seen.has(key), `${key} is there twice`);
    seen.add(key);
    const suffix = line.name.slice(name.length);
    assert(line.name.startsWith(name), `${line.name} stands below ${name}`);
    const suffixes = type === "histogram" ? ["_bucket", "_sum", "_count"] : [""];
    assert(suffixes.includes(suffix), `${line.name} is no part of a ${type}`);
  }
  if (type === "histogram") keepBuckets(name, lines);
}

/** Buckets rise to +Inf, which is the count. */
function keepBuckets(name: string, lines: readonly Line[]): void {
  const without = ({ labels: { le: _le, ...labels } }: Line) => JSON.stringify(labels);
  for (const labels of new Set(lines.map(without))) {
    const of = lines.filter((line) => without(line) === labels);
    const buckets = of.filter((line) => line.name === `${name}_bucket`);
    const bounds = buckets.map((line) => numberOf(line.labels.le ?? "missing"));
    assert(bounds.at(-1) === Number.POSITIVE_INFINITY, `${name} ends below +Inf`);
    for (const [at, bucket] of buckets.entries()) {
      const before = buckets[at - 1];
      if (before === undefined) continue;
      assert((bounds[at] ?? 0) > (bounds[at - 1] ?? 0), `bounds of ${name} do not rise`);
      assert(bucket.value >= before.value, `buckets of ${name} fall`);
    }
    const count = of.find((line) => line.name === `${name}_count`);
    assert(count?.value === buckets.at(-1)?.value, `count of ${name} is not its last bucket`);
  }
}

/** The value of one series; undefined when there is none. */
export function valueOf(
  families: readonly ReadFamily[],
  name: string,
  labels: Readonly<Record<string, string>> = {},
): number | undefined {
  return families.flatMap(({ lines }) => lines).find((line) =>
    line.name === `zonewright_${name}` &&
    Object.keys(line.labels).length === Object.keys(labels).length &&
    Object.entries(labels).every(([key, text]) => line.labels[key] === text)
  )?.value;
}
