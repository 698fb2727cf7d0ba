// A clock that a test can set: libfaketime between the agent and its system. Only the time of day
// jumps; the clock that timers run by goes on, as on a host whose time is set.

import { join } from "@std/path";

/** The library of Debian's package faketime, below the folder of the architecture. */
const LIBRARY = "faketime/libfaketime.so.1";
const LIBRARIES = "/usr/lib";
const REQUIRE_VARIABLE = "ZONEWRIGHT_TEST_REQUIRE";

/** The path of the library, or undefined when it is not installed. */
export function findFaketime(): string | undefined {
  if (Deno.build.os !== "linux") return undefined;
  const folders = Array.from(Deno.readDirSync(LIBRARIES), ({ name }) => join(LIBRARIES, name));
  return folders.map((folder) => join(folder, LIBRARY)).find((path) => {
    try {
      return Deno.statSync(path).isFile;
    } catch {
      return false; // not in the folder of this architecture
    }
  });
}

/** Registers a test that needs the library; without it, it is skipped by name. */
export function clockTest(name: string, fn: () => Promise<void>): void {
  const required = Deno.env.get(REQUIRE_VARIABLE) === "all";
  const ignore = !required && findFaketime() === undefined;
  Deno.test({ name: `${name} [needs faketime]`, ignore, fn });
}

/** The clock of the processes that are started with `env`. */
export interface FakedClock {
  readonly env: Readonly<Record<string, string>>;
  /** Sets it so many seconds after the clock of the system, or before it when negative. */
  set(offsetSeconds: number): Promise<void>;
  /** What it shows now, as the agent writes it. */
  now(): string;
}

/** Makes a clock that first agrees with that of the system. */
export async function fakeClock(folder: string): Promise<FakedClock> {
  const library = findFaketime();
  if (library === undefined) throw new Error("Cannot set the clock: libfaketime is not installed");
  const file = join(folder, "clock");
  let offset = 0;
  const set = async (offsetSeconds: number) => {
    // A rename, so that no process reads half a file.
    await Deno.writeTextFile(`${file}.new`, `${offsetSeconds < 0 ? "" : "+"}${offsetSeconds}\n`);
    await Deno.rename(`${file}.new`, file);
    offset = offsetSeconds;
  };
  await set(0);
  return {
    env: {
      LD_PRELOAD: library,
      FAKETIME_TIMESTAMP_FILE: file,
      FAKETIME_NO_CACHE: "1",
      FAKETIME_DONT_FAKE_MONOTONIC: "1",
    },
    set,
    now: () => new Date(Date.now() + offset * 1000).toISOString(),
  };
}
