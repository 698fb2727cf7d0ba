// Decoders: what they answer, how each way of failing reads, which pieces of work share a process,
// and that they leave nothing behind.

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { fromFileUrl } from "@std/path";
import { heldTimers } from "../support/timers.ts";
import { type Decoders, type DecodersPlace, openDecoders } from "../../src/decoder/pool.ts";
import { WAITING_MAX, WorkQueue } from "../../src/decoder/work_queue.ts";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { type SelfCommand } from "../../src/runtime/executable.ts";
import { systemNow } from "../../src/domain/instant.ts";
import { openLog, silentLog } from "../../src/metrics/log.ts";
import { openHashing } from "../../src/mirror/media/hash.ts";
import { decodersMax } from "../../src/sandbox/guest_command.ts";
import { eachProgram } from "../support/each_program.ts";
import type { Program } from "../support/agent_process.ts";
import { until } from "../support/until.ts";
import { selfOfRun } from "../support/agent_process.ts";

const ABC = new TextEncoder().encode("abc");
const SHA256_ABC = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
const SOURCES = new TextEncoder().encode('["(job, cb) => cb()"]');
const GZIP = { compression: "gzip", what: "unpack the medium" };
/** Longer than a decoder takes to fill its memory on a busy machine. */
const WHAT = { what: "read the medium", deadlineMs: 120_000 };

function selfOf({ name, ...self }: Program): SelfCommand {
  return { ...self, compiled: name !== "source" };
}

function hostile(way: string): SelfCommand {
  const script = fromFileUrl(new URL("hostile_decoder.ts", import.meta.url));
  const config = fromFileUrl(new URL("../../deno.json", import.meta.url));
  const args = ["run", "--quiet", "--cached-only", "--config", config, "-A", script, way];
  const cache = Deno.env.get("DENO_DIR");
  const env = { NO_COLOR: "1", ...(cache === undefined ? {} : { DENO_DIR: cache }) };
  return { program: Deno.execPath(), args, env, compiled: false };
}

async function withDecoders(
  run: (decoders: Decoders) => Promise<void>,
  place: Partial<DecodersPlace> = {},
): Promise<void> {
  const decoders = openDecoders({ self: selfOfRun(), log: silentLog, ...place });
  try {
    await run(decoders);
  } finally {
    const pids = decoders.pids();
    await decoders.close();
    assertEquals(decoders.pids(), []);
    for (const pid of pids) assertEquals(await commandLine(pid), "");
  }
}

async function commandLine(pid: number): Promise<string> {
  try {
    return await Deno.readTextFile(`/proc/${pid}/cmdline`);
  } catch {
    return "";
  }
}

async function failure(work: Promise<unknown>): Promise<[ErrorCode, string]> {
  const { code, message } = await assertRejects(() => work, AgentError);
  return [code, message];
}

async function* parts(count: number, part = ABC): AsyncGenerator<Uint8Array> {
  for (let sent = 0; sent < count; sent++) yield await Promise.resolve(part);
}

async function packed(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array<ArrayBuffer>> {
  return await bytesOf(new Blob([bytes]).stream().pipeThrough(new CompressionStream("gzip")));
}

async function bytesOf(output: AsyncIterable<Uint8Array>): Promise<Uint8Array<ArrayBuffer>> {
  return await new Response(ReadableStream.from(output)).bytes();
}

eachProgram("a decoder answers, and returns what it makes of its input", async (program) => {
  await withDecoders(async (decoders) => {
    assertEquals(await decoders.ask("task_sources", {}, SOURCES, WHAT), [null]);
    assertEquals(await decoders.ask("task_sources", {}, parts(1, SOURCES), WHAT), [null]);
    const { output, answer } = decoders.stream("unpack", GZIP, parts(1, await packed(ABC)), WHAT);
    assertEquals(new Uint8Array(await bytesOf(output)), ABC);
    assertEquals(await answer, { sha256: SHA256_ABC });
    const zeros = await packed(new Uint8Array(20_000_000));
    const long = decoders.stream("unpack", GZIP, zeros, WHAT);
    assertEquals((await bytesOf(long.output)).byteLength, 20_000_000);
    const sha256 = "9e21c61969cd3e077a1b2b58ddb583b175e13c6479d2d83912eaddc23c0cdd52";
    assertEquals(await long.answer, { sha256 });
  }, { self: selfOf(program) });
});

Deno.test("an error of the work is thrown to the caller", async () => {
  await withDecoders(async (decoders) => {
    const [code, message] = await failure(decoders.ask("task_sources", {}, ABC, WHAT));
    assertEquals(code, "internal");
    assertMatch(message, /not valid JSON/);
  });
});

Deno.test("a decoder that breaks the protocol is killed, and the error says why", async (t) => {
  const within = "^Cannot read the medium within 256 MiB and 120 s: its process ";
  const cases: Record<string, RegExp> = {
    "fills its heap": new RegExp(`${within}(ran out of memory|took \\d+ MiB)`),
    "fills buffers": new RegExp(`${within}(ran out of memory|took \\d+ MiB)`),
    "exits": new RegExp(`${within}ended with exit code 3`),
    "sends garbage": new RegExp(`${within}broke the protocol: .* 72 is not expected here`),
    "sends too long an answer": new RegExp(`${within}broke the protocol: .* expected at most 1024`),
    "sends too long a part": new RegExp(`${within}broke the protocol: .* expected at most 65536`),
    "sends a second report": new RegExp(`${within}broke the protocol: .* 4 is not expected here`),
    "answers no JSON": /^Cannot read the medium: /,
    "answers nothing": /^Cannot read the medium: its answer is neither a value nor an error/,
    "answers with a code of its own": /^Cannot read the medium: its answer is neither/,
    "answers with a long message": new RegExp(`${within}broke the protocol`),
    "has output": /^Cannot read the medium: checksums has output, expected the call of a stream/,
    "is not ready":
      /^Cannot read the medium: no decoder was started: its process broke the protocol/,
    "reports too little":
      /^Cannot read the medium: no decoder was started: its process is not closed: it did not try "read"/,
  };
  for (const [way, words] of Object.entries(cases)) {
    await t.step(way, async () => {
      await withDecoders(async (decoders) => {
        const [code, message] = await failure(decoders.ask("checksums", {}, ABC, WHAT));
        assertMatch(message, words);
        const started = words.source.startsWith(within) ? "too_large" : "internal";
        assertEquals(code, message.includes("no decoder was started") ? "overloaded" : started);
      }, { self: hostile(way) });
    });
  }
});

Deno.test("an answer that would fill the memory of the agent is never parsed", async () => {
  const cases = {
    "answers with too many values": "has more than 500000 values",
    "answers too deeply": "is nested deeper than 100",
  };
  for (const [way, words] of Object.entries(cases)) {
    await withDecoders(async (decoders) => {
      assertEquals(await failure(decoders.ask("index", {}, ABC, WHAT)), [
        "internal",
        `Cannot read the medium: its answer ${words}`,
      ]);
    }, { self: hostile(way) });
  }
});

Deno.test("a decoder that answers hashes without end ends the callers that wait for them", async () => {
  await withDecoders(async (decoders) => {
    const hasher = openHashing(decoders).open();
    await hasher.update(ABC);
    assertEquals(await failure(hasher.finish()), [
      "internal",
      "Cannot hash files: the decoder sent a line of more than 1024 characters, expected 64 " +
      "hexadecimal digits",
    ]);
  }, { self: hostile("speaks without end") });
});

Deno.test("the deadline ends a piece of work with the code that the caller chose", async () => {
  for (const way of ["loops", "says nothing", "sends half an answer"]) {
    const counts = { works: 0, deaths: 0 };
    await withDecoders(async (decoders) => {
      const options = { ...WHAT, deadlineMs: 300, code: "upstream" } as const;
      assertEquals(await failure(decoders.ask("task_sources", {}, SOURCES, options)), [
        "upstream",
        "Cannot read the medium within 256 MiB and 0.3 s: its process was killed: its time was up",
      ]);
      assertEquals(counts, { works: 1, deaths: 1 });
    }, { self: hostile(way), counts });
  }
});

Deno.test("a cancel kills the decoder at once, at any stage of its work", async () => {
  await withDecoders(async (decoders) => {
    const cancel = new AbortController();
    const work = decoders.ask("task_sources", {}, SOURCES, { ...WHAT, signal: cancel.signal });
    const [pid] = await until("a decoder", () => decoders.pids().length > 0 && decoders.pids()) ||
      [];
    cancel.abort();
    assertEquals(await failure(work), ["aborted", "Cannot read the medium: it was canceled"]);
    assert(pid !== undefined && !decoders.pids().includes(pid));
    const given = decoders.ask("task_sources", {}, SOURCES, {
      ...WHAT,
      signal: AbortSignal.abort(),
    });
    assertEquals((await failure(given))[0], "aborted");
  }, { self: hostile("loops") });
});

Deno.test("a cancel of work that waits for a decoder to start is no error in the log", async () => {
  const lines: string[] = [];
  const write = (line: string) => void lines.push(line);
  const log = openLog({ level: "error", format: "json", write, now: systemNow });
  await withDecoders(async (decoders) => {
    decoders.warm();
    await until("the decoder that is started ahead", () => decoders.pids().length > 0);
    const cancel = new AbortController();
    const work = decoders.ask("task_sources", {}, SOURCES, { ...WHAT, signal: cancel.signal });
    work.catch(() => {});
    const [started = 0] = decoders.pids();
    // What is asked has taken it by the second look.
    let looks = 0;
    await until("the work to wait for it", () => looks++ > 0);
    cancel.abort();
    assertEquals((await failure(work))[0], "aborted");
    assertEquals(decoders.pids().includes(started), false);
  }, { log, self: hostile("loops") });
  assertEquals(lines, []);
});

Deno.test("a cancel ends the wait for input that never comes", async () => {
  await withDecoders(async (decoders) => {
    const cancel = new AbortController();
    const asked = Promise.withResolvers<void>();
    const never = {
      [Symbol.asyncIterator]: () => ({
        next: () => {
          asked.resolve();
          return new Promise<IteratorResult<Uint8Array>>(() => {});
        },
      }),
    };
    const work = decoders.ask("task_sources", {}, never, { ...WHAT, signal: cancel.signal });
    await asked.promise;
    cancel.abort();
    assertEquals((await failure(work))[0], "aborted");
  });
});

Deno.test("an error of the input is thrown to the caller", async () => {
  await withDecoders(async (decoders) => {
    const broken = async function* () {
      yield ABC;
      await Promise.resolve();
      throw new AgentError("upstream", "Cannot download: the connection broke");
    };
    assertEquals(await failure(decoders.ask("task_sources", {}, broken(), WHAT)), [
      "upstream",
      "Cannot download: the connection broke",
    ]);
  });
});

Deno.test("the deadline does not run while input is missing", async () => {
  await withDecoders(async (decoders) => {
    const timers = heldTimers();
    const deadlineMs = 2_000;
    const slow = async function* () {
      yield SOURCES.subarray(0, 1);
      timers.advance(10 * deadlineMs);
      yield SOURCES.subarray(1);
    };
    const options = { ...WHAT, deadlineMs, timers };
    assertEquals(await decoders.ask("task_sources", {}, slow(), options), [null]);
  });
});

Deno.test("pieces of work share a process only when they have one origin", async () => {
  await withDecoders(async (decoders) => {
    const pidOf = async (origin?: string) => {
      const held = Promise.withResolvers<void>();
      const began = Promise.withResolvers<void>();
      const input = async function* () {
        began.resolve();
        await held.promise;
        yield SOURCES;
      };
      const before = decoders.pids();
      const options = origin === undefined ? WHAT : { ...WHAT, origin };
      const work = decoders.ask("task_sources", {}, input(), options);
      await began.promise;
      const pids = decoders.pids();
      held.resolve();
      assertEquals(await work, [null]);
      return { before, pids, after: decoders.pids() };
    };
    const first = await pidOf("one");
    const [kept] = first.after;
    assert(kept !== undefined, "the decoder was not kept");
    assert((await pidOf("one")).after.includes(kept), "the same origin got another decoder");
    const [alone] = (await pidOf("two")).pids.filter((pid) => !first.pids.includes(pid));
    assert(alone !== undefined, "another origin got the same decoder");
    const { pids, after } = await pidOf();
    const gone = pids.filter((pid) => !after.includes(pid));
    assert(gone.length > 0, "a decoder without an origin was kept");
  });
});

Deno.test("the number of decoders stays within its limit, and all work is done", async () => {
  await withDecoders(async (decoders) => {
    let most = 0;
    const works = Array.from({ length: 12 }, async (_, at) => {
      const origin = at % 3 === 0 ? {} : { origin: `${at % 3}` };
      const problems = await decoders.ask("task_sources", {}, parts(1, SOURCES), {
        ...WHAT,
        ...origin,
      });
      most = Math.max(most, decoders.pids().length);
      return JSON.stringify(problems);
    });
    assertEquals(new Set(await Promise.all(works)), new Set(["[null]"]));
    assert(most <= decodersMax(), `there were ${most}`);
  });
});

Deno.test("streams leave one decoder free for short work", async () => {
  await withDecoders(async (decoders) => {
    const held = Promise.withResolvers<void>();
    const input = async function* () {
      await held.promise;
      yield await packed(ABC);
    };
    const streams = Array.from({ length: decodersMax() + 1 }, async () => {
      const { output, answer } = decoders.stream("unpack", GZIP, input(), WHAT);
      for await (const _ of output);
      return JSON.stringify(await answer);
    });
    assertEquals(await decoders.ask("task_sources", {}, SOURCES, WHAT), [null]);
    held.resolve();
    assertEquals(
      new Set(await Promise.all(streams)),
      new Set([JSON.stringify({ sha256: SHA256_ABC })]),
    );
  });
});

Deno.test("hashes get a decoder even while long streams have all others", async () => {
  await withDecoders(async (decoders) => {
    const held = Promise.withResolvers<void>();
    const input = async function* () {
      await held.promise;
      yield await packed(ABC);
    };
    const streams = Array.from({ length: decodersMax() }, async () => {
      const { output, answer } = decoders.stream("unpack", GZIP, input(), WHAT);
      for await (const _ of output);
      return JSON.stringify(await answer);
    });
    const hasher = openHashing(decoders).open();
    await hasher.update(ABC);
    assertEquals((await hasher.finish()).sha256, SHA256_ABC);
    held.resolve();
    assertEquals(
      new Set(await Promise.all(streams)),
      new Set([JSON.stringify({ sha256: SHA256_ABC })]),
    );
  });
});

Deno.test("priority work gets the next free decoder, and is never refused", async () => {
  const queue = new WorkQueue(decodersMax());
  const what = "read a source";
  const underWay = await Promise.all(
    Array.from({ length: decodersMax() }, () => queue.enter("ask", { what })),
  );
  const begun: string[] = [];
  const wait = async (name: string, ahead: boolean) => {
    const release = await queue.enter("ask", { what, ahead });
    begun.push(name);
    release();
  };
  const waiting = Array.from({ length: WAITING_MAX }, () => wait("waiting", false));
  assertEquals((await failure(wait("turned away", false)))[0], "overloaded");
  const ahead = wait("ahead", true);
  for (const release of underWay) release();
  await Promise.all([...waiting, ahead]);
  assertEquals([begun[0], begun.length], ["ahead", WAITING_MAX + 1]);
});

Deno.test("close() ends running and waiting work", async () => {
  const decoders = openDecoders({ self: hostile("loops"), log: silentLog });
  const works = Array.from(
    { length: decodersMax() + 2 },
    () => failure(decoders.ask("task_sources", {}, SOURCES, WHAT)),
  );
  await until("all decoders", () => decoders.pids().length === decodersMax());
  await decoders.close();
  const codes = (await Promise.all(works)).map(([code]) => code);
  assertEquals(codes.filter((code) => code === "aborted" || code === "too_large"), codes);
  assertEquals((await failure(decoders.ask("task_sources", {}, SOURCES, WHAT)))[0], "aborted");
});

eachProgram("decoders die with a killed agent", async (program) => {
  const script = fromFileUrl(new URL("decoders_of_another.ts", import.meta.url));
  const config = fromFileUrl(new URL("../../deno.json", import.meta.url));
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--cached-only",
      "--config",
      config,
      "-A",
      script,
      JSON.stringify(selfOf(program)),
    ],
    stdin: "null",
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let said = "";
  while (!said.includes("\n")) said += (await reader.read()).value ?? "";
  const pid = Number(said);
  assertMatch(await commandLine(pid), /decoder/);
  child.kill("SIGKILL");
  await child.status;
  await reader.cancel();
  await until("the decoder to end", async () => await commandLine(pid) === "");
});
