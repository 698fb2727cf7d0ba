// Spans of time as people write them.

const UNIT_SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 } as const;

/** Seconds of a text such as `90`, `90s`, `10m`, `6h` or `7d`, or undefined when it is none. */
export function durationSeconds(text: string): number | undefined {
  const match = /^(\d{1,12})([smhd]?)$/.exec(text);
  if (match === null) return undefined;
  const unit = match[2] as keyof typeof UNIT_SECONDS | "";
  return Number(match[1]) * (unit === "" ? 1 : UNIT_SECONDS[unit]);
}
