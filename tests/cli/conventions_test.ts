// What every command promises its caller, checked on the whole tree: a new command is held
// against all of it without being named here.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { parseArguments } from "../../src/cli/command/arguments.ts";
import { NOUNS } from "../../src/cli/cli.ts";
import { type Command, flagsOf, operandCounts } from "../../src/cli/command/command.ts";
import { BODY, type HttpAgent, jobIn, newWorkflow, withHttpAgent } from "../http/http_agent.ts";
import { withIndex } from "../http/openapi_agent.ts";
import { openScreen, screenFor, type ScreenOptions } from "./screen.ts";
import { register } from "../store/host_suite.ts";
import { CLOSED_ADDRESS } from "../support/closed_port.ts";
import { RUNNER } from "../support/job.ts";

const MACHINE = "00000000-0000-4000-8000-00000000000a";
const DIGEST = "a".repeat(64);
/** More operands than commands take, but those that take any number. */
const TOO_MANY = 50;

interface Named {
  /** All its words, such as `job list`. */
  readonly name: string;
  readonly command: Command;
}

const COMMANDS: readonly Named[] = (await Promise.all(
  Object.entries(NOUNS).map(async ([noun, load]) => {
    const loaded = await load();
    if (loaded.kind === "command") return [{ name: noun, command: loaded.command }];
    return Object.entries(loaded.verbs).map(([verb, command]) => ({
      name: `${noun} ${verb}`,
      command,
    }));
  }),
)).flat();
const OF_AGENT = COMMANDS.filter(({ command }) => command.shared === "agent");

/** A word for each operand of the help. */
const OPERANDS: Readonly<Record<string, string>> = {
  HOST: RUNNER,
  MACHINE,
  WORKFLOW: "sample",
  MEDIUM: "https://images.example.com/a.iso",
  DIGEST,
  "DIGEST|NAME...": DIGEST,
  FILE: new URL(import.meta.url).pathname,
  "DISTRO/RELEASE": "alma/9",
  METHOD: "GET",
  PATH: "/stats",
};
/** What else a command needs to have something to do. */
const FLAGS: Readonly<Record<string, readonly string[]>> = {
  "machine create": ["--file", "-"],
  "host forget": ["--yes"],
  "machine delete": ["--yes"],
  "workflow create": ["--file", "-"],
  "workflow apply": ["--file", "-"],
  "workflow update": ["--file", "-"],
  "media add": ["--sha256", DIGEST],
  "media upload": ["--name", "a.iso"],
  "media verify": ["--all"],
  "db prune": ["--older-than", "30d", "--yes"],
};
const INPUTS: Readonly<Record<string, unknown>> = {
  "machine create": {
    machine: { brand: "kvm", ram: 256 },
    media: { artifact: { distro: "alma", release: "9", format: "iso" } },
  },
  workflow: { name: "made", chain: [{ name: "first", body: BODY }] },
};
/** In which execution a command wants the job that it is given. */
const JOBS: Readonly<Record<string, "queued" | "waiting" | "failed" | "succeeded">> = {
  "job cancel": "queued",
  "job resume": "waiting",
  "job retry": "failed",
};

function inputOf(name: string): string {
  return JSON.stringify(INPUTS[name] ?? INPUTS.workflow);
}

/** The words of a command with something behind each operand. */
async function lineOf(agent: HttpAgent, { name, command }: Named): Promise<string[]> {
  const wanted = (command.operands ?? "").split(" ").filter((word) => word !== "");
  // An operand in brackets may be left out; but the many are not meant here.
  const given = wanted.filter((word) => !word.startsWith("[") || word === "[JOB]");
  const words = await Promise.all(given.map(async (word) => {
    if (/^\[?JOB\]?$/.test(word)) return await jobIn(agent, JOBS[name] ?? "succeeded");
    return OPERANDS[word] ?? "x";
  }));
  return [...name.split(" "), ...words, ...FLAGS[name] ?? []];
}

/** Runs every command of an agent, each against one of its own. */
async function eachOfAgent(
  flags: readonly string[],
  options: ScreenOptions,
  see: (
    name: string,
    said: { code: number; out: string; err: string },
    agent: HttpAgent,
  ) => void,
): Promise<void> {
  await withIndex(async (routes) => {
    for (const named of OF_AGENT) {
      await withHttpAgent(async (agent) => {
        await newWorkflow(agent, { name: "sample" });
        await register(agent.store);
        const line = await lineOf(agent, named);
        agent.log.length = 0;
        const screen = screenFor(agent.url, { input: inputOf(named.name), ...options });
        const code = await screen.run(...line, ...flags);
        see(named.name, { code, out: screen.out(), err: screen.err() }, agent);
      }, { routes });
    }
  });
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

Deno.test("every command describes itself in a line, and shows examples that can be typed", () => {
  for (const { name, command } of COMMANDS) {
    assertMatch(command.summary, /^[a-z].*[^.]$/, name);
    assert(command.examples.length > 0, `${name} has no example`);
    for (const [line, does] of command.examples) {
      assert(does !== "", `${line} does not tell what it does`);
      assert(`${line} `.includes(`${name} `), `${line} is no example of ${name}`);
      if (!line.startsWith(name)) continue;
      // What a shell would take for itself is not the command's.
      const own = line.slice(name.length).split(/ (?:\|\||\||>|&&) /)[0] ?? "";
      const words = Array.from(own.matchAll(/(?:[^\s'"]+|'[^']*'|"[^"]*")+/g), ([word]) => word);
      parseArguments(words, flagsOf(command));
    }
  }
});

Deno.test("no command has two flags with the same name or letter", () => {
  for (const { name, command } of COMMANDS) {
    const names = flagsOf(command).flatMap((flag) => [flag.name, flag.short, flag.also])
      .filter((one) => one !== undefined);
    assertEquals(names.length, new Set(names).size, `${name}: ${names.join(" ")}`);
    for (const { help, name: flag } of flagsOf(command)) {
      assert(help !== "", `${name} --${flag} has no help`);
    }
  }
});

Deno.test("every command that prints data takes --json, every one of an agent --curl too", () => {
  for (const { name, command } of COMMANDS) {
    const flags = flagsOf(command).map((flag) => flag.name);
    const wanted = {
      help: ["help"],
      output: ["help", "json", "no-color"],
      either: ["help", "json", "no-color", "curl", "url", "socket", "running"],
      agent: ["help", "json", "no-color", "curl", "url", "socket"],
    }[command.shared];
    assertEquals(wanted.filter((flag) => !flags.includes(flag)), [], name);
  }
});

Deno.test("commands that print no data refuse --json and say why", async () => {
  const without = COMMANDS.filter(({ command }) => command.shared === "help");
  assertEquals(without.map(({ name }) => name).sort(), ["completion", "demo", "man", "serve"]);
  for (const { name } of without) {
    const screen = openScreen();
    assertEquals([name, await screen.run(name, "--json")], [name, 2]);
    assertStringIncludes(screen.err(), "--json shows data, and this command prints none");
  }
});

Deno.test("the help of every command is data: examples first, every flag, exit code 0", async () => {
  for (const { name, command } of COMMANDS) {
    const words = name.split(" ");
    for (const line of [[...words, "--help"], [...words, "-h"], ["help", ...words]]) {
      const screen = openScreen();
      assertEquals([line, await screen.run(...line), screen.err()], [line, 0, ""]);
      const text = screen.out();
      assert(text.startsWith(`zonewright ${name}: `), name);
      assert(text.indexOf("Examples:") < text.indexOf("Flags:"), name);
      for (const flag of flagsOf(command)) assertStringIncludes(text, `--${flag.name}`);
    }
  }
});

Deno.test("help fits a terminal of 80 columns, but for command lines", async () => {
  const nouns = Object.keys(NOUNS).map((noun) => [noun]);
  for (const words of [[], ...nouns, ...COMMANDS.map(({ name }) => name.split(" "))]) {
    const screen = openScreen();
    assertEquals(await screen.run("help", ...words), 0);
    for (const line of screen.out().split("\n")) {
      const fits = [...line].length <= 80 || line.startsWith("  zonewright ");
      assert(fits, `${words.join(" ")}: ${line}`);
    }
  }
});

Deno.test("a usage error of any command exits 2, prints no data, and names its help", async () => {
  for (const { name, command } of COMMANDS) {
    const lines = [["--jsom"], Array(TOO_MANY).fill("x")];
    const { min, max } = operandCounts(command);
    if (min > 0) lines.push([]);
    for (const rest of lines) {
      if (rest[0] === "x" && rest.length <= max) continue;
      const screen = openScreen();
      const code = await screen.run(...name.split(" "), ...rest);
      assertEquals([name, rest[0], code, screen.out()], [name, rest[0], 2, ""]);
      assertMatch(screen.err(), /^zonewright: Cannot read the command: /, name);
      assertStringIncludes(screen.err(), `hint: zonewright ${name} --help`);
      if (rest[0] === "--jsom" && flagsOf(command).some((flag) => flag.name === "json")) {
        assertStringIncludes(screen.err(), 'did you mean "--json"?');
      }
    }
  }
});

Deno.test("every command that needs an agent exits 3 without one, and says how to start it", async () => {
  const url = `http://${CLOSED_ADDRESS}`;
  await withHttpAgent(async (agent) => {
    await newWorkflow(agent, { name: "sample" });
    for (const named of OF_AGENT) {
      const line = await lineOf(agent, named);
      const screen = screenFor(url, { input: inputOf(named.name) });
      assertEquals([named.name, await screen.run(...line), screen.out()], [named.name, 3, ""]);
      assertMatch(screen.err(), /^zonewright: Cannot reach the agent/m, named.name);
      assertMatch(screen.err(), /^hint: /m, named.name);
    }
  });
});

Deno.test("--curl prints a call for every command of an agent, and changes nothing", async () => {
  await eachOfAgent(["--curl"], {}, (name, { code, out, err }, agent) => {
    assert(code === 0 && err === "", `${name} exits ${code}: ${err}`);
    assertMatch(out, /^curl /, name);
    for (const line of out.trimEnd().split("\n")) assertMatch(line, /^curl /, name);
    const changes = agent.log.filter(({ method }) => method !== undefined && method !== "GET");
    assertEquals([name, changes], [name, []]);
  });
});

Deno.test("--json prints one document for every command that succeeds, and one error for one that fails", async () => {
  const succeeded: string[] = [];
  await eachOfAgent(["--json"], {}, (name, { code, out, err }) => {
    if (code === 0) {
      succeeded.push(name);
      const lines = out.trimEnd().split("\n");
      assert(isJson(out) || lines.every(isJson), `${name} printed ${out}`);
    } else {
      assertEquals([name, out], [name, ""]);
      const { message, hint, exit_code } = JSON.parse(err);
      assertEquals([name, exit_code], [name, code]);
      assertMatch(message, /^[A-Z]/, name);
      assertMatch(hint, /zonewright/, name);
    }
  });
  assert(succeeded.length > OF_AGENT.length / 2, `only ${succeeded.join(", ")} succeeded`);
});

Deno.test("with NO_COLOR, --no-color or TERM=dumb, a terminal gets no control characters", async () => {
  const bare = (text: string) => text.replaceAll("\n", "");
  // deno-lint-ignore no-control-regex -- control characters are what is looked for.
  const control = /[\x00-\x1f]/;
  const window = { isTerminal: true, columns: 100, answer: "no" };
  let colored = 0;
  await eachOfAgent([], window, (_, { out, err }) => {
    if (control.test(bare(out + err))) colored += 1;
  });
  assert(colored > 0, "nothing has colors");
  const env = { TERM: "dumb" };
  await eachOfAgent([], { ...window, env }, (name, { out, err }) => {
    assert(!control.test(bare(out + err)), `${name} with TERM=dumb: ${JSON.stringify(out + err)}`);
  });
  // deno-lint-ignore no-control-regex -- the same.
  const colors = /\x1b\[\d+m/;
  await eachOfAgent(["--no-color"], window, (name, { out, err }) => {
    assert(!colors.test(out + err), `${name} --no-color: ${JSON.stringify(out + err)}`);
  });
  await eachOfAgent([], { ...window, env: { NO_COLOR: "1" } }, (name, { out, err }) => {
    assert(!colors.test(out + err), `${name} with NO_COLOR: ${JSON.stringify(out + err)}`);
  });
});

Deno.test("every --file with a short form takes - for standard input", async () => {
  const reading = COMMANDS.filter(({ command }) =>
    command.flags.some((flag) => flag.name === "file" && flag.short === "f")
  );
  assert(reading.length > 0);
  for (const { name, command } of reading) {
    await withHttpAgent(async (agent) => {
      await newWorkflow(agent, { name: "sample" });
      const operands = command.operands?.startsWith("WORKFLOW") ? ["sample"] : [];
      const screen = screenFor(agent.url, { input: "{" });
      const code = await screen.run(...name.split(" "), ...operands, "--file", "-");
      // It was read, since it was found to be no JSON.
      assert(code === 1 || code === 2, `${name} exits ${code}: ${screen.err()}`);
      assertStringIncludes(screen.out() + screen.err(), "JSON", name);
    });
  }
});
