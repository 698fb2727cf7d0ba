// What the console takes to show a host with a long history: 100,000 jobs and 500 machines. In the browser,
// from the address to the first paint and to the first rows, and from a filter to its rows.

import { join } from "@std/path";
import { type Browser, chromium, type Page } from "playwright-core";
import { DATABASE_NAME } from "../src/state_dir/state_dir.ts";
import { findProgram } from "../tests/support/program.ts";
import { type AgentUnderTest, BINARY, startAgentUnderTest } from "./agent_under_test.ts";
import { fillWithJobs } from "./fill.ts";
import { figure, spread, spreadText, tableLines } from "./numbers.ts";
import { withRunFolder } from "./run_folder.ts";

const SUCCEEDED = 90_000;
const FAILED = 10_000;
const MACHINES = 500;
const ROUNDS = 10;
const PAINT_MS_AIM = 300;
const FILTER_MS_AIM = 100;
const DEADLINE_MS = 60_000;
const VIEWPORT = { width: 1280, height: 900 };

/** Workflows of which the jobs are made; each job has an error or none, and params to be searched. */
const WORKFLOWS = {
  succeeded: { name: "import-dataset", body: "(job, cb) => cb(null, 'done')" },
  failed: { name: "copy-dataset", body: "(job, cb) => cb('the checksum is wrong')" },
} as const;

/** An instant so many seconds ago, as the store writes it. */
const agoSql = (seconds: string) =>
  `strftime('%Y-%m-%dT%H:%M:%fZ', 'now', printf('-%d seconds', ${seconds}))`;

async function fill(folder: string): Promise<void> {
  const agent = await startAgentUnderTest(folder);
  try {
    for (const { name, body } of Object.values(WORKFLOWS)) {
      const { uuid } = await post(agent, "/workflows", { name, chain: [{ name: "only", body }] });
      const params = { dataset: "zones/images", color: "red", size: 1_024 };
      const job = await post(agent, "/jobs", { workflow: uuid, target: "/datasets/0", ...params });
      await ended(agent, String(job.uuid));
    }
  } finally {
    await agent.stop();
  }
  const path = join(folder, "state", DATABASE_NAME);
  for (const [execution, jobs] of [["succeeded", SUCCEEDED], ["failed", FAILED]] as const) {
    fillWithJobs(path, jobs, execution, {
      created_at: agoSql(`${jobs} - number + 10`),
      finished_at: agoSql(`${jobs} - number + 5`),
      target: "'/datasets/' || CAST(number AS INTEGER)",
    });
  }
  await makeMachines(join(folder, "state", "simulator"));
}

async function post(agent: AgentUnderTest, path: string, body: unknown) {
  const answer = await fetch(agent.url + path, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (!answer.ok) throw new Error(`${path}: ${await answer.text()}`);
  return await answer.json() as { readonly uuid: string };
}

async function ended(agent: AgentUnderTest, uuid: string): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  for (;;) {
    const job = await (await fetch(`${agent.url}/agent/v1/jobs/${uuid}`)).json();
    if (job.finished_at !== null) return;
    if (performance.now() > deadline) throw new Error(`The job ${uuid} is ${job.state}`);
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const uuidOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;

/** Makes one machine of the simulated host, and the others by copying its record. */
async function makeMachines(state: string): Promise<void> {
  const payload = { uuid: uuidOf(1), alias: "machine-1", brand: "bhyve", ram: 1_024, vcpus: 1 };
  const { code, stderr } = await withInput(
    ["simulate", "--state", state, "vmadm", "create"],
    JSON.stringify(payload),
  );
  if (code !== 0) throw new Error(stderr);
  const pathOf = (number: number) => join(state, "machines", `${uuidOf(number)}.json`);
  const record = await Deno.readTextFile(pathOf(1));
  for (let number = 2; number <= MACHINES; number++) {
    const text = record.replaceAll(uuidOf(1), uuidOf(number))
      .replaceAll('"machine-1"', `"machine-${number}"`);
    await Deno.writeTextFile(pathOf(number), text);
  }
}

async function withInput(args: readonly string[], input: string) {
  const process = new Deno.Command(BINARY, {
    args: [...args],
    stdin: "piped",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const writer = process.stdin.getWriter();
  await writer.write(new TextEncoder().encode(input));
  await writer.close();
  const { code, stderr } = await process.output();
  return { code, stderr: new TextDecoder().decode(stderr) };
}

/** What the page looks like once it is done; source of a function in the page. */
interface Look {
  readonly name: string;
  readonly path: string;
  /** Does it; source of an expression in the page. None: the page is opened. */
  readonly act?: string;
  /** Whether it is done; source of an expression in the page. */
  readonly done: string;
}

const clickTab = (title: string) =>
  `[...document.querySelectorAll(".tab")].find((tab) => tab.textContent.startsWith("${title}")).click()`;
const type = (text: string) =>
  `(() => {
    const input = document.querySelector('input[type="search"]');
    input.value = ${JSON.stringify(text)};
    input.dispatchEvent(new Event("input", { bubbles: true }));
  })()`;
const rowsWith = (selector: string) =>
  `document.querySelectorAll(".rows-body .row").length > 0 &&
   [...document.querySelectorAll(".rows-body .row")].every((row) => row.querySelector("${selector}"))`;
const onlyRow = (text: string) =>
  `document.querySelectorAll(".rows-body .row").length === 1 &&
   document.querySelector(".rows-body").textContent.includes("${text}")`;

/** Each filter begins on a page that shows all. */
const FILTERS: readonly Look[] = [
  {
    name: "jobs that failed",
    path: "/ui/jobs",
    act: clickTab("Failed"),
    done: rowsWith(".state-failed"),
  },
  {
    name: "search, many hits",
    path: "/ui/jobs",
    act: type("checksum is wrong"),
    done: rowsWith(".state-failed"),
  },
  {
    name: "search, first hit of the last job",
    path: "/ui/jobs",
    act: type(`datasets/${FAILED}`),
    done:
      `document.querySelector(".rows-body .row .cell-target")?.textContent === "/datasets/${FAILED}"`,
  },
  {
    name: "search through all, no hit",
    path: "/ui/jobs",
    act: type("nothing has this"),
    done: `document.querySelector("#jobs .empty") !== null`,
  },
  {
    name: "machines by name",
    path: "/ui/machines",
    act: type("machine-499"),
    done: onlyRow("machine-499"),
  },
];
const PAGES: readonly Look[] = [
  { name: "overview", path: "/ui", done: 'document.querySelector(".tile-count") !== null' },
  { name: "jobs", path: "/ui/jobs", done: 'document.querySelector(".rows-body .row") !== null' },
  {
    name: "machines",
    path: "/ui/machines",
    done: 'document.querySelector(".rows-body .row") !== null',
  },
];

/**
 * Resolves with the time of the frame that shows it. It looks when the page changes: a look at every frame has
 * the browser draw all the time, which takes the processors from the agent.
 */
const frameOf = (done: string) =>
  `new Promise((resolve) => {
    const look = () => {
      if (!(${done})) return;
      changes.disconnect();
      const channel = new MessageChannel();
      channel.port1.onmessage = () => resolve(performance.now());
      requestAnimationFrame(() => channel.port2.postMessage(0));
    };
    const changes = new MutationObserver(look);
    changes.observe(document, {
      subtree: true,
      childList: true,
      attributes: true,
      characterData: true,
    });
    look();
  })`;

const FIRST_PAINT =
  `performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? performance.now()`;

interface Opened {
  readonly paintMs: number;
  readonly rowsMs: number;
}

async function openOnce(page: Page, url: string, { path, done }: Look): Promise<Opened> {
  await page.goto(url + path, { waitUntil: "commit" });
  const rowsMs = Number(await page.evaluate(frameOf(done)));
  return { paintMs: Number(await page.evaluate(FIRST_PAINT)), rowsMs };
}

async function filterOnce(page: Page, url: string, { path, act = "", done }: Look) {
  await page.goto(url + path);
  const shown =
    'document.querySelector(".rows-body .row") !== null && document.body.textContent.includes("live")';
  await page.evaluate(frameOf(shown));
  return Number(
    await page.evaluate(`(async () => {
    const began = performance.now();
    ${act};
    return await ${frameOf(done)} - began;
  })()`),
  );
}

async function measure(browser: Browser, url: string): Promise<string[][]> {
  const rows: string[][] = [];
  const add = (name: string, times: readonly number[], aim: number) => {
    const met = spread(times).median <= aim ? "met" : "missed";
    rows.push([name, spreadText(spread(times)), figure(aim), met]);
    console.error(`${name}: ${times.map(figure).join(" ")}`);
  };
  for (const look of PAGES) {
    const times: Opened[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      const page = await browser.newPage({ viewport: VIEWPORT });
      const opened = await openOnce(page, url, look);
      await page.close();
      // The first one reads programs from the disk.
      if (round > 0) times.push(opened);
    }
    add(`${look.name}: first paint`, times.map(({ paintMs }) => paintMs), PAINT_MS_AIM);
    add(`${look.name}: content`, times.map(({ rowsMs }) => rowsMs), PAINT_MS_AIM);
  }
  const page = await browser.newPage({ viewport: VIEWPORT });
  page.setDefaultTimeout(DEADLINE_MS);
  for (const look of FILTERS) {
    const times: number[] = [];
    for (let round = 0; round <= ROUNDS; round++) {
      const ms = await filterOnce(page, url, look);
      if (round > 0) times.push(ms);
    }
    add(look.name, times, FILTER_MS_AIM);
  }
  return rows;
}

const executablePath = findProgram("chromium");
if (executablePath === undefined) throw new Error("Cannot measure the console: no chromium");
await withRunFolder(async (folder) => {
  console.error(`Fills a store with ${figure(SUCCEEDED + FAILED)} jobs, and ${MACHINES} machines`);
  await fill(folder);
  const agent = await startAgentUnderTest(folder);
  // The sandbox of the browser needs a user of its own; it only sees pages of this agent.
  const browser = await chromium.launch({
    executablePath,
    args: ["--no-sandbox"],
    // It would end this program before its folder is removed.
    handleSIGINT: false,
    handleSIGTERM: false,
  });
  try {
    const rows = await measure(browser, agent.url);
    const head = ["", "ms: least / median / most", "aim", ""];
    console.log(tableLines([head, ...rows]).join("\n"));
  } finally {
    await browser.close();
    await agent.stop();
  }
});
