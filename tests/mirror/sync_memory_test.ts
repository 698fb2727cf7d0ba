// The memory of a sync is bounded by what it may bring, not by what an upstream would like to send.
// ZONEWRIGHT_CHAOS=full tries every shape.

import { assert, assertEquals } from "@std/assert";
import { fromFileUrl, join } from "@std/path";
import { peakMiB } from "../chaos/memory.ts";
import { until, withFolder } from "../support/until.ts";
import { openIndexServer, type ServedFile } from "./index_server.ts";

const PROGRAM = fromFileUrl(new URL("sync_program.ts", import.meta.url));
const CONFIG = fromFileUrl(new URL("../../deno.json", import.meta.url));
const PEAK_MIB_MAX = 400;
const DISTROS = 40;
/** Just below the limit of one document. */
const BYTES = 4_000_000;

/** An object of as many names as one may have. */
const NAMES = `{${Array.from({ length: 1000 }, (_, n) => `"${n}":${n}`).join()}}`;
/** A number that rounds to 2^64, and is larger. */
const WIDE = "18446744073709551616";

/** Name, and the text of the document of every distro. */
const HOSTILE: readonly (readonly [string, string])[] = [
  ["as many builds as are parsed", `{"builds":[${Array(49_000).fill('{"a":1}').join()}]}`],
  ["a hundred thousand names", `{"a":[${Array(99).fill(NAMES).join()}]}`],
  ["as many integers of 20 digits", `{"a":[${Array(99_000).fill(WIDE).join()}]}`],
  ["one integer of as many digits", `{"a":${"9".repeat(BYTES)}}`],
  ["one long text", `"${"é".repeat(BYTES / 2)}"`],
  ["deep lists", `${"[".repeat(BYTES / 2)}${"]".repeat(BYTES / 2)}`],
  ["half a string", `["${"\\\\".repeat(BYTES / 2)}`],
];

const TRIED = Deno.env.get("ZONEWRIGHT_CHAOS") === "full" ? HOSTILE : HOSTILE.slice(0, 1);

for (const [name, text] of TRIED) {
  Deno.test({
    name: `a sync of ${DISTROS} distros of ${name} stays below ${PEAK_MIB_MAX} MiB`,
    // /proc is how the peak is known.
    ignore: Deno.build.os !== "linux",
    fn: () => withFolder((folder) => assertPeak(text, folder)),
  });
}

async function assertPeak(text: string, folder: string): Promise<void> {
  const body = new TextEncoder().encode(text);
  const distros = Array.from({ length: DISTROS }, (_, n) => ({ id: `d${n}`, os_family: "bsd" }));
  const list = new TextEncoder().encode(JSON.stringify({ distros }));
  const files = new Map<string, ServedFile>([["v1/index.json", { body: list }]]);
  for (const { id } of distros) files.set(`v1/distros/${id}/index.json`, { body });
  await using server = openIndexServer(files);
  const args = ["run", "--quiet", "--cached-only", "-A", "--config", CONFIG, PROGRAM];
  const child = new Deno.Command(Deno.execPath(), {
    args: [...args, join(folder, "store.db"), server.url, folder],
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  let said = "";
  const reading = (async () => {
    for await (const part of child.stdout.pipeThrough(new TextDecoderStream())) said += part;
  })();
  const writer = child.stdin.getWriter();
  try {
    await until("the program to be ready", () => said.includes("ready"));
    await writer.write(new TextEncoder().encode("go\n"));
    await until("the sync", () => said.split("\n").length > 2);
    assertEquals(said, "ready\nfailed\n");
    const peak = peakMiB(child.pid);
    assert(peak < PEAK_MIB_MAX, `${peak} MiB`);
  } finally {
    await writer.close().catch(() => {});
    await child.status;
    await reading;
  }
}
