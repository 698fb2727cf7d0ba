import { assertEquals } from "@std/assert";
import fc from "fast-check";
import { instantAfter, instantOf, msBetween } from "../../src/domain/instant.ts";

Deno.test("instantOf() reads every form of ISO 8601 that names one instant", () => {
  const cases: [string, string][] = [
    ["2026-01-31", "2026-01-31T00:00:00.000Z"],
    ["2026-01-31T18:30Z", "2026-01-31T18:30:00.000Z"],
    ["2026-01-31T18:30:15Z", "2026-01-31T18:30:15.000Z"],
    ["2026-01-31T18:30:15.5Z", "2026-01-31T18:30:15.500Z"],
    ["2026-01-31T18:30:15,25Z", "2026-01-31T18:30:15.250Z"],
    ["2026-01-31T18:30:15.123456789Z", "2026-01-31T18:30:15.123Z"],
    ["  2026-01-31T18:30:15Z ", "2026-01-31T18:30:15.000Z"],
    ["2026-01-31T18:30:00+02:00", "2026-01-31T16:30:00.000Z"],
    ["2026-01-31T18:30:00+0200", "2026-01-31T16:30:00.000Z"],
    ["2026-01-31T18:30:00-05", "2026-01-31T23:30:00.000Z"],
    ["2026-01-31T18:30:00+05:45", "2026-01-31T12:45:00.000Z"],
    ["2026-01-31T18:30:00-00:00", "2026-01-31T18:30:00.000Z"],
    ["2026-01-01T00:30:00+01:00", "2025-12-31T23:30:00.000Z"],
    ["2025-12-31T23:30:00-01:00", "2026-01-01T00:30:00.000Z"],
    ["2026-01-31T24:00:00Z", "2026-02-01T00:00:00.000Z"],
    ["2026-01-31T24:00+02:00", "2026-01-31T22:00:00.000Z"],
    ["2024-02-29", "2024-02-29T00:00:00.000Z"],
    ["2000-02-29T12:00:00Z", "2000-02-29T12:00:00.000Z"],
    ["0001-01-01", "0001-01-01T00:00:00.000Z"],
    ["0099-12-31", "0099-12-31T00:00:00.000Z"],
    ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"],
  ];
  for (const [text, instant] of cases) {
    assertEquals([text, instantOf(text)], [text, instant]);
  }
});

Deno.test("instantOf() finds none where a day, time or offset does not exist", () => {
  const without = [
    "2026-02-31",
    "2026-02-31T24:00:00Z",
    "2026-02-29",
    "1900-02-29",
    "2026-04-31T10:00:00+02:00",
    "2026-00-10",
    "2026-13-10",
    "2026-01-00",
    "2026-01-32",
    "2026-01-31T25:00:00Z",
    "2026-01-31T24:00:01Z",
    "2026-01-31T24:01:00Z",
    "2026-01-31T24:00:00.001Z",
    "2026-01-31T18:60:00Z",
    "2026-01-31T18:30:60Z",
    "2026-01-31T18:30:00+24:00",
    "2026-01-31T18:30:00+02:60",
    "2026-01-31T18:30:00",
    "2026-01-31T18Z",
    "2026-01-31 18:30:00Z",
    "2026-01-31T18:30:00z",
    "2026-01-31T18:30:00.Z",
    "2026-1-31",
    "20260131",
    "2026-W05-6",
    "2026-031",
    "+002026-01-31",
    "9999-12-31T23:59:59-01:00",
    "0000-01-01T00:00:00+01:00",
    "tomorrow",
    "",
    "1769884200000",
  ];
  for (const text of without) assertEquals([text, instantOf(text)], [text, undefined]);
});

/** Milliseconds of the years that an instant can have. */
const anyMs = fc.integer({ min: Date.UTC(1000, 0, 1), max: Date.UTC(9999, 11, 30) });

Deno.test("instantOf() reads back what the clock writes", () => {
  fc.assert(fc.property(anyMs, (ms) => {
    const instant = new Date(ms).toISOString();
    assertEquals(instantOf(instant), instant);
  }));
});

Deno.test("instantOf() returns the same instant for every offset", () => {
  const anyOffset = fc.integer({ min: -23 * 60 - 59, max: 23 * 60 + 59 });
  fc.assert(fc.property(anyMs, anyOffset, (ms, minutes) => {
    const local = new Date(ms + minutes * 60_000).toISOString().slice(0, -1);
    const [hours, rest] = [Math.floor(Math.abs(minutes) / 60), Math.abs(minutes) % 60];
    const two = (number: number) => String(number).padStart(2, "0");
    const text = `${local}${minutes < 0 ? "-" : "+"}${two(hours)}:${two(rest)}`;
    assertEquals(instantOf(text), new Date(ms).toISOString());
  }));
});

Deno.test("instants sort as texts in the order of time", () => {
  fc.assert(fc.property(anyMs, anyMs, (one, other) => {
    const texts = [new Date(one).toISOString(), new Date(other).toISOString()] as const;
    assertEquals(texts[0] < texts[1], one < other);
  }));
});

Deno.test("instantAfter() and msBetween() are each other's opposite", () => {
  const anyStep = fc.integer({ min: -86_400_000, max: 86_400_000 });
  fc.assert(fc.property(anyMs, anyStep, (ms, step) => {
    const instant = new Date(ms).toISOString();
    assertEquals(msBetween(instant, instantAfter(instant, step)), step);
  }));
});
