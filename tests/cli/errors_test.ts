// What the command line says about an unknown command, a missing argument, or an agent that does not answer.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { EXIT, exitCodeOf } from "../../src/cli/command/command.ts";
import { openScreen, screenFor } from "./screen.ts";
import { CLOSED_ADDRESS } from "../support/closed_port.ts";

async function failure(...args: string[]): Promise<{ code: number; err: string }> {
  const screen = openScreen();
  const code = await screen.run(...args);
  assertEquals(screen.out(), "");
  return { code, err: screen.err() };
}

Deno.test("exit codes are a closed table", () => {
  assertEquals(Object.values(EXIT), [0, 1, 2, 3, 4, 5, 6, 7, 8, 96, 124, 130]);
  const codes: [ErrorCode, number][] = [
    ["invalid_argument", 2],
    ["unreachable", 3],
    ["not_found", 4],
    ["conflict", 6],
    ["other_schema", 8],
    ["timeout", 124],
    ["aborted", 130],
    ["overloaded", 1],
    ["internal", 1],
  ];
  for (const [code, exit] of codes) assertEquals(exitCodeOf(new AgentError(code, "")), exit, code);
  assertEquals(exitCodeOf(new TypeError("a defect")), 1);
});

Deno.test("a service that can never start has an exit code that SMF does not retry", () => {
  const env = { SMF_FMRI: "svc:/application/zonewright:default" };
  assertEquals(exitCodeOf(new AgentError("other_schema", ""), env), 96);
  assertEquals(exitCodeOf(new AgentError("conflict", ""), env), 6);
});

Deno.test("an unknown command exits 2 and names the nearest one", async () => {
  assertEquals(await failure("machin", "list"), {
    code: 2,
    err:
      'zonewright: Cannot read the command: unknown command "machin": did you mean "machine"?\n' +
      "hint: zonewright --help\n",
  });
  assertEquals(await failure("job", "lst"), {
    code: 2,
    err:
      'zonewright: Cannot read the command: unknown command "job lst": did you mean "job list"?\n' +
      "hint: zonewright job --help\n",
  });
});

Deno.test("names such as constructor are not commands", async () => {
  assertEquals((await failure("constructor")).code, 2);
  assertEquals((await failure("job", "toString")).code, 2);
});

Deno.test("no command, no verb, no operand, too many operands: each exits 2", async () => {
  for (
    const args of [[], ["job"], ["job", "get"], ["job", "get", "a", "b"], ["--jsn", "status"]]
  ) {
    const { code, err } = await failure(...args);
    assertEquals(code, 2, args.join(" "));
    assertStringIncludes(err, "hint: zonewright ");
  }
});

Deno.test("an agent that does not answer exits 3 and says how to start one", async () => {
  const url = `http://${CLOSED_ADDRESS}`;
  const { code, err } = await failure("status", "--url", url);
  assertEquals(code, 3);
  assertEquals(
    err,
    `zonewright: Cannot reach the agent at ${url}: connection refused\n` +
      "hint: start an agent with zonewright serve --dev, or give its address with --url or --socket\n",
  );
});

Deno.test("a missing socket exits 3", async () => {
  const { code, err } = await failure("status", "--socket", "/nowhere/agent.sock");
  assertEquals(code, 3);
  assertStringIncludes(err, "Cannot reach the agent at /nowhere/agent.sock: no such file");
});

Deno.test("a server that is not an agent exits 3, and what it says is not shown as data", async () => {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    () => new Response("<html>\x1b[2J", { headers: { "content-type": "text/html" } }),
  );
  try {
    const { code, err } = await failure("status", "--url", `http://127.0.0.1:${server.addr.port}`);
    assertEquals(code, 3);
    assertStringIncludes(err, "what answers there is not zonewright");
  } finally {
    await server.shutdown();
  }
});

Deno.test("an overloaded agent exits 1 and says when to try again", async () => {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    () =>
      Response.json({ code: "ServiceUnavailable", message: "Cannot answer: busy\x1b[2J" }, {
        status: 503,
        headers: { "retry-after": "7" },
      }),
  );
  try {
    const url = `http://127.0.0.1:${server.addr.port}`;
    assertEquals(await failure("job", "list", "--url", url), {
      code: 1,
      err: "zonewright: Cannot answer: busy\\x1b[2J\n" +
        "hint: try again in 7 s; zonewright status shows what it does\n",
    });
  } finally {
    await server.shutdown();
  }
});

Deno.test("an invalid address exits 2, and so do two addresses", async () => {
  for (
    const url of [
      "nonsense",
      "ftp://127.0.0.1",
      "http://127.0.0.1/?q",
      "http://u:p@127.0.0.1",
      "http://:p@127.0.0.1",
    ]
  ) {
    assertEquals((await failure("status", "--url", url)).code, 2, url);
  }
  const { err } = await failure("status", "--url", "http://a", "--socket", "/s");
  assertStringIncludes(err, "--url and --socket are both given");
});

Deno.test("host and port are accepted as an address, in the flag and in the environment", async () => {
  const printed = async (env: Record<string, string>, ...flags: string[]) => {
    const screen = openScreen({ env });
    assertEquals(await screen.run("job", "stats", "--curl", ...flags), 0, screen.err());
    return screen.out().trim().replace("curl -sS --fail-with-body ", "");
  };
  const typed = ["localhost:8780", "127.0.0.1:8780", "[::1]:8780", "https://a.example:1"];
  const found = await Promise.all(typed.map((url) => printed({}, "--url", url)));
  assertEquals(found.map((line) => line.replace("--globoff ", "")), [
    "http://localhost:8780/stats",
    "http://127.0.0.1:8780/stats",
    "'http://[::1]:8780/stats'",
    "https://a.example:1/stats",
  ]);
  assertEquals(await printed({ ZONEWRIGHT_URL: "agent:81" }), "http://agent:81/stats");
});

Deno.test("global flags may come before the command, with their values", async () => {
  const curl = async (...words: string[]) => {
    const screen = openScreen();
    assertEquals(await screen.run(...words), 0, words.join(" "));
    return screen.out();
  };
  const wanted = await curl("job", "stats", "--url", "http://b:1", "--curl");
  for (
    const line of [
      "--url http://b:1 --curl job stats",
      "--url=b:1 job --curl stats",
      "job --curl --url b:1 stats",
    ]
  ) assertEquals(await curl(...line.split(" ")), wanted, line);
  assertStringIncludes(await curl("--json", "version"), '"deno"');
  assertEquals(await curl("--no-color", "help"), await curl("help"));
  assertEquals(await failure("--nosuch", "job", "list"), {
    code: 2,
    err: 'zonewright: Cannot read the command: expected a command before the flag "--nosuch"\n' +
      "hint: zonewright --help\n",
  });
});

Deno.test("an error with --json is one object on standard error, and nothing is on standard output", async () => {
  const said = async (...words: string[]) => {
    const { code, err } = await failure(...words);
    assertEquals(err.trimEnd().includes("\n"), false);
    const error = JSON.parse(err);
    assertEquals(error.exit_code, code);
    return error;
  };
  assertEquals(await said("job", "lst", "--json"), {
    code: "invalid_argument",
    message: 'Cannot read the command: unknown command "job lst": did you mean "job list"?',
    hint: "zonewright job --help",
    exit_code: 2,
  });
  assertEquals((await said("--json", "job", "get")).hint, "zonewright job get --help");
  assertStringIncludes((await said("--json", "job")).message, "expected one of job run,");
  const url = CLOSED_ADDRESS;
  assertEquals((await said("--url", url, "--json", "job", "list")).code, "unreachable");
  assertStringIncludes((await failure("job", "lst", "--", "--json")).err, "zonewright: Cannot");
});

Deno.test("command words of other programs get a hint about ours", async () => {
  const meant = {
    "machine start": "machine boot",
    "machine restart": "machine reboot",
    "machine rm": "machine delete",
    "machine ls": "machine list",
    "job logs": "job tail",
    "job kill": "job cancel",
    "job rerun": "job retry",
    "image search": "image find",
    "workflow show": "workflow get",
    "workflow edit": "workflow update",
    "token delete": "token revoke",
    vm: "machine",
    logs: "job tail",
    start: "serve",
  };
  for (const [typed, ours] of Object.entries(meant)) {
    const { err } = await failure(...typed.split(" "));
    assertStringIncludes(err, `unknown command "${typed}": did you mean "${ours}"?`);
  }
});

Deno.test("flags take precedence over the environment, and there a socket over a URL", async () => {
  const env = { ZONEWRIGHT_URL: "http://127.0.0.1:1111", ZONEWRIGHT_SOCKET: "/s.sock" };
  const printed = async (...flags: string[]) => {
    const screen = openScreen({ env, cwd: "/here" });
    await screen.run("job", "stats", "--curl", ...flags);
    return screen.out().trim().replace("curl -sS --fail-with-body ", "");
  };
  assertEquals(await printed(), "--unix-socket /s.sock http://localhost/stats");
  assertEquals(await printed("--url", "http://127.0.0.1:2/"), "http://127.0.0.1:2/stats");
  assertEquals(
    await printed("--socket", "t.sock"),
    "--unix-socket /here/t.sock http://localhost/stats",
  );
  const screen = screenFor("http://127.0.0.1:3/");
  await screen.run("job", "stats", "--curl");
  assertStringIncludes(screen.out(), " http://127.0.0.1:3/stats");
});

Deno.test("help lists every command, and every command has help with examples first", async () => {
  const screen = openScreen();
  assertEquals(await screen.run("--help"), 0);
  const nouns = Array.from(
    screen.out().matchAll(/^ {2}([a-z]+) {2,}\S/gm),
    ([, noun]) => noun ?? "",
  );
  const known = [
    "serve",
    "machine",
    "job",
    "workflow",
    "media",
    "image",
    "doctor",
    "db",
    "install",
  ];
  assertEquals(known.filter((noun) => !nouns.includes(noun)), []);
  for (const noun of nouns) {
    const own = openScreen();
    assertEquals(await own.run(noun, "--help"), 0);
    const verbs = Array.from(
      own.out().matchAll(new RegExp(`^ {2}${noun} ([a-z]+)`, "gm")),
      ([, verb]) => [noun, verb ?? ""],
    );
    for (const words of verbs.length > 0 ? verbs : [[noun]]) {
      const help = openScreen();
      assertEquals(await help.run("help", ...words), 0, words.join(" "));
      assertEquals(help.err(), "");
      assert(help.out().indexOf("Examples:") < help.out().indexOf("Flags:"), words.join(" "));
      assertStringIncludes(help.out(), `Usage: zonewright ${words.join(" ")}`);
      const same = openScreen();
      await same.run(...words, "--help");
      assertEquals(same.out(), help.out());
    }
  }
});

Deno.test("help for something unknown exits 2", async () => {
  assertEquals((await failure("help", "jbo")).code, 2);
  assertEquals((await failure("help", "job", "lsit")).code, 2);
});

Deno.test("version names the parts of the program", async () => {
  const screen = openScreen();
  assertEquals(await screen.run("version", "--json"), 0);
  const parts = JSON.parse(screen.out());
  assertEquals(parts.deno, Deno.version.deno);
  assertEquals(parts.form, "source");
  assert(/^3\.\d+\.\d+$/.test(parts.sqlite), parts.sqlite);
  const short = openScreen();
  assertEquals(await short.run("--version"), 0);
  assert(short.out().startsWith(`zonewright ${parts.version}\n`));
});

Deno.test("config show names the origin of each value, config check counts them", async () => {
  const env = { ZONEWRIGHT_SLOTS: "3" };
  const screen = openScreen({ env });
  assertEquals(await screen.run("config", "show", "--origin", "--dev", "--log-level", "warn"), 0);
  const rows = screen.out().split("\n").map((line) => line.split(/ {2,}/));
  const row = (name: string) => rows.find(([first]) => first === name)?.slice(1);
  assertEquals(row("slots"), ["3", "ZONEWRIGHT_SLOTS"]);
  assertEquals(row("log_level"), ["warn", "--log-level"]);
  assertEquals(row("host"), ["simulated", "default"]);
  assertEquals(row("listen"), ["127.0.0.1:8780", "default"]);
  assertEquals(row("limits.body_bytes_max"), ["2097152", "default"]);
  const json = openScreen({ env });
  await json.run("config", "show", "--dev", "--json");
  assertEquals(JSON.parse(json.out()).slots, 3);
  const check = openScreen({ env });
  assertEquals(await check.run("config", "check", "--dev"), 0);
  assertStringIncludes(check.out(), "2 of them not the default");
});

Deno.test("config check exits 2 and reports every problem", async () => {
  const screen = openScreen({ env: { ZONEWRIGHT_SLOT: "3" } });
  assertEquals(await screen.run("config", "check", "--dev", "--slots", "none"), 2);
  assertEquals(
    screen.err(),
    'zonewright: Cannot read the configuration: unknown variable "ZONEWRIGHT_SLOT": ' +
      'did you mean "ZONEWRIGHT_SLOTS"? (and 1 more)\n' +
      '  --slots: "none" is not an integer from 1 to 64\n' +
      "hint: zonewright config check --help\n",
  );
});

Deno.test("config check --json names every problem in one object, a missing file too", async () => {
  const screen = screenFor("http://127.0.0.1:9");
  const flags = ["--slots", "none", "--retry-max", "0", "--json"];
  assertEquals(await screen.run("config", "check", "--dev", ...flags), 2);
  const { code, errors } = JSON.parse(screen.err());
  assertEquals([screen.out(), code], ["", "invalid_argument"]);
  assertEquals(errors.map(({ field }: { field: string }) => field).toSorted(), [
    "retry_max",
    "slots",
  ]);
  const missing = screenFor("http://127.0.0.1:9");
  assertEquals(await missing.run("config", "check", "--config", "/none.toml", "--json"), 2);
  assertStringIncludes(JSON.parse(missing.err()).errors[0].message, "/none.toml");
});
