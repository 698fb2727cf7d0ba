// How fast lists and documents leave a running agent: megabytes a second of GET /jobs over many
// ordinary jobs, over few large ones, of one large job, of its info, and of workflows.
//
// bench/lists.ts URL [--fill]: measures the agent at URL; --fill writes what is measured first, into
// an agent that has nothing else.

const ROUNDS = 5;
const ORDINARY = 5_000;
const LARGE = 40;
const ENTRIES = 400;
/** Far enough that nobody runs the jobs meanwhile. */
const LATER = "2099-01-01T00:00:00.000Z";

const [url, fill] = Deno.args;
if (url === undefined) {
  console.error("usage: bench/lists.ts URL [--fill]");
  Deno.exit(2);
}

async function call(method: string, path: string, body?: unknown): Promise<Response> {
  const headers = { "content-type": "application/json", "accept-encoding": "identity" };
  const sent = body === undefined ? {} : { body: JSON.stringify(body) };
  const answer = await fetch(new URL(path, url), { method, headers, ...sent });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer;
}

async function made(path: string, body: unknown): Promise<string> {
  return (await (await call("POST", path, body)).json()).uuid;
}

async function fillAgent(): Promise<void> {
  const task = { name: "first", body: `function (job, cb) { cb(); /* ${"x".repeat(500)} */ }` };
  const ordinary = await made("/workflows", { name: "ordinary", chain: [task] });
  const large = await made("/workflows", { name: "large", chain: [task] });
  for (let n = 0; n < ORDINARY; n += 50) {
    await Promise.all(Array.from({ length: 50 }, (_, at) =>
      made("/jobs", {
        workflow: ordinary,
        exec_after: LATER,
        alias: `machine-${n + at}`,
        note: "y".repeat(200),
      })));
  }
  const list = Array(175_000).fill({ a: 1 });
  let uuid = "";
  for (let n = 0; n < LARGE; n++) {
    uuid = await made("/jobs", { workflow: large, exec_after: LATER, list });
  }
  const entry = { text: "z".repeat(60_000) };
  for (let n = 0; n < ENTRIES; n++) await call("POST", `/jobs/${uuid}/info`, entry);
  const note = "n".repeat(1_500_000);
  for (let n = 0; n < LARGE; n++) await made("/workflows", { name: `w${n}`, chain: [task], note });
}

async function speedOf(path: string): Promise<number> {
  const beganMs = performance.now();
  let bytes = 0;
  const { body } = await call("GET", path);
  for await (const part of body ?? []) bytes += part.byteLength;
  return bytes / 1e3 / (performance.now() - beganMs);
}

if (fill === "--fill") await fillAgent();
const [large] = await (await call("GET", "/jobs?name=large&limit=1")).json();
const PATHS: readonly (readonly [string, string])[] = [
  [`GET /jobs, ${ORDINARY} ordinary jobs`, "/jobs?name=ordinary"],
  [`GET /jobs, ${LARGE} jobs of 1.4 MB`, "/jobs?name=large"],
  ["GET /jobs/UUID, 1.4 MB", `/jobs/${large.uuid}`],
  [`GET .../info, ${ENTRIES} entries of 60 kB`, `/jobs/${large.uuid}/info`],
  [`GET /workflows, ${LARGE} of 1.5 MB`, "/workflows"],
];
for (const [name, path] of PATHS) {
  const speeds: number[] = [];
  for (let round = 0; round <= ROUNDS; round++) {
    const speed = await speedOf(path);
    // The first one warms up.
    if (round > 0) speeds.push(speed);
  }
  console.log(name.padEnd(42), speeds.map((speed) => speed.toFixed(0)).join(" "), "MB/s");
}
