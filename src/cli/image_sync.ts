// `zonewright image sync`: compares the mirror with its upstream, or tells what that would change.

import { AgentError } from "../domain/error.ts";
import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { pause } from "../program/loop.ts";
import { numberIn, objectsIn, readObject, textIn } from "./kit/answer.ts";
import type { ApiCall } from "./kit/api_call.ts";
import type { Client, Sent } from "./kit/client.ts";
import type { Call, Command } from "./kit/command.ts";
import { EXIT, type ExitCode } from "./kit/exit_code.ts";
import { timeoutMsOf } from "./follow/follow.ts";
import { openSyncView, type SyncView } from "./image_sync_view.ts";
import { problemLines, syncText } from "./image_status.ts";
import { sizeText } from "./kit/table.ts";

const SYNC_DEADLINE_MS = 3_600_000;
const POLL_MS = 200;

/** `zonewright image sync`. */
export const SYNC: Command = {
  summary: "compare the mirror with its upstream now",
  operands: "",
  operandsMin: 0,
  operandsMax: 0,
  examples: [
    ["image sync --wait", "and tell what has changed"],
    ["image sync --dry-run", "what would change; nothing is written"],
  ],
  flags: [
    { name: "wait", help: "until it is done" },
    { name: "dry-run", help: "read the upstream, and only tell what would change" },
    { name: "accept-changed", help: "also take changed digests, and a tree older than this one" },
    { name: "timeout", placeholder: "TIME", help: "give up waiting after 90s, 10m, 2h" },
  ],
  shared: "agent",
  async run(call) {
    const { args, client, printer } = call;
    const dryRun = args.has("dry-run");
    const wait = args.has("wait") || dryRun;
    const sync: ApiCall = {
      method: "POST",
      path: `/agent/v1/index/sync${wait && !dryRun ? "?wait=true" : ""}`,
      body: {
        ...(dryRun ? { dry_run: true } : {}),
        ...(args.has("accept-changed") ? { accept_changed: true } : {}),
      },
      ...(wait ? { deadlineMs: timeoutMsOf(call) ?? SYNC_DEADLINE_MS } : {}),
    };
    const sent = wait && !args.has("curl") ? await watched(call, sync) : await client.send(sync);
    if (sent.kind === "printed") return EXIT.ok;
    const answer = readObject(sent.body, "the sync");
    if (dryRun) return previewed(call, answer);
    if (wait) return synced(call, answer);
    if (printer.json) printer.document(answer);
    else printer.note("syncing");
    printer.next("image status", "see how it went");
    return EXIT.ok;
  },
};

/** Shows how far a sync is until its call is answered. */
async function watched({ client, terminal }: Call, sync: ApiCall): Promise<Sent> {
  const view = openSyncView(terminal);
  const answered = new AbortController();
  const polling = poll(client, view, answered.signal);
  try {
    return await client.send(sync);
  } finally {
    answered.abort();
    await polling;
    view.close();
  }
}

async function poll(client: Client, view: SyncView, signal: AbortSignal): Promise<void> {
  for (;;) {
    await pause(POLL_MS, signal);
    if (signal.aborted) return;
    try {
      const index = await client.get("/agent/v1/index", signal);
      if (isJsonObject(index) && isJsonObject(index.progress)) view.update(index.progress);
    } catch (error) {
      // The answer to the sync itself tells what is wrong.
      if (!(error instanceof AgentError)) throw error;
    }
  }
}

/** A sync that reached nothing is a failure; one that refused some documents is told. */
function synced(call: Call, sync: JsonObject): ExitCode {
  const { printer, terminal } = call;
  if (printer.json) printer.document(sync);
  else printer.data(syncText(sync, terminal.nowMs()));
  return ended(call, sync);
}

/** `+ v1/index.json  4 KiB`, and so on; then the sums. */
function previewed(call: Call, preview: JsonObject): ExitCode {
  const { printer } = call;
  if (printer.json) {
    printer.document(preview);
    return ended(call, preview);
  }
  const changes = objectsIn(preview, "changes");
  for (const one of changes) {
    const size = sizeText(numberIn(one, "bytes"));
    printer.data(`${textIn(one, "change") ?? "?"} ${textIn(one, "document") ?? "-"}  ${size}`);
  }
  const count = (name: string) => numberIn(preview, name) ?? 0;
  const more = count("added") + count("changed") + count("removed") - changes.length;
  if (more > 0) printer.data(`... and ${more} more`);
  const put = sizeText(numberIn(preview, "bytes_put"));
  const removed = sizeText(numberIn(preview, "bytes_removed"));
  printer.data(
    `${textIn(preview, "outcome") ?? "-"}: +${count("added")} ~${count("changed")} ` +
      `-${count("removed")}, ${count("unchanged")} unchanged; ${put} in, ${removed} out`,
  );
  return ended(call, preview);
}

function ended({ printer }: Call, sync: JsonObject): ExitCode {
  for (const line of problemLines(sync)) printer.note(`zonewright: ${line}`);
  return textIn(sync, "outcome") === "failed" ? EXIT.failure : EXIT.ok;
}
