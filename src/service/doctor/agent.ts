// The agent itself: whether it answers where the configuration says that it listens.

import { messageOf } from "../../domain/error.ts";
import { type Check, type Finding, ok, skipped } from "./check.ts";
import type { Now } from "../../domain/instant.ts";
import { inspectDatabase, readLatest } from "../../store/sqlite/database_file.ts";
import { statOf } from "./place.ts";

/** Milliseconds for an answer. */
const ANSWER_MS = 5_000;

/** The answer to a caller that shows no token where one is wanted. */
const UNAUTHORIZED = 401;

/** Where the agent listens, as it is configured. */
interface ListenPlaces {
  readonly tcp: { readonly hostname: string; readonly port: number } | null;
  readonly socket: string | null;
  /** The file of the certificate with which TLS is spoken on the port; null for plain HTTP. */
  readonly tlsCert: string | null;
}

/** Whether an agent answers. One that wants a token, which the doctor has not, has answered too. */
export function agentCheck(places: ListenPlaces): Check {
  return {
    name: "agent",
    about: "an agent answers where the configuration says",
    async examine() {
      const { url, place, client } = await wayTo(places);
      try {
        const response = await fetch(`${url}/ping`, {
          signal: AbortSignal.timeout(ANSWER_MS),
          ...(client === undefined ? {} : { client }),
        });
        const text = await response.text();
        if (response.status === UNAUTHORIZED) return ok(`${place}, which wants a token`);
        if (!response.ok) return { outcome: "fail", detail: `${place} answers ${response.status}` };
        const pid = /"pid":\s*(\d+)/.exec(text)?.[1] ?? "unknown";
        return ok(`${place}, pid ${pid}`);
      } catch (error) {
        // What went wrong stands in the cause; some runtimes have it in the message too.
        const inner = error instanceof Error && error.cause !== undefined ? error.cause : error;
        return withoutAnswer(place, messageOf(inner));
      } finally {
        client?.close();
      }
    },
  };
}

/** A certificate rarely names the address that is listened on: callers use the name. */
function withoutAnswer(place: string, words: string): Finding {
  if (/certificate not valid for name/i.test(words)) return ok(`${place}, under another name`);
  if (/certificate/i.test(words)) {
    return { outcome: "warn", detail: `${place}: ${words}`, fix: "renew tls_cert, then reload" };
  }
  const fix =
    "start the service: zonewright install, systemctl start zonewright, svcadm enable zonewright";
  return { outcome: "warn", detail: `nobody answers at ${place}: ${words}`, fix };
}

/** Over TLS the socket is preferred: no certificate names it, and none has to be trusted. */
async function wayTo(
  { tcp, socket, tlsCert }: ListenPlaces,
): Promise<{ url: string; place: string; client?: Deno.HttpClient }> {
  if (socket !== null && (tcp === null || tlsCert !== null)) {
    const client = Deno.createHttpClient({ proxy: { transport: "unix", path: socket } });
    return { url: "http://localhost", place: `unix:${socket}`, client };
  }
  const host = tcp?.hostname.includes(":") ? `[${tcp.hostname}]` : tcp?.hostname;
  const address = `${host}:${tcp?.port}`;
  if (tlsCert === null) return { url: `http://${address}`, place: `http://${address}` };
  const client = Deno.createHttpClient({ caCerts: [await Deno.readTextFile(tlsCert)] });
  return { url: `https://${address}`, place: `https://${address}`, client };
}

// What the database can tell: whether it is sound, how old the index is, whether the clock went back.

/** Seconds that a clock may be behind what was recorded: two processes do not write in order. */
const CLOCK_SECONDS_BEHIND_MAX = 5;
/** No host of ours ran before; a clock that says so was never set. */
const EARLIEST = "2025-01-01T00:00:00.000Z";
/** Intervals of the index without a sync after which it is called old. */
const INTERVALS_MAX = 2;

/** The database as a file. */
export function storeCheck(path: string): Check {
  return {
    name: "store",
    about: "the database is sound: every page, index and reference",
    async examine() {
      if (await statOf(path) === undefined) return skipped(`${path} is made by the first start`);
      const { schema, jobs, bytes, problems } = await inspectDatabase(path);
      if (problems.length === 0) return ok(`schema ${schema}, ${jobs} jobs, ${bytes} bytes`);
      const fix = "stop the agent, then zonewright db restore FILE";
      return { outcome: "fail", detail: `damaged: ${problems.join("; ")}`, fix };
    },
  };
}

/** The host's clock beside what was recorded under it. */
export function clockCheck(path: string, now: Now): Check {
  return {
    name: "clock",
    about: "the clock is set, and not behind what the database has seen",
    async examine() {
      const at = now();
      const fix = "set the clock, and keep it set by NTP";
      if (at < EARLIEST) {
        return { outcome: "fail", detail: `it is ${at}: the clock was never set`, fix };
      }
      if (await statOf(path) === undefined) return ok(at);
      const { recorded_at } = readLatest(path);
      const behind = recorded_at === null ? 0 : (Date.parse(recorded_at) - Date.parse(at)) / 1000;
      if (behind <= CLOCK_SECONDS_BEHIND_MAX) return ok(at);
      const detail = `it is ${at}, ${
        Math.round(behind)
      } s before the latest record (${recorded_at})`;
      return { outcome: "warn", detail, fix };
    },
  };
}

/** How old the mirrored index is. @param intervalSeconds 0 for syncs by hand alone */
export function indexCheck(
  path: string,
  { upstream, intervalSeconds, now }: {
    upstream: string | null;
    intervalSeconds: number;
    now: Now;
  },
): Check {
  return {
    name: "index",
    about: "the image index was synced in time, without problems",
    async examine() {
      if (upstream === null) return skipped("no index is configured");
      const fix = "zonewright image sync --wait, zonewright image status";
      const sync = await statOf(path) === undefined ? null : readLatest(path).sync;
      if (sync === null) return { outcome: "warn", detail: `${upstream} was never synced`, fix };
      const age = (Date.parse(now()) - Date.parse(sync.finished_at)) / 1000;
      const detail = `synced ${Math.round(age / 60)} min ago: ${sync.outcome}`;
      const old = intervalSeconds > 0 && age > INTERVALS_MAX * intervalSeconds;
      return old || sync.outcome !== "complete" ? { outcome: "warn", detail, fix } : ok(detail);
    },
  };
}
