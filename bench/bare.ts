// The least that a durable queue over HTTP can do, to measure against: group commit into SQLite,
// and a "job" that is a call in the same process. No validation, no routing, no sandbox.
//
// bare.ts FILE commits to that file; bare.ts none commits nothing and answers at once, which shows
// what the load generator can do.

import { DatabaseSync } from "node:sqlite";
import { wallClockOffsetMs } from "./wall_clock.ts";

interface Job {
  readonly uuid: string;
  began?: number;
  ended?: boolean;
  waiting?: () => void;
}

const HEADERS = { "content-type": "application/json" };
const jobs = new Map<string, Job>();
const epochMs = wallClockOffsetMs();
let unfinished = 0;

interface Store {
  insert(job: Job, body: string): Promise<void>;
  finish(job: Job): Promise<void>;
}

const noStore: Store = { insert: () => Promise.resolve(), finish: () => Promise.resolve() };

/** Whatever is written before the event loop comes round goes into one transaction. */
function openStore(path: string): Store {
  const db = new DatabaseSync(path);
  db.exec(`
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE jobs (uuid TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
    CREATE TABLE results (uuid TEXT PRIMARY KEY, result TEXT NOT NULL) STRICT;
  `);
  const insert = db.prepare("INSERT INTO jobs (uuid, body) VALUES (?, ?)");
  const finish = db.prepare("INSERT INTO results (uuid, result) VALUES (?, 'OK')");
  let pending: { run: () => unknown; done: () => void }[] = [];
  const write = (run: () => unknown) =>
    new Promise<void>((done) => {
      pending.push({ run, done });
      if (pending.length > 1) return;
      setImmediate(() => {
        const batch = pending;
        pending = [];
        db.exec("BEGIN IMMEDIATE");
        for (const { run } of batch) run();
        db.exec("COMMIT");
        for (const { done } of batch) done();
      });
    });
  return {
    insert: (job, body) => write(() => insert.run(job.uuid, body)),
    finish: (job) => write(() => finish.run(job.uuid)),
  };
}

async function run(job: Job, store: Store): Promise<void> {
  job.began = epochMs + performance.now();
  await store.finish(job);
  job.ended = true;
  unfinished -= 1;
  job.waiting?.();
}

async function post(request: Request, store: Store): Promise<Response> {
  const text = await request.text();
  const { exec_after } = JSON.parse(text);
  const job: Job = { uuid: crypto.randomUUID() };
  await store.insert(job, text);
  jobs.set(job.uuid, job);
  unfinished += 1;
  if (exec_after === undefined) void run(job, store);
  return new Response(JSON.stringify(job), { status: 201, headers: HEADERS });
}

async function wait(uuid: string): Promise<Response> {
  const job = jobs.get(uuid);
  if (job === undefined) return new Response("{}", { status: 404, headers: HEADERS });
  if (!job.ended) await new Promise<void>((resolve) => job.waiting = resolve);
  return new Response(JSON.stringify(job), { headers: HEADERS });
}

const [path = "none"] = Deno.args;
const store = path === "none" ? noStore : openStore(path);
Deno.serve({
  hostname: "127.0.0.1",
  port: 0,
  onListen: ({ port }) => console.log(`http://127.0.0.1:${port}`),
}, async (request) => {
  const { pathname } = new URL(request.url);
  if (pathname === "/jobs") return await post(request, store);
  if (pathname === "/stats") {
    return new Response(JSON.stringify({ current: { queued: unfinished } }), { headers: HEADERS });
  }
  return await wait(pathname.split("/")[2] ?? "");
});
