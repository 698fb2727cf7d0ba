// The options of bench/sandbox.ts. A wrong one is an error.

export const SANDBOX_USAGE =
  "usage: bench/sandbox.ts [--quick] [--program source|binary|both] [--json]";

export const PROGRAMS = ["source", "binary"] as const;
/** A way in which guests are run. */
export type ProgramName = typeof PROGRAMS[number];

export interface SandboxOptions {
  readonly quick: boolean;
  readonly programs: readonly ProgramName[];
  readonly json: boolean;
}

/** @throws {Error} telling what is wrong */
export function parseSandboxOptions(args: readonly string[]): SandboxOptions {
  let [quick, json] = [false, false];
  let programs: readonly ProgramName[] = PROGRAMS;
  const rest = [...args];
  for (let option = rest.shift(); option !== undefined; option = rest.shift()) {
    if (option === "--quick") quick = true;
    else if (option === "--json") json = true;
    else if (option === "--program") programs = parsePrograms(rest.shift());
    else throw new Error(`unknown option ${option}`);
  }
  return { quick, json, programs };
}

function parsePrograms(value: string | undefined): readonly ProgramName[] {
  if (value === "both") return PROGRAMS;
  const program = PROGRAMS.find((name) => name === value);
  if (program === undefined) throw new Error(`--program wants both, ${PROGRAMS.join(" or ")}`);
  return [program];
}
