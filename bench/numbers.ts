// Measurements of several rounds: quantiles, and how they are printed.

export interface Spread {
  readonly min: number;
  readonly median: number;
  readonly max: number;
}

/** The value below which `share` of the values lie; the values need not be sorted. */
export function quantile(values: ArrayLike<number>, share: number): number {
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.round((sorted.length - 1) * share)] ?? NaN;
}

export function spread(values: readonly number[]): Spread {
  return { min: quantile(values, 0), median: quantile(values, 0.5), max: quantile(values, 1) };
}

/** With as many decimals as three digits need, and at most two. */
export function figure(value: number): string {
  if (!Number.isFinite(value)) return "-";
  const whole = Math.abs(value);
  const decimals = whole >= 100 || Number.isInteger(value) ? 0 : whole >= 10 ? 1 : 2;
  const [units = "", rest] = value.toFixed(decimals).split(".");
  const grouped = units.replace(/\B(?=(\d{3})+$)/g, ",");
  return rest === undefined ? grouped : `${grouped}.${rest}`;
}

export function spreadText({ min, median, max }: Spread): string {
  return [min, median, max].map(figure).join(" / ");
}

/** Lines of a table whose columns are as wide as they need; the first is text, the rest measurements. */
export function tableLines(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [column, cell] of row.entries()) {
      widths[column] = Math.max(widths[column] ?? 0, cell.length);
    }
  }
  return rows.map((row) =>
    row.map((cell, column) =>
      column === 0 ? cell.padEnd(widths[column] ?? 0) : cell.padStart(widths[column] ?? 0)
    ).join("  ").trimEnd()
  );
}
