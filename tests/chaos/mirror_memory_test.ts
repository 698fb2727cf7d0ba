// Files and documents of an upstream that means harm, up to every limit: index documents, checksum
// documents, signatures, packed files, packed answers and validators. Each is taken or refused in
// words, and the agent answers meanwhile.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { gzipSync } from "node:zlib";
import type { JsonObject } from "../../src/domain/json.ts";
import {
  breakingClearText,
  emptyZstdFrames,
  growingBzip2,
  HOSTILE_DOCUMENTS,
  repeatedSignature,
  spacedChecksums,
} from "../mirror/hostile_files.ts";
import type { IndexServer } from "../mirror/index_server.ts";
import { ISO } from "../mirror/vendor_file.ts";
import { until, withDeadline } from "../support/until.ts";
import { type ChaosAgent, objectOf } from "./agent_under_chaos.ts";
import { FINAL } from "./load_machine.ts";
import {
  beginFetch,
  fetchMedium,
  openUpstream,
  publish,
  publishRelease,
  sync,
  syncWhole,
  upstreamFlags,
} from "./load_upstream.ts";
import { loadTest } from "./memory_load.ts";

const SIGNED = fromFileUrl(new URL("../fixtures/signed/", import.meta.url));
const BOMB = fromFileUrl(new URL("../fixtures/packed/bomb.bz2", import.meta.url));
const MIB = 1024 * 1024;
/** Milliseconds in which an agent that is asked to end does so, on a machine that others use too. */
const STOP_MS_MAX = 90_000;
/** Milliseconds in which a cancel ends what it cancels. */
const CANCEL_MS_MAX = 90_000;

/** Registers a load with an upstream of its own. */
function mirrorLoad(
  name: string,
  run: (agent: ChaosAgent, server: IndexServer, folder: string) => Promise<void>,
  options: { readonly keys?: boolean; readonly ends?: boolean } = {},
): void {
  let server: IndexServer | undefined;
  loadTest(name, async ({ agent, folder }) => {
    if (server === undefined) throw new Error("there is no upstream");
    await using upstream = server;
    await run(agent, upstream, folder);
  }, {
    ends: options.ends ?? false,
    prepare: async (folder) => {
      server = await openUpstream();
      const keyDir = join(folder, "keys");
      await Deno.mkdir(keyDir);
      if (options.keys) await Deno.copyFile(join(SIGNED, "aurora.asc"), join(keyDir, "aurora.asc"));
      return [...upstreamFlags(server), "--key-dir", keyDir];
    },
  });
}

function signed(name: string): Uint8Array {
  return Deno.readFileSync(join(SIGNED, name));
}

function errorOf(job: JsonObject): string {
  return JSON.stringify(job.chain_results ?? "") + JSON.stringify(job.onerror_results ?? "");
}

mirrorLoad("an index has documents up to every limit", async (agent, server) => {
  assertEquals((await sync(agent)).outcome, "complete");
  for (const [name, make] of Object.entries(HOSTILE_DOCUMENTS)) {
    const path = publishRelease(server, make());
    const { problems } = await sync(agent);
    assert(JSON.stringify(problems).includes(path), `${name} was taken`);
  }
  // Readers have the document that was good.
  const kept = objectOf(await agent.ask("GET", "/v1/distros/aurora/releases/24.0/index.json"));
  assertEquals(kept.release, "24.0");
});

mirrorLoad(
  "answers of an index are small and packed, and its validators long",
  async (agent, server) => {
    const packed = gzipSync(new Uint8Array(64 * MIB));
    for (let at = 0; at < 8; at++) {
      server.faults.set("v1/index.json", [{
        kind: "answer",
        make: () => {
          // A megabyte of it stands for a gigabyte.
          const parts = Array.from({ length: 16 }, () => new Uint8Array(packed));
          return new Response(new Blob(parts).stream(), {
            headers: { "content-encoding": "gzip" },
          });
        },
      }]);
      const { outcome } = await sync(agent);
      assertEquals(outcome, "failed");
    }
    const list = server.files.get("v1/index.json");
    assert(list !== undefined);
    server.files.set("v1/index.json", { ...list, etag: `"${"e".repeat(15_000)}"` });
    assertEquals((await sync(agent)).outcome, "complete");
    assertEquals((await sync(agent)).outcome, "complete");
  },
);

mirrorLoad("a checksum document has lines of spaces", async (agent, server) => {
  const line = spacedChecksums(60_000);
  for (const lines of [1, Math.floor(8 * MIB / line.length) - 1]) {
    server.files.set("SHA256SUMS", { body: new TextEncoder().encode(line.repeat(lines)) });
    await publish(server, { body: ISO, document: "SHA256SUMS" });
    await syncWhole(agent);
    const job = await fetchMedium(agent, { check: "vendor" });
    assertEquals(job.execution, "failure");
    assertStringIncludes(errorOf(job), "SHA256SUMS");
  }
});

mirrorLoad("signature documents are as long as they may be, and longer", async (agent, server) => {
  const signature = signed("SHA256SUMS.gpg");
  const clear = new TextDecoder().decode(signed("CHECKSUM"));
  const files: readonly (readonly [string, Uint8Array, string])[] = [
    [
      "repeated to 8 MiB",
      repeatedSignature(signature, Math.floor(8 * MIB / signature.length)),
      "x",
    ],
    [
      "repeated to 64 KiB",
      repeatedSignature(signature, Math.floor(65_000 / signature.length)),
      "x",
    ],
    ["8 Mi line breaks", new TextEncoder().encode(breakingClearText(clear, 8 * MIB)), "clear"],
    ["1 Mi line breaks", new TextEncoder().encode(breakingClearText(clear, MIB - 4096)), "clear"],
  ];
  for (const [name, body, kind] of files) {
    const isClear = kind === "clear";
    const document = isClear ? "CHECKSUM" : "SHA256SUMS";
    server.files.set("SHA256SUMS", { body: signed("SHA256SUMS") });
    server.files.set("CHECKSUM", { body });
    server.files.set("SHA256SUMS.gpg", { body });
    const signatures = isClear
      ? [{ kind: "pgp_clearsign", url: document }]
      : [{ kind: "pgp_detached", url: "SHA256SUMS.gpg" }];
    await publish(server, { body: ISO, document, signatures });
    await syncWhole(agent);
    const job = await fetchMedium(agent, { check: "signature" });
    // One that is good may be found among many; what cannot be taken is named.
    const words = errorOf(job);
    const named = words.includes(document) || words.includes("Cannot read the signature");
    assert(job.execution === "success" || named, `${name}: ${words}`);
  }
}, { keys: true });

mirrorLoad("a zstd file has a million empty frames", async (agent, server) => {
  await publish(server, { body: emptyZstdFrames(1_000_000), compression: "zstd" });
  await syncWhole(agent);
  const job = await fetchMedium(agent, {});
  assertEquals(job.execution, "failure");
  assertStringIncludes(errorOf(job), "it makes no progress");
});

mirrorLoad("a bzip2 file that grows is canceled", async (agent, server, folder) => {
  await publish(server, {
    body: growingBzip2(Deno.readFileSync(BOMB), 2_000),
    compression: "bzip2",
  });
  await syncWhole(agent);
  const job = await beginFetch(agent, {});
  const partial = join(folder, "state/media/partial");
  await until("something to be unpacked", () => outputBytes(partial) > 0);
  assertEquals((await agent.ask("POST", `/jobs/${job}/cancel`, {})).status, 200);
  await until("the job to be canceled", async () => {
    const { execution } = objectOf(await agent.ask("GET", `/jobs/${job}`));
    return FINAL.includes(String(execution)) ? execution : undefined;
  }, CANCEL_MS_MAX);
  await until("the output to be gone", () => outputBytes(partial) === 0, CANCEL_MS_MAX);
});

mirrorLoad(
  "an agent that unpacks a bzip2 file that grows is asked to end",
  async (agent, server, folder) => {
    await publish(server, {
      body: growingBzip2(Deno.readFileSync(BOMB), 2_000),
      compression: "bzip2",
    });
    await syncWhole(agent);
    await beginFetch(agent, {});
    const partial = join(folder, "state/media/partial");
    await until("something to be unpacked", () => outputBytes(partial) > 0);
    agent.signal("SIGTERM");
    const { code } = await withDeadline(agent.ended, STOP_MS_MAX, () => "the agent to end");
    assertEquals(code, 0);
  },
  { ends: true },
);

/** Bytes of what was unpacked and is not verified. */
function outputBytes(partial: string): number {
  try {
    return Array.from(Deno.readDirSync(partial)).filter(({ name }) => name.endsWith(".out"))
      .reduce((sum, { name }) => sum + Deno.statSync(join(partial, name)).size, 0);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}
