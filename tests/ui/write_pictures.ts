// Writes the pictures of docs/console.md from an agent with the samples of the demonstration:
//   deno run -A tests/ui/write_pictures.ts

import { fromFileUrl } from "@std/path";
import { type BrowserContextOptions, chromium } from "playwright-core";
import { makeSamples } from "../../src/cli/demo_samples.ts";
import { PACKED_UI, packUi } from "../../vendors/ui.ts";
import { sourceProgram, startAgentProcess } from "../support/agent_process.ts";
import { requireProgram } from "../support/program.ts";
import { until, withFolder } from "../support/until.ts";

const DOCS = fromFileUrl(new URL("../../docs/", import.meta.url));
/** Pixels: narrow enough to be read on a page of text. */
const VIEWPORT = { width: 1200, height: 800 };
/** Bytes of a picture: the repository keeps every one that there ever was. */
const BYTES_MAX = 150_000;

/** A picture, by the page that it shows and what has to be there before. */
interface Picture {
  readonly name: string;
  readonly path: string;
  readonly ready: string;
  readonly colorScheme: NonNullable<BrowserContextOptions["colorScheme"]>;
}

async function picturesOf(url: string): Promise<readonly Picture[]> {
  const failed = await (await fetch(`${url}/agent/v1/jobs?state=failed`)).json();
  return [
    { name: "console-overview", path: "/ui", ready: ".fact", colorScheme: "light" },
    {
      name: "console-job",
      path: `/ui/jobs/${failed.jobs[0].uuid}`,
      ready: ".log-line",
      colorScheme: "dark",
    },
  ];
}

async function write(url: string): Promise<void> {
  const executablePath = requireProgram("chromium");
  if (executablePath === undefined) throw new Error("There is no chromium");
  // The sandbox of the browser needs a user of its own; it only sees pages of this agent.
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  try {
    for (const { name, path, ready, colorScheme } of await picturesOf(url)) {
      const page = await browser.newPage({ viewport: VIEWPORT, colorScheme });
      await page.goto(url + path);
      await page.locator(ready).first().waitFor();
      const bytes = await page.screenshot({ path: `${DOCS}${name}.png` });
      if (bytes.byteLength > BYTES_MAX) throw new Error(`${name} has ${bytes.byteLength} bytes`);
      await page.close();
    }
  } finally {
    await browser.close();
  }
}

await packUi(PACKED_UI);
await withFolder(async (folder) => {
  const agent = await startAgentProcess(sourceProgram(), `${folder}/state`, ["--dev"]);
  try {
    await until("the index", async () => {
      const { body } = await agent.get("/agent/v1/index");
      return body.documents !== 0 && body.syncing === false;
    });
    await makeSamples(agent.url, AbortSignal.timeout(120_000));
    await write(agent.url);
  } finally {
    await agent.stop();
  }
});
