// Programs of a host behind ssh: what arrives of their words and input, what comes back, and that
// none of them outlives its call.

import { assert, assertEquals, assertFalse } from "@std/assert";
import fc from "fast-check";
import { commandLine, quoted } from "../../src/host/ssh/command.ts";
import { assertEnds, farTest, isAlive, pidIn } from "./far_host.ts";
import { until } from "../support/until.ts";
import { refused } from "./refused.ts";

const DEADLINE_MS = 90_000;
const QUICK = { deadlineMs: DEADLINE_MS };

/** Words that a shell would read otherwise, and any other text that a program can be given. */
const WORDS = fc.oneof(
  fc.array(
    fc.constantFrom(
      ..."'\"\\`$*?[]{}()<>|&;!#~=%^ \t\n\r-".split(""),
      "$(id)",
      "${HOME}",
      "\\n",
      "''",
      "é",
      "日本",
      "🦕",
      "\u0001",
      "\u007f",
      "--",
      "a",
    ),
    { maxLength: 12 },
  ).map((parts) => parts.join("")),
  fc.string({ unit: "binary", maxLength: 40 }).map((text) => text.replaceAll("\0", "")),
  fc.constant(""),
);
const INPUTS = 2_000;
const WORDS_PER_CALL = 200;

farTest("a remote program gets 2,000 arguments exactly as given", async ({ reach }) => {
  const transport = reach({}, "/usr/bin/printf");
  const words = fc.sample(WORDS, { numRuns: INPUTS, seed: 20_261_120 });
  for (let at = 0; at < words.length; at += WORDS_PER_CALL) {
    const some = words.slice(at, at + WORDS_PER_CALL);
    const { code, stdout } = await transport.vmadm(["%s\\0", ...some], QUICK);
    assertEquals(code, 0);
    assertEquals(stdout.split("\0").slice(0, -1), some);
  }
});

Deno.test("quoted() refuses characters that no program argument can contain", async () => {
  for (const word of ["a\0b", "\ud800", "x\udc00y"]) {
    await refused(() => Promise.try(() => quoted(word)), "invalid_argument", "program");
  }
});

Deno.test("commandLine() refuses more than one shell argument may have", async () => {
  await refused(() => Promise.try(() => commandLine(["a".repeat(100 * 1024)])), "too_large");
  assertEquals(commandLine(["a", "it's"]), `'a' 'it'\\''s'`);
});

farTest("a remote program's exit code, even 255, and its output are reported", async (host) => {
  const { transport, writeProgram } = host;
  await writeProgram('printf "out"; printf "words" >&2; exit "$1"');
  for (const code of [0, 1, 2, 127, 255]) {
    const { durationMs: _, ...result } = await transport.vmadm([String(code)], QUICK);
    assertEquals(result, { code, signal: null, stdout: "out", stderr: "words" });
  }
  await writeProgram("kill -s KILL $$");
  const killed = await transport.vmadm([], QUICK);
  assertEquals([killed.code, killed.signal], [137, "SIGKILL"]);
});

farTest("a remote program reads the given bytes, and then the end of input", async (host) => {
  const { reach } = host;
  const bytes = new Uint8Array(70_000).map((_, at) => at * 7);
  const transport = reach({}, "/usr/bin/od");
  const { stdout } = await transport.vmadm(["-An", "-v", "-tu1"], { ...QUICK, stdin: bytes });
  assertEquals(stdout.trim().split(/\s+/).map(Number), [...bytes]);
  assertEquals((await reach({}, "/bin/cat").vmadm([], QUICK)).stdout, "");
});

farTest(
  "a remote program has an empty environment and the folder /",
  async ({ transport, ...host }) => {
    await host.writeProgram("pwd; /usr/bin/env");
    const { stdout } = await transport.vmadm([], QUICK);
    const [folder, ...variables] = stdout.trim().split("\n");
    const names = variables.map((line) => line.split("=")[0]).sort();
    assertEquals([folder, names], ["/", ["LC_ALL", "PATH", "PWD"]]);
  },
);

farTest("a missing remote program is named", async ({ transport, program, server }) => {
  const text = `${program}" on ${server.host.destination}:${server.port}: there is no such program`;
  await refused(() => transport.vmadm([], QUICK), "host", text);
});

farTest("a remote program and its children end at the deadline", async (host) => {
  const { transport, folder, writeProgram } = host;
  await writeProgram(`sleep 1000 & echo $! >${folder}/child; echo $$ >${folder}/pid; wait`);
  const call = transport.vmadm([], { deadlineMs: 8_000 });
  const pids = [await pidIn(`${folder}/pid`), await pidIn(`${folder}/child`)];
  await refused(() => call, "timeout", "not done after 8 s", host.server.host.destination);
  for (const pid of pids) await assertEnds(pid);
});

farTest(
  "a remote program ends when the caller aborts, or when it writes too much",
  async (host) => {
    const { transport, folder, writeProgram } = host;
    await writeProgram(`echo $$ >${folder}/pid; sleep 1000`);
    const caller = new AbortController();
    const call = transport.vmadm([], { ...QUICK, signal: caller.signal });
    const pid = await pidIn(`${folder}/pid`);
    caller.abort();
    await refused(() => call, "aborted", "it was canceled");
    await assertEnds(pid);
    await writeProgram(`echo $$ >${folder}/flood; exec yes`);
    await refused(() => transport.vmadm([], QUICK), "host", "it wrote more than");
    await assertEnds(await pidIn(`${folder}/flood`));
  },
);

farTest(
  "a remote program ends when the connection breaks, and the next call works",
  async (host) => {
    const { transport, server, folder, writeProgram } = host;
    await writeProgram(`echo $$ >${folder}/pid; sleep 1000`);
    const call = transport.vmadm([], QUICK);
    const pid = await pidIn(`${folder}/pid`);
    const broken = refused(() => call, "host", "the connection broke while it ran");
    await server.dropConnections();
    await broken;
    await assertEnds(pid);
    await writeProgram("echo again");
    assertEquals((await transport.vmadm([], QUICK)).stdout, "again\n");
  },
);

farTest("a remote program that must not be cut off outlives the connection", async (host) => {
  const { transport, server, folder, writeProgram } = host;
  await new Deno.Command("mkfifo", { args: [`${folder}/go`] }).output();
  await writeProgram(
    `echo $$ >${folder}/pid; read line <${folder}/go; echo "$line" >${folder}/done`,
  );
  const released = new AbortController().signal;
  const call = transport.vmadm([], { ...QUICK, released });
  const pid = await pidIn(`${folder}/pid`);
  const broken = refused(() => call, "host", "runs on there");
  await server.dropConnections();
  await broken;
  assert(isAlive(pid));
  await Deno.writeTextFile(`${folder}/go`, "to the end\n");
  await assertEnds(pid);
  assertEquals(await Deno.readTextFile(`${folder}/done`), "to the end\n");
});

farTest("the remote host enforces the deadline of a program that nobody watches", async (host) => {
  const { transport, server, folder, writeProgram } = host;
  await writeProgram(`echo $$ >${folder}/pid; sleep 1000`);
  const released = new AbortController().signal;
  const call = transport.vmadm([], { deadlineMs: 5_000, released });
  const pid = await pidIn(`${folder}/pid`);
  await server.dropConnections();
  await call.catch(() => {});
  await assertEnds(pid);
});

farTest("a connection that broke while idle is opened again unnoticed", async (host) => {
  const { transport, server, folder, writeProgram } = host;
  await writeProgram(`echo "$1" >>${folder}/calls; echo "$1"`);
  for (const word of ["one", "two", "three"]) {
    assertEquals((await transport.vmadm([word], QUICK)).stdout, `${word}\n`);
    await server.dropConnections();
    assertEquals((await transport.files.status(folder))?.kind, "folder");
    await server.dropConnections();
  }
  assertEquals(await Deno.readTextFile(`${folder}/calls`), "one\ntwo\nthree\n");
});

farTest("more programs than sshd has sessions for take turns over one connection", async (host) => {
  const { transport, server, writeProgram } = host;
  await writeProgram('echo "$1"');
  const words = Array.from({ length: 30 }, (_, at) => `${at}`);
  await transport.files.status("/");
  const results = await Promise.all(words.map((word) => transport.vmadm([word], QUICK)));
  assertEquals(results.map(({ stdout }) => stdout.trim()), words);
  assertEquals(await server.connections(), 1);
});

farTest("a session that sshd refuses leaves the others alone", async (host) => {
  const { transport, folder, writeProgram } = host;
  await new Deno.Command("mkfifo", { args: [`${folder}/go`] }).output();
  await writeProgram(`echo $$ >${folder}/pid; read line <${folder}/go; echo "$line"`);
  const first = transport.vmadm([], QUICK);
  await pidIn(`${folder}/pid`);
  await refused(() => transport.vmadm([], QUICK), "host", "ssh opened no session", "refused");
  await Deno.writeTextFile(`${folder}/go`, "fine\n");
  assertEquals((await first).stdout, "fine\n");
}, ["MaxSessions 2"]);

farTest("output of the login's start files does not count as the program's", async (host) => {
  const { transport, writeProgram } = host;
  await writeProgram("echo out; echo err >&2");
  const { stdout, stderr } = await transport.vmadm([], QUICK);
  assertEquals([stdout, stderr], ["out\n", "err\n"]);
}, ['ForceCommand echo hello; echo hello >&2; exec /bin/sh -c "$SSH_ORIGINAL_COMMAND"']);

farTest(
  "the control socket works in a folder of any depth",
  async ({ reach, folder, ...host }) => {
    await host.writeProgram("echo deep");
    const deep = `${folder}/${"a".repeat(100)}/${"b".repeat(100)}/with a space/%h`;
    assertEquals((await reach({ folder: deep }).vmadm([], QUICK)).stdout, "deep\n");
  },
);

farTest("a closed transport leaves nothing, and accepts no more calls", async (host) => {
  const { transport, server, folder, writeProgram } = host;
  await writeProgram(`echo $$ >${folder}/pid; sleep 1000`);
  const call = transport.vmadm([], QUICK).catch((error: unknown) => error);
  const pid = await pidIn(`${folder}/pid`);
  await transport.files.status("/");
  await transport.close();
  await call;
  await assertEnds(pid);
  await until("the end of the connection", async () => await server.connections() === 0);
  assertFalse([...Deno.readDirSync(`${folder}/way-0`)].length > 0);
  await refused(() => transport.vmadm([], QUICK), "aborted", "is stopping");
});
