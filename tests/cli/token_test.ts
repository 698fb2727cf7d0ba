// Tokens from the command line, and an agent that wants them: a real agent, a real file.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import {
  type AgentProcess,
  programOfRun,
  runProgram,
  startAgentProcess,
} from "../support/agent_process.ts";
import { until, withFolder } from "../support/until.ts";
import { openScreen } from "./screen.ts";

const PROGRAM = programOfRun();

/** Runs a test with a state folder that an agent may use. */
async function withState(run: (state: string, folder: string) => Promise<void>): Promise<void> {
  await withFolder(async (folder) => {
    const state = join(folder, "state");
    await Deno.mkdir(state, { mode: 0o700 });
    await run(state, folder);
  });
}

async function token(state: string, ...words: string[]): Promise<[number, string, string]> {
  const screen = openScreen();
  const code = await screen.run("token", ...words, "--state-dir", state);
  return [code, screen.out(), screen.err()];
}

/** Makes a token in a file as a person would. */
async function tokenFile(state: string, folder: string, name: string, scope: string) {
  const [code, text, err] = await token(state, "create", "--name", name, "--scope", scope);
  assertEquals([code, err], [0, ""]);
  const path = join(folder, `${name}.token`);
  await Deno.writeTextFile(path, text, { mode: 0o600 });
  return path;
}

Deno.test("a token is printed once, kept as a digest in a file of its owner, listed and revoked", () =>
  withState(async (state) => {
    const [code, text] = await token(state, "create", "--name", "a", "--scope", "read");
    assertEquals([code, /^zwt_[\w-]{43}\n$/.test(text)], [0, true]);
    const path = join(state, "tokens.json");
    const kept = await Deno.readTextFile(path);
    assertEquals(kept.includes(text.trim()), false);
    assertEquals(((await Deno.stat(path)).mode ?? 0) & 0o777, 0o600);
    const [, listed] = await token(state, "list");
    assert(/^a +read +20/m.test(listed), listed);
    assertEquals((await token(state, "create", "--name", "a", "--scope", "admin"))[0], 6);
    assertEquals((await token(state, "revoke", "b"))[0], 4);
    assertEquals((await token(state, "revoke", "a"))[0], 0);
    assertEquals(JSON.parse((await token(state, "list", "--json"))[1]), []);
    assertEquals([...Deno.readDirSync(state)].map(({ name }) => name), ["tokens.json"]);
  }));

Deno.test("a token without a name or a scope, or for a missing folder, is refused", () =>
  withState(async (state, folder) => {
    for (const words of [[], ["--name", "a"], ["--name", "a b", "--scope", "read"]]) {
      assertEquals((await token(state, "create", ...words))[0], 2);
    }
    assertEquals((await token(state, "create", "--name", "a", "--scope", "root"))[0], 2);
    const nowhere = join(folder, "none");
    assertEquals((await token(nowhere, "create", "--name", "a", "--scope", "read"))[0], 4);
    assertEquals((await token(nowhere, "list"))[0], 4);
    await Deno.writeTextFile(join(state, "tokens.json"), "{}", { mode: 0o600 });
    assertEquals((await token(state, "list"))[0], 2);
    await Deno.chmod(join(state, "tokens.json"), 0o644);
    assertEquals((await token(state, "list"))[0], 1);
  }));

Deno.test("two commands that change the tokens at once lose neither, whatever a kill has left", () =>
  withState(async (state) => {
    await Deno.writeTextFile(join(state, "tokens.json.new"), "half");
    const names = ["a", "b", "c", "d"];
    const codes = await Promise.all(names.map(async (name) => {
      return (await token(state, "create", "--name", name, "--scope", "read"))[0];
    }));
    assertEquals(codes, [0, 0, 0, 0]);
    const listed = JSON.parse((await token(state, "list", "--json"))[1]);
    assertEquals(listed.map(({ name }: { name: string }) => name).sort(), names);
    assertEquals([...Deno.readDirSync(state)].map(({ name }) => name), ["tokens.json"]);
  }));

/** A command that calls the agent. */
async function call(agent: AgentProcess, file: string | undefined, ...words: string[]) {
  const shown = file === undefined ? [] : ["--token-file", file];
  return await runProgram(PROGRAM, [...words, "--url", agent.url, ...shown]);
}

Deno.test("an agent that requires tokens accepts valid ones, and no revoked one", () =>
  withState(async (state, folder) => {
    const audit = join(folder, "audit.jsonl");
    const reader = await tokenFile(state, folder, "reader", "read");
    const boss = await tokenFile(state, folder, "boss", "admin");
    const flags = ["--dev", "--require-token", "--audit-file", audit];
    const agent = await startAgentProcess(PROGRAM, state, flags);
    try {
      const unknown = await call(agent, undefined, "job", "list");
      assertEquals(unknown.code, 1);
      assertStringIncludes(unknown.stderr, "bearer token is required");
      assertEquals((await fetch(`${agent.url}/v1/index.json`)).status, 401);
      const quiet = await call(agent, reader, "job", "list");
      assertEquals([quiet.code, quiet.stderr.includes("0600")], [0, false]);
      await Deno.chmod(reader, 0o644);
      const noted = await call(agent, reader, "job", "list", "--json");
      assertEquals([noted.code, JSON.parse(noted.stdout)], [0, []]);
      assertStringIncludes(noted.stderr, `token in ${reader}: its mode is 0644, expected 0600`);
      const refused = await call(agent, reader, "api", "POST", "/workflows", "-d", "{}");
      assertEquals(refused.code, 1);
      assertStringIncludes(refused.stderr, 'expected "admin"');
      const body = JSON.stringify({ name: "w", chain: [{ body: "function (job, cb) { cb(); }" }] });
      assertEquals((await call(agent, boss, "api", "POST", "/workflows", "-d", body)).code, 0);

      await Deno.rename(audit, `${audit}.0`);
      agent.signal("SIGHUP");
      await until("the audit file to be opened again", () => Deno.stat(audit).catch(() => false));
      assertEquals((await token(state, "revoke", "boss"))[0], 0);
      await until(
        "the token to be refused",
        async () => (await call(agent, boss, "api", "POST", "/workflows", "-d", body)).code === 1,
      );

      const [first = "", second = ""] = (await Deno.readTextFile(`${audit}.0`)).split("\n");
      assertEquals([JSON.parse(first).who, JSON.parse(first).status], ["token:reader", 403]);
      assertEquals([JSON.parse(second).who, JSON.parse(second).status], ["token:boss", 201]);
      assertStringIncludes(await Deno.readTextFile(audit), '"who":"refused"');
      assertEquals(((await Deno.stat(audit)).mode ?? 0) & 0o777, 0o600);
      for (const file of [reader, boss]) {
        assertEquals(agent.log().includes((await Deno.readTextFile(file)).trim()), false);
      }
    } finally {
      await agent.stop();
    }
  }));

Deno.test("an agent does not listen beyond loopback without a token and TLS, and names both", () =>
  withState(async (state) => {
    const serve = (...flags: string[]) =>
      runProgram(PROGRAM, ["serve", "--state-dir", state, "--listen", "0.0.0.0:0", ...flags]);
    const { code, stderr } = await serve();
    assertEquals(code, 2);
    assertStringIncludes(stderr, "tls_cert and tls_key");
    assertStringIncludes(stderr, "zonewright token create");
    const half = await serve("--tls-cert", "/nowhere");
    assertEquals(half.code, 2);
  }));

Deno.test("a socket that everyone may open requires tokens", async () => {
  const screen = openScreen();
  const code = await screen.run("config", "check", "--socket", "/run/x", "--socket-mode", "0666");
  assertEquals(code, 2);
  assertStringIncludes(screen.err(), "require_token");
  const asked = openScreen();
  const flags = ["--socket", "/run/x", "--socket-mode", "0666", "--require-token"];
  assertEquals(await asked.run("config", "check", ...flags), 0);
});

Deno.test("--curl names the file of the token, and a token goes nowhere without TLS", () =>
  withState(async (state, folder) => {
    const file = await tokenFile(state, folder, "it's", "read").catch(() => undefined);
    assertEquals(file, undefined); // No such name: the next one is quoted by its folder.
    const quoted = join(folder, "it's");
    await Deno.mkdir(quoted);
    const path = await tokenFile(state, quoted, "a", "read");
    const screen = openScreen({ env: { ZONEWRIGHT_TOKEN_FILE: path } });
    const url = "https://gz.example:8780";
    assertEquals(await screen.run("job", "list", "--curl", "--url", url, "--ca", "/ca.pem"), 0);
    assertStringIncludes(screen.out(), '-H "authorization: Bearer $(cat ');
    assertStringIncludes(screen.out(), "--cacert /ca.pem");
    assertEquals(screen.out().includes((await Deno.readTextFile(path)).trim()), false);

    const plain = openScreen({ env: { ZONEWRIGHT_TOKEN_FILE: path } });
    assertEquals(await plain.run("job", "list", "--url", "http://gz.example:8780"), 1);
    assertStringIncludes(plain.err(), "expected https");
  }));
