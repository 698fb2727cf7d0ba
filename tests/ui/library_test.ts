// The library in a browser: files that come by an upload, are verified and removed, an upload that goes on after
// its agent was killed, and one that is canceled.

import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { join } from "@std/path";
import { Buffer } from "node:buffer";
import type { Page } from "playwright-core";
import type { JsonObject } from "../../src/domain/json.ts";
import { ISO, type MachineAgent, withMachineAgent } from "../http/machine_process.ts";
import { type AgentProcess, programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { isoBytes } from "../support/medium.ts";
import { until, withFolder } from "../support/until.ts";
import { newToken, withAgent } from "./agent.ts";
import { browserTest, expectSoundAtAllWidths, type OpenBrowser } from "./browser.ts";

const NAME = "debian-13.iso";
const BYTES = isoBytes(120_000);
const MIB = 1024 * 1024;
/** What the page waits for at a cut, and the browser names on its console. */
const CUT = /net::ERR_|status of 4(?:04|09)/;

/** An agent that ends after the pages. */
function withLibrary(
  browser: OpenBrowser,
  run: (agent: MachineAgent) => Promise<void>,
): Promise<void> {
  return withMachineAgent(programOfRun(), async (agent) => {
    try {
      await run(agent);
    } finally {
      await browser.closePages();
    }
  });
}

async function give(page: Page, name: string, bytes: Uint8Array): Promise<void> {
  const file = { name, mimeType: "application/octet-stream", buffer: Buffer.from(bytes) };
  await page.locator("input[type=file]").setInputFiles([file]);
}

/** A file that is too large to be sent to the browser as a text. */
async function giveLarge(page: Page, folder: string, name: string, bytes: number) {
  const path = join(folder, name);
  const content = isoBytes(bytes);
  await Deno.writeFile(path, content);
  await page.locator("input[type=file]").setInputFiles(path);
  return content;
}

async function filesOf(agent: AgentProcess): Promise<JsonObject[]> {
  return (await agent.get("/agent/v1/media/library")).body.files as JsonObject[];
}

browserTest(
  "a file is uploaded, verified, replaced and removed",
  (browser) =>
    withLibrary(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/library`);
      const row = page.getByRole("row").filter({ hasText: NAME });
      await page.getByRole("row").filter({ hasText: ISO }).waitFor();
      await give(page, "notes.txt", BYTES);
      await page.getByText("notes.txt cannot be booted").waitFor();
      await give(page, ISO, BYTES);
      await page.getByText(`${ISO} is in a media folder of the operator`).waitFor();
      await give(page, "Debian 13.iso".replace("D", "d"), BYTES);
      await page.locator(".upload-done").getByText("Uploaded, 117 KiB").waitFor();
      await row.getByText("uploads").waitFor();
      await row.getByRole("button", { name: `Verify ${NAME}` }).click();
      await page.getByRole("dialog").getByRole("button", { name: `Verify ${NAME}` }).click();
      await page.getByText("Read again and verified").waitFor();

      await give(page, NAME, isoBytes(240_000));
      await page.getByRole("button", { name: `Replace ${NAME}` }).click();
      await row.getByText("234 KiB").waitFor();

      await row.getByRole("button", { name: `Remove ${NAME}` }).click();
      await page.getByText("The same from a terminal").last().click();
      const commands = await page.locator(".dialog .command code").allInnerTexts();
      assert(commands[0]?.startsWith(`zonewright media rm ${NAME}`), commands[0]);
      assert(commands[1]?.endsWith(`/agent/v1/media/library/${NAME}`), commands[1]);
      await page.getByRole("button", { name: `Remove ${NAME}`, exact: true }).last().click();
      await row.waitFor({ state: "detached" });
      // The operator's own stay as they are.
      const own = page.getByRole("row").filter({ hasText: ISO });
      assertEquals(await own.getByRole("button", { name: "Remove" }).count(), 0);
      // Another caller's file comes by itself.
      await fetch(`${agent.url}/agent/v1/media/library/by-curl.iso`, {
        method: "PUT",
        body: BYTES,
      });
      await page.getByRole("row").filter({ hasText: "by-curl.iso" }).waitFor();
    }),
);

browserTest(
  "an upload goes on where it was after the agent was killed, and its bytes are those of the file",
  (browser) =>
    withFolder(async (folder) => {
      const stateDir = join(folder, "state");
      const first = await startAgentProcess(programOfRun(), stateDir, ["--host", "simulated"]);
      const { host } = new URL(first.url);
      const { page } = await browser.open(`${first.url}/ui/library`, { tolerated: CUT });
      await page.getByText("The library has no files").waitFor();
      const part = join(stateDir, "uploads/.zonewright-uploads", NAME);
      const session = await page.context().newCDPSession(page);
      // Slow enough to be cut in the middle, however late the cut comes.
      const rate = 2 * MIB;
      const limits = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: rate };
      await session.send("Network.enable");
      await session.send("Network.emulateNetworkConditions", limits);
      const bytes = await giveLarge(page, folder, NAME, 40 * MIB);
      await until("some bytes", async () => {
        const info = await Deno.stat(part).catch(() => undefined);
        return (info?.size ?? 0) > MIB;
      });
      await first.kill();
      await page.getByText("It continues automatically").waitFor();
      const kept = (await Deno.stat(part)).size;
      assert(kept > MIB && kept < bytes.length, String(kept));
      const flags = ["--host", "simulated", "--listen", host];
      const second = await startAgentProcess(programOfRun(), stateDir, flags);
      try {
        await session.send("Network.emulateNetworkConditions", {
          ...limits,
          uploadThroughput: -1,
        });
        await page.locator(".upload-done").waitFor();
        const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
        const [file] = await filesOf(second);
        assertEquals([file?.name, file?.digest], [NAME, `sha256:${digest}`]);
        await page.getByRole("row").filter({ hasText: NAME }).getByText(digest.slice(0, 12))
          .waitFor();
      } finally {
        await browser.closePages();
        await second.stop();
      }
    }),
);

browserTest(
  "an upload that is canceled leaves nothing, and the one behind it begins",
  (browser) =>
    withLibrary(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/library`, { tolerated: CUT });
      await page.getByRole("row").filter({ hasText: ISO }).waitFor();
      const session = await page.context().newCDPSession(page);
      // Slow enough for all that is done meanwhile.
      const rate = MIB / 4;
      const limits = { offline: false, latency: 0, downloadThroughput: -1, uploadThroughput: rate };
      await session.send("Network.enable");
      await session.send("Network.emulateNetworkConditions", limits);
      await giveLarge(page, agent.stateDir, "slow.iso", 30 * MIB);
      await page.getByText(/of 30 MiB/).waitFor();
      await give(page, "next.iso", BYTES);
      await page.getByText("waits for the one before").waitFor();
      await page.getByRole("button", { name: "Cancel the upload of slow.iso" }).click();
      await page.locator(".upload-done", { hasText: "next.iso" }).waitFor();
      const unfinished = join(agent.stateDir, "uploads/.zonewright-uploads");
      await until("the rest to be removed", async () => {
        const names = await Array.fromAsync(Deno.readDir(unfinished), ({ name }) => name);
        return names.join() === "agent.lock";
      });
      const names = (await filesOf(agent)).map(({ name }) => name);
      assertEquals(names.filter((name) => name !== ISO && name !== "image.raw"), ["next.iso"]);
    }),
);

browserTest(
  "an upload of another caller is shown with its progress, and stays when complete",
  (browser) =>
    withLibrary(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/library`);
      await page.getByRole("row").filter({ hasText: ISO }).waitFor();
      const sent = Promise.withResolvers<void>();
      const body = ReadableStream.from((async function* () {
        yield BYTES.subarray(0, 60_000);
        await sent.promise;
        yield BYTES.subarray(60_000);
      })());
      const headers = { "content-range": `bytes 0-${BYTES.length - 1}/${BYTES.length}` };
      const path = "/agent/v1/media/library/other.iso";
      const answer = fetch(agent.url + path, { method: "PUT", body, headers });
      const line = page.getByText(/Another caller is uploading: .* of 117 KiB/);
      await line.waitFor();
      sent.resolve();
      assertEquals((await (await answer).json()).size, BYTES.length);
      await page.getByRole("row").filter({ hasText: "other.iso" }).waitFor();
      await line.waitFor({ state: "detached" });
    }),
);

browserTest(
  "the library has no serious finding in any state, and none is wider than its window",
  (browser) =>
    withLibrary(browser, async (agent) => {
      await Deno.writeTextFile(join(agent.media, "broken.iso"), "x".repeat(70_000));
      await fetch(`${agent.url}/agent/v1/media/library/${NAME}`, { method: "PUT", body: BYTES });
      const { page } = await browser.open(`${agent.url}/ui/library`);
      const check = (what: string) => expectSoundAtAllWidths(page, what);
      await page.getByText("no machine boots it").waitFor();
      await check("library");
      await give(page, "sound.iso", BYTES);
      await page.locator(".upload-done").waitFor();
      await check("uploaded");
      await page.getByRole("button", { name: `Remove ${NAME}` }).click();
      await check("dialog");
      await page.keyboard.press("Escape");
      await page.getByRole("dialog").waitFor({ state: "detached" });
      await page.getByRole("searchbox").fill("nothing");
      await page.getByText("No files match").waitFor();
      await check("no file fits");
    }),
);

browserTest(
  "a read token sees the library without actions",
  (browser) =>
    withAgent(browser, async (agent) => {
      const token = await newToken(agent, "looker", "read");
      const { page } = await browser.open(`${agent.url}/ui/library`);
      await page.getByLabel("Token", { exact: true }).fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("The library has no files").waitFor();
      assertEquals(await page.locator("input[type=file]").count(), 0);
      assertStringIncludes(await page.locator(".empty").innerText(), "zonewright media upload");
    }, "--require-token"),
);
