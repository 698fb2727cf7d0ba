// The rate of a download that is hashed while it arrives and put into the agent's cache, beside `cp`
// and `sha256sum` of the same file.

import { join } from "@std/path";
import { startAgentUnderTest } from "./agent_under_test.ts";
import { peakResidentMiB } from "./process_use.ts";
import { withFolder } from "./run_folder.ts";

const PART_BYTES = 1024 * 1024;
const JOB_SECONDS = 600;
/** The longest that one request waits for a job. */
const WAIT_SECONDS = 60;
const FILE = "medium.raw";
/** Measured inside the task: how a job is claimed and reported is measured elsewhere. */
const BODY = `async function download(job, cb) {
  const began = Date.now();
  const medium = await media.find({ url: job.params.url, digest: job.params.digest });
  cb(null, { ms: Date.now() - began, size: medium.size });
}`;

export interface DownloadRound {
  readonly downloadMs: number;
  readonly copyMs: number;
  readonly hashMs: number;
}

export interface DownloadResult {
  readonly bytes: number;
  readonly rounds: readonly DownloadRound[];
  /** Of the agent: before the first download and at its peak. */
  readonly idleMiB: number;
  readonly peakMiB: number;
}

export async function measureDownload(
  parent: string,
  { binary, bytes, rounds }: { binary: string; bytes: number; rounds: number },
): Promise<DownloadResult> {
  return await withFolder(parent, async (folder) => {
    const results: DownloadRound[] = [];
    let [idleMiB, peakMiB] = [0, 0];
    for (let round = 0; round < rounds; round++) {
      // Another file each time: the agent would find the first one in its cache.
      const file = join(folder, FILE);
      await writeRandom(file, bytes);
      const copyMs = await timed("cp", [file, `${file}.copy`]);
      await Deno.remove(`${file}.copy`);
      const began = performance.now();
      const digest = await sha256sum(file);
      const hashMs = performance.now() - began;
      await withFolder(folder, async (state) => {
        const server = serveFile(file);
        const agent = await startAgentUnderTest(
          state,
          ["--index", server.url, "--allow-http-index", "--index-interval", "off"],
          binary,
        );
        try {
          idleMiB = peakResidentMiB(agent.pid);
          const { ms, size } = await download(agent.url, `${server.url}/${FILE}`, digest);
          if (size !== bytes) throw new Error(`${size} bytes were downloaded`);
          results.push({ downloadMs: ms, copyMs, hashMs });
          peakMiB = Math.max(peakMiB, peakResidentMiB(agent.pid));
        } finally {
          await agent.stop();
          await server.close();
        }
      });
      await Deno.remove(file);
    }
    return { bytes, rounds: results, idleMiB, peakMiB };
  });
}

/** Runs the download as a job, and waits for its end. */
async function download(
  url: string,
  address: string,
  digest: string,
): Promise<{ ms: number; size: number }> {
  const tasks = [{ name: "download", body: BODY, timeout: JOB_SECONDS }];
  const workflow = await call(url, "POST", "/workflows", { name: "bench-download", chain: tasks });
  const params = { url: address, digest: `sha256:${digest}` };
  const made = await call(url, "POST", "/jobs", { workflow: workflow.uuid, ...params });
  let job = made;
  for (let waited = 0; waited < JOB_SECONDS && !("finished_at" in job); waited += WAIT_SECONDS) {
    job = await call(url, "GET", `/jobs/${made.uuid}/wait?timeout=${WAIT_SECONDS}`);
  }
  const [entry] = job.chain_results as { result: unknown; error: unknown }[];
  const result = entry?.result as { ms?: number; size?: number };
  if (typeof result?.ms !== "number" || typeof result.size !== "number") {
    throw new Error(`The download failed: ${JSON.stringify(entry)}`);
  }
  return { ms: result.ms, size: result.size };
}

async function call(
  url: string,
  method: string,
  path: string,
  body?: unknown,
): Promise<Record<string, unknown>> {
  const response = await fetch(url + path, {
    method,
    ...(body === undefined ? {} : {
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
    }),
  });
  const answer = await response.json();
  if (!response.ok) throw new Error(`${path} answered ${response.status}: ${answer.message}`);
  return answer;
}

/** A server that sends the file as fast as it is taken; a process of its own would cost no less. */
function serveFile(file: string): { url: string; close(): Promise<void> } {
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen() {} }, async (request) => {
    if (new URL(request.url).pathname !== `/${FILE}`) return new Response("none", { status: 404 });
    const opened = await Deno.open(file);
    const { size } = await opened.stat();
    return new Response(opened.readable, {
      headers: { "content-length": String(size), etag: `"${size}"` },
    });
  });
  return { url: `http://127.0.0.1:${server.addr.port}`, close: () => server.shutdown() };
}

/** Random parts that repeat: no file system makes a shortcut of them. */
async function writeRandom(path: string, bytes: number): Promise<void> {
  const part = new Uint8Array(PART_BYTES);
  for (let at = 0; at < part.length; at += 65_536) {
    crypto.getRandomValues(part.subarray(at, at + 65_536));
  }
  using file = await Deno.open(path, { write: true, create: true, truncate: true });
  const counter = new DataView(part.buffer);
  for (let left = bytes; left > 0; left -= part.length) {
    counter.setFloat64(0, left);
    let written = 0;
    const wanted = Math.min(left, part.length);
    while (written < wanted) written += await file.write(part.subarray(written, wanted));
  }
  await file.sync();
}

async function timed(program: string, args: string[]): Promise<number> {
  const began = performance.now();
  await output(program, args);
  return performance.now() - began;
}

async function sha256sum(path: string): Promise<string> {
  return (await output("sha256sum", [path])).slice(0, 64);
}

async function output(program: string, args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args }).output();
  const decoder = new TextDecoder();
  if (!success) throw new Error(`${program} failed: ${decoder.decode(stderr)}`);
  return decoder.decode(stdout);
}
