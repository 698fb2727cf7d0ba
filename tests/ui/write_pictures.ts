// Writes the pictures of README.md and docs/console.md from an agent with the samples of the demonstration:
//   deno run -A tests/ui/write_pictures.ts
// With a folder, every page in both colour schemes at each width instead, to be looked at:
//   deno run -A tests/ui/write_pictures.ts FOLDER

import { fromFileUrl, join } from "@std/path";
import { type Browser, type BrowserContextOptions, chromium, type Page } from "playwright-core";
import { makeSamples } from "../../src/cli/demo.ts";
import { PACKED_UI, packUi } from "../../vendors/ui.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { requireProgram } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";
import { DEADLINE_MS, WIDTHS } from "./browser.ts";

const DOCS = fromFileUrl(new URL("../../docs/", import.meta.url));
/** Pixels: narrow enough to be read on a page of text. */
const VIEWPORT = { width: 1200, height: 800 };
/** Bytes of a picture: the repository keeps every one that there ever was. */
const BYTES_MAX = 150_000;
/** Milliseconds in which the samples are made on any machine. */
const SAMPLES_MS = 300_000;

const SCHEMES = ["light", "dark"] as const;
type Scheme = NonNullable<BrowserContextOptions["colorScheme"]>;

/** A picture, by the page that it shows and what has to be there before. */
interface Picture {
  readonly name: string;
  readonly path: string;
  readonly ready: string;
  /** Of the picture in the documentation; none has a scheme that is not there. */
  readonly colorScheme?: Scheme;
  /** Does something on the page before. */
  readonly act?: (page: Page) => Promise<void>;
}

async function picturesOf({ url }: AgentProcess): Promise<readonly Picture[]> {
  const jobs = async (query: string) =>
    (await (await fetch(`${url}/agent/v1/jobs?${query}`)).json()).jobs as { uuid: string }[];
  const [failed] = await jobs("state=failed");
  const [waiting] = await jobs("state=waiting");
  const machines = await (await fetch(`${url}/agent/v1/machines`)).json() as {
    uuid: string;
    state: string;
  }[];
  const on = machines.find(({ state }) => state === "running")?.uuid;
  const off = machines.find(({ state }) => state === "stopped")?.uuid;
  const [workflow] = await (await fetch(`${url}/workflows`)).json() as { uuid: string }[];
  const press = (name: string) => async (page: Page) => {
    await page.getByRole("button", { name }).first().click();
    await page.locator("dialog h2, .new-workflow").first().waitFor();
  };
  return [
    { name: "overview", path: "", ready: ".fact", colorScheme: "light" },
    { name: "job", path: `/jobs/${failed?.uuid}`, ready: ".log-line", colorScheme: "dark" },
    { name: "jobs", path: "/jobs", ready: ".rows-body .row", colorScheme: "light" },
    {
      name: "new",
      path: "/new?path=zonewright-sample.iso",
      ready: `[id="field-media.path"]`,
      colorScheme: "light",
    },
    { name: "machines", path: "/machines", ready: ".rows-body .row" },
    {
      name: "machine",
      path: `/machines/${on}`,
      ready: ".screen-connected canvas",
      colorScheme: "dark",
      act: (page) => drawn(page),
    },
    { name: "library", path: "/library", ready: ".rows-body .row", colorScheme: "light" },
    { name: "images", path: "/images", ready: ".distro", colorScheme: "light" },
    { name: "release", path: "/images/zonewright-sample/2.0", ready: ".artifact" },
    {
      name: "workflow",
      path: `/workflows/${workflow?.uuid}`,
      ready: ".job-line",
      colorScheme: "dark",
    },
    { name: "system", path: "/system", ready: ".policy", colorScheme: "light" },
    { name: "waiting", path: `/jobs/${waiting?.uuid}`, ready: ".log", act: press("Resume…") },
    { name: "off", path: `/machines/${off}`, ready: ".console-part .empty" },
    { name: "workflows", path: "/workflows", ready: ".workflows li", act: press("New workflow…") },
    {
      name: "selection",
      path: "/jobs",
      ready: ".rows-body .row",
      act: async (page) => await page.getByRole("checkbox").last().check(),
    },
    { name: "no-job", path: "/jobs?search=nothing", ready: ".empty" },
    { name: "missing", path: "/nowhere", ready: ".empty" },
    {
      name: "refused",
      path: "/new?path=missing.iso",
      ready: ".request-form",
      act: async (page) => {
        await page.getByRole("button", { name: "Check", exact: true }).click();
        await page.locator(".request-form .banner").waitFor();
      },
    },
  ];
}

/** Stops the second machine, so that one is off. */
async function stopOne(agent: AgentProcess): Promise<void> {
  const machines = await (await fetch(`${agent.url}/agent/v1/machines`)).json() as {
    alias: string;
    uuid: string;
  }[];
  const uuid = machines.find(({ alias }) => alias === "web-1")?.uuid;
  await agent.post(`/agent/v1/machines/${uuid}/stop`, { force: true });
  await until("web-1 to be off", async () => {
    const { body } = await agent.get(`/agent/v1/machines/${uuid}`);
    return body.state === "stopped";
  });
}

/** Waits for the first picture of the screen: it comes after the connection. */
async function drawn(page: Page): Promise<void> {
  const picture = "document.querySelector('.screen canvas').toDataURL().length";
  await until("the screen to be drawn", async () => Number(await page.evaluate(picture)) > 1_000);
}

/** @returns the bytes of the picture */
async function take(
  page: Page,
  url: string,
  { path, ready, act }: Picture,
  file: string,
  fullPage: boolean,
): Promise<number> {
  page.setDefaultTimeout(DEADLINE_MS);
  await page.goto(`${url}/ui${path}`);
  await page.locator(ready).first().waitFor();
  await act?.(page);
  return (await page.screenshot({ path: file, fullPage })).byteLength;
}

/** Writes the pictures of the documentation into a folder. @returns their names */
export async function writeDocumentation(folder: string): Promise<readonly string[]> {
  const names: string[] = [];
  await withSamples(async (browser, agent) => {
    for (const picture of await picturesOf(agent)) {
      const { name, colorScheme } = picture;
      if (colorScheme === undefined) continue;
      const page = await browser.newPage({ viewport: VIEWPORT, colorScheme });
      const file = `console-${name}.png`;
      const bytes = await take(page, agent.url, picture, join(folder, file), false);
      if (bytes > BYTES_MAX) throw new Error(`${name} has ${bytes} bytes`);
      names.push(file);
      await page.close();
    }
  });
  return names;
}

async function writeAll(browser: Browser, agent: AgentProcess, folder: string): Promise<void> {
  await Deno.mkdir(folder, { recursive: true });
  for (const picture of await picturesOf(agent)) {
    for (const width of WIDTHS) {
      for (const colorScheme of SCHEMES) {
        const page = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
        const file = join(folder, `${picture.name}-${width}-${colorScheme}.png`);
        await take(page, agent.url, picture, file, true);
        await page.close();
      }
    }
  }
}

/** Runs with an agent that has the samples, and a browser to look at it. */
async function withSamples(
  run: (browser: Browser, agent: AgentProcess) => Promise<void>,
): Promise<void> {
  const executablePath = requireProgram("chromium");
  if (executablePath === undefined) throw new Error("There is no chromium");
  if (programOfRun().name === "source") await packUi(PACKED_UI);
  await withFolder(async (temporary) => {
    const agent = await startAgentProcess(programOfRun(), `${temporary}/state`, ["--dev"]);
    // The sandbox of the browser needs a user of its own; it only sees pages of this agent.
    const browser = await chromium.launch({
      executablePath,
      args: ["--no-sandbox"],
      timeout: DEADLINE_MS,
    });
    try {
      await until("the index", async () => {
        const { body } = await agent.get("/agent/v1/index");
        return body.documents !== 0 && body.syncing === false;
      });
      await makeSamples(agent.url, AbortSignal.timeout(SAMPLES_MS));
      await stopOne(agent);
      await run(browser, agent);
    } finally {
      await browser.close();
      await agent.stop();
      await agent.simulate("stop-all");
    }
  });
}

if (import.meta.main) {
  const [folder] = Deno.args;
  if (folder === undefined) await writeDocumentation(DOCS);
  else await withSamples((browser, agent) => writeAll(browser, agent, folder));
}
