// What decoders cost: the start of one, sources of a workflow that nobody has seen yet, and the digest
// of bytes that go through its pipe.

import { type Decoders, openDecoders } from "../src/decoder/pool.ts";
import { openHashing } from "../src/mirror/media/hash.ts";
import { openSourceChecks } from "../src/decoder/source_checks.ts";
import type { SelfCommand } from "../src/runtime/executable.ts";
import { silentLog } from "../src/metrics/log.ts";
import type { GuestUser } from "../src/sandbox/guest_command.ts";

/** Parts as a download hands them on. */
const PART = new Uint8Array(64 * 1024).fill(7);
const MIB = 1024 * 1024;
const HASHED_MIB = 256;
/** Workflows that are checked, and tasks of each. */
const WORKFLOWS = 200;
const TASKS = 3;

/** Measures the decoders of one program. Medians, ms, and MiB/s. */
export async function measureDecoders(
  self: SelfCommand,
  user: GuestUser | undefined,
  starts: number,
): Promise<Record<"decoder_start_ms" | "decoder_sources_ms" | "decoder_hash_mib", number>> {
  const place = { self, log: silentLog, ...(user === undefined ? {} : { user }) };
  const startMs: number[] = [];
  for (let count = 0; count < starts; count++) {
    startMs.push(await timed(place, (decoders) => hash(decoders, 1)));
  }
  return {
    decoder_start_ms: median(startMs),
    decoder_sources_ms: await withDecoders(place, measureSources),
    decoder_hash_mib: await withDecoders(place, async (decoders) => {
      await hash(decoders, 1);
      const began = performance.now();
      await hash(decoders, HASHED_MIB * MIB / PART.length);
      return HASHED_MIB / ((performance.now() - began) / 1000);
    }),
  };
}

type Place = Parameters<typeof openDecoders>[0];

async function withDecoders<T>(place: Place, run: (decoders: Decoders) => Promise<T>): Promise<T> {
  const decoders = openDecoders(place);
  try {
    return await run(decoders);
  } finally {
    await decoders.close();
  }
}

function timed(place: Place, run: (decoders: Decoders) => Promise<unknown>): Promise<number> {
  return withDecoders(place, async (decoders) => {
    const began = performance.now();
    await run(decoders);
    return performance.now() - began;
  });
}

/** The sources of one workflow after the other, each unknown; the first ones load the parser. */
async function measureSources(decoders: Decoders): Promise<number> {
  const { acceptable } = openSourceChecks(decoders);
  const { signal } = new AbortController();
  const took: number[] = [];
  for (let count = 0; count < WORKFLOWS; count++) {
    const sources = Array.from(
      { length: TASKS },
      (_, task) => `(job, cb) => { job.params.count = ${count * TASKS + task}; cb(null, "done"); }`,
    );
    const began = performance.now();
    await acceptable(sources, signal);
    took.push(performance.now() - began);
  }
  return median(took.slice(WORKFLOWS / 4));
}

async function hash(decoders: Decoders, parts: number): Promise<void> {
  using hasher = openHashing(decoders).open();
  for (let sent = 0; sent < parts; sent++) await hasher.update(PART);
  await hasher.finish();
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? NaN;
}
