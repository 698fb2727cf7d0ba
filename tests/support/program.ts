// Tests that need a program of the host, such as an emulator. Where it is missing they are skipped
// by name, unless the run is one that must skip nothing.

/** With this variable set to `all`, a missing program fails its tests. */
const REQUIRE_VARIABLE = "ZONEWRIGHT_TEST_REQUIRE";

/** Variables by name, handed in so that no test changes those of the process. */
type Environment = Readonly<Record<string, string | undefined>>;

/** The path of a program on PATH, or undefined when there is none. */
export function findProgram(
  program: string,
  environment: Environment = Deno.env.toObject(),
): string | undefined {
  const folders = (environment.PATH ?? "").split(":").filter((folder) => folder !== "");
  return folders.map((folder) => `${folder}/${program}`).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    const { isFile, mode } = Deno.statSync(path);
    return isFile && ((mode ?? 0) & 0o111) !== 0;
  } catch {
    return false; // not there, below a file, or not ours to see: then not ours to run
  }
}

/**
 * The path of a program on PATH, or undefined when its tests are to be skipped.
 * @throws {Error} when it is missing and ZONEWRIGHT_TEST_REQUIRE is `all`
 */
export function requireProgram(
  program: string,
  environment: Environment = Deno.env.toObject(),
): string | undefined {
  const path = findProgram(program, environment);
  if (path === undefined && environment[REQUIRE_VARIABLE] === "all") {
    throw new Error(
      `Cannot run tests that need ${program}: it is not on PATH and ${REQUIRE_VARIABLE} is "all"`,
    );
  }
  return path;
}

/** Registers a test that needs a program. Its name ends in `[needs program]`, so a skip is seen. */
export function programTest(program: string, name: string, fn: () => Promise<void>): void {
  const mayBeSkipped = Deno.env.get(REQUIRE_VARIABLE) !== "all";
  Deno.test({
    name: `${name} [needs ${program}]`,
    ignore: mayBeSkipped && findProgram(program) === undefined,
    fn: async () => {
      requireProgram(program);
      await fn();
    },
  });
}
