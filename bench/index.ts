// What `make bench-index` prints: serving documents beside nginx, syncs of large trees, searches, and
// a download beside `cp` and `sha256sum`, of the compiled binary and in one run.

import { BINARY } from "./agent_under_test.ts";
import { type DownloadResult, measureDownload } from "./index_downloading.ts";
import { measureServing, type ServingResult } from "./index_serving.ts";
import { measureSync, type SyncResult } from "./index_syncing.ts";
import { figure, spread, spreadText, tableLines } from "./numbers.ts";
import { OthersWatch } from "./process_use.ts";
import { withRunFolder } from "./run_folder.ts";

const USAGE = "usage: bench/index.ts [--quick] [--before BINARY] [--only serve,sync,download] " +
  "[--json]";
const PARTS = ["serve", "sync", "download"];
const MIB = 1024 * 1024;
/** 15,000 artifacts; and 1,001 documents with two artifacts each. */
const LARGE = { distros: 30, releases: 10, builds: 10, artifacts: 5 };
const MANY = { distros: 37, releases: 25, builds: 1, artifacts: 2 };

interface Wanted {
  readonly quick: boolean;
  readonly json: boolean;
  readonly before: string | undefined;
  readonly parts: readonly string[];
}

/** @throws {Error} telling what is wrong */
function readOptions(words: readonly string[]): Wanted {
  let [quick, json] = [false, false];
  let before: string | undefined;
  let parts: readonly string[] = PARTS;
  const left = words.values();
  for (const word of left) {
    if (word === "--quick") quick = true;
    else if (word === "--json") json = true;
    else if (word === "--before") before = valueOf(left, word);
    else if (word === "--only") parts = valueOf(left, word).split(",");
    else throw new Error(`${word} is no option\n${USAGE}`);
  }
  const strange = parts.find((part) => !PARTS.includes(part));
  if (strange !== undefined) throw new Error(`${strange} is no part\n${USAGE}`);
  return { quick, json, before, parts };
}

function valueOf(left: Iterator<string>, option: string): string {
  const { value, done } = left.next();
  if (done) throw new Error(`${option} wants a value\n${USAGE}`);
  return value;
}

function servingLines({ served, memoryMiB, bytes }: ServingResult): string[] {
  const whos = [...memoryMiB.keys()];
  const rows = [["", ...whos.flatMap((who) => [`${who}/s`, "p99 ms", "CPU us"]), "of nginx"]];
  for (const what of new Set(served.map((one) => one.what))) {
    const of = (who: string) => served.filter((one) => one.what === what && one.who === who);
    const ratios = of("zonewright").map(({ round, perSecond }) =>
      perSecond / (of("nginx").find((one) => one.round === round)?.perSecond ?? Number.NaN)
    );
    rows.push([
      what,
      ...whos.flatMap((who) => [
        figure(spread(of(who).map(({ perSecond }) => perSecond)).median),
        figure(spread(of(who).map(({ p99Ms }) => p99Ms)).median),
        figure(spread(of(who).map(({ cpuUs }) => cpuUs)).median),
      ]),
      spreadText(spread(ratios)),
    ]);
  }
  const sizes = Array.from(bytes, ([name, size]) => `${name} has ${figure(size)} bytes`);
  const memory = Array.from(memoryMiB, ([who, mib]) => `${who} ${figure(mib)} MiB`);
  return [
    "Requests/s at 32 connections, and the ratio in the round (min / median / max)",
    ...tableLines(rows),
    `${sizes.join(", ")}; memory after: ${memory.join(", ")}`,
  ];
}

function syncLines(title: string, result: SyncResult): string[] {
  return [
    `Sync of ${title}: ${figure(result.documents)} documents, ${figure(result.artifacts)} ` +
    `artifacts, ${figure(result.bytes / MIB)} MiB`,
    ...tableLines([
      ["first, s", figure(result.firstMs / 1000)],
      ["unchanged, s", figure(result.unchangedMs / 1000)],
      [
        "peak memory when started, after the first, at the end, MiB",
        [
          result.idleMiB,
          result.firstPeakMiB,
          result.peakMiB,
        ].map(figure).join(" / "),
      ],
      ["database, MiB", figure(result.databaseBytes / MIB)],
      ...result.searches.map(([words, ms]) => [`search, ${words}: p50 ms`, figure(ms)]),
    ]),
  ];
}

function downloadLines({ bytes, rounds, idleMiB, peakMiB }: DownloadResult): string[] {
  const rate = (ms: number) => bytes / MIB / (ms / 1000);
  const row = (words: string, values: readonly number[]) => [words, spreadText(spread(values))];
  return [
    `Download, hash and place of ${figure(bytes / MIB)} MiB (min / median / max)`,
    ...tableLines([
      row("zonewright, MiB/s", rounds.map(({ downloadMs }) => rate(downloadMs))),
      row("cp, MiB/s", rounds.map(({ copyMs }) => rate(copyMs))),
      row("sha256sum, MiB/s", rounds.map(({ hashMs }) => rate(hashMs))),
      row("cp, then sha256sum, MiB/s", rounds.map(({ copyMs, hashMs }) => rate(copyMs + hashMs))),
      row(
        "time as a multiple of the slower of the two",
        rounds.map(({ downloadMs, copyMs, hashMs }) => downloadMs / Math.max(copyMs, hashMs)),
      ),
      ["peak memory before and at the end, MiB", `${figure(idleMiB)} / ${figure(peakMiB)}`],
    ]),
  ];
}

async function main(): Promise<void> {
  const { quick, json, before, parts } = readOptions(Deno.args);
  const others = new OthersWatch();
  await withRunFolder(async (folder) => {
    const binary = `${folder}/zonewright`;
    // A build meanwhile does no harm.
    await Deno.copyFile(BINARY, binary);
    const results: Record<string, unknown> = {};
    const show = (lines: readonly string[]) => {
      if (!json) console.log(`${lines.join("\n")}\n`);
    };
    if (parts.includes("serve")) {
      try {
        const options = { binary, before, rounds: quick ? 2 : 5, seconds: quick ? 1 : 3 };
        const result = await measureServing(folder, options);
        results.serving = { ...result, memoryMiB: Object.fromEntries(result.memoryMiB) };
        show(servingLines(result));
      } catch (error) {
        console.error(`bench: serving skipped: ${error instanceof Error ? error.message : error}`);
      }
    }
    if (parts.includes("sync")) {
      const large = await measureSync(folder, LARGE, binary);
      show(syncLines("many artifacts", large));
      const many = await measureSync(folder, MANY, binary);
      show(syncLines("many documents", many));
      results.sync = { large, many };
    }
    if (parts.includes("download")) {
      const options = { binary, bytes: (quick ? 256 : 1024) * MIB, rounds: quick ? 2 : 3 };
      const result = await measureDownload(folder, options);
      results.download = result;
      show(downloadLines(result));
    }
    const busy = others.busyPercent;
    if (json) console.log(JSON.stringify({ ...results, others_busy_percent: busy }));
    else console.log(`others used ${figure(busy)} % of the machine`);
  });
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(`bench: ${error instanceof Error ? error.message : error}`);
    Deno.exit(1);
  }
}
