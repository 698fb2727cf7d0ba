// Writes metrics in the text format of Prometheus, histograms included. There is no client library: it takes tens of
// milliseconds to load, and nothing else of it would be used.

/** Names and values of labels, in the order in which they are shown. */
type Labels = Readonly<Record<string, string>>;

/** One line: a value under a name and labels. */
interface Sample {
  /** What follows the name of the family: `_sum`, `_count`, `_bucket`; nothing unless given. */
  readonly suffix?: string;
  readonly labels?: Labels;
  readonly value: number;
}

/** Samples of one name, with its meaning. */
export interface Family {
  readonly name: string;
  readonly type: "counter" | "gauge" | "histogram";
  /** The text of `# HELP`: one sentence. */
  readonly help: string;
  readonly samples: readonly Sample[];
}

/** The media type of the text. */
export const EXPOSITION_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** The text of GET /metrics. @see https://prometheus.io/docs/instrumenting/exposition_formats/ */
export function expositionText(families: readonly Family[]): string {
  const lines = families.flatMap(({ name, type, help, samples }) => [
    `# HELP ${name} ${help.replaceAll("\\", "\\\\").replaceAll("\n", "\\n")}`,
    `# TYPE ${name} ${type}`,
    ...samples.map((sample) => sampleLine(name, sample)),
  ]);
  return lines.map((line) => `${line}\n`).join("");
}

function sampleLine(name: string, { suffix = "", labels = {}, value }: Sample): string {
  const pairs = Object.entries(labels).map(([label, text]) => `${label}="${escaped(text)}"`);
  const named = pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
  return `${name}${suffix}${named} ${valueText(value)}`;
}

function escaped(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("\n", "\\n");
}

/** A value, or the bound of a bucket, as the format spells it. */
function valueText(value: number): string {
  if (value === Number.POSITIVE_INFINITY) return "+Inf";
  return value === Number.NEGATIVE_INFINITY ? "-Inf" : String(value);
}

/** Counts durations by upper bound, as Prometheus wants them. */
export class Histogram {
  readonly #bounds: readonly number[];
  /** One more than there are bounds: the last is of what lies above all. */
  readonly #counts: Float64Array;
  #sum = 0;

  /** @param bounds upper bounds in seconds, rising; each holds what equals it */
  constructor(bounds: readonly number[]) {
    this.#bounds = bounds;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(seconds: number): void {
    const bounds = this.#bounds;
    let at = 0;
    while (at < bounds.length && seconds > (bounds[at] as number)) at += 1;
    this.#counts[at] = (this.#counts[at] as number) + 1;
    this.#sum += seconds;
  }

  /** Buckets, which count everything below their bound, then sum and count. */
  samples(labels: Labels = {}): Sample[] {
    let count = 0;
    const buckets = Array.from(this.#counts, (here, at) => {
      count += here;
      const le = valueText(this.#bounds[at] ?? Number.POSITIVE_INFINITY);
      return { suffix: "_bucket", labels: { ...labels, le }, value: count };
    });
    return [
      ...buckets,
      { suffix: "_sum", labels, value: this.#sum },
      { suffix: "_count", labels, value: count },
    ];
  }
}
