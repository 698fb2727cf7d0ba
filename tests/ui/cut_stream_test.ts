// What a page shows when the connection to the agent is cut, the agent itself ends, or other tabs have the streams:
// nothing is lost, nothing doubled, and the reader stays where they are.

import { assertEquals } from "@std/assert";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import type { Page } from "playwright-core";
import { FAILING, newJob, newToken, WAITING, withAgent } from "./agent.ts";
import { browserTest } from "./browser.ts";

/** Lines after which the job waits, the last of which ends it. */
const STOPS = [4, 9, 15, 30];
/** Logs some lines, waits to be resumed, and logs the next. */
const TALKING = {
  name: "talking",
  chain: STOPS.map((stop, at) => ({
    name: `to_${stop}`,
    body: `(job, cb) => {
  for (let line = ${(STOPS[at - 1] ?? 0) + 1}; line <= ${stop}; line++) log.info('line ' + line);
  cb(${at < STOPS.length - 1 ? "'wait'" : ""});
}`,
  })),
};

/** A way to an agent that can be cut. */
interface Relay {
  readonly url: string;
  /** Ends every connection at once; new ones are taken. */
  cut(): void;
  close(): Promise<void>;
}

function openRelay(target: string): Relay {
  const { hostname, port } = new URL(target);
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const open = new Set<Deno.Conn>();
  const end = (conn: Deno.Conn) => {
    if (open.delete(conn)) conn.close();
  };
  const carry = async (client: Deno.Conn) => {
    open.add(client);
    const agent = await Deno.connect({ hostname, port: Number(port) });
    open.add(agent);
    // A cut ends both ways in their midst.
    const copy = (from: Deno.Conn, to: Deno.Conn) =>
      from.readable.pipeTo(to.writable).catch(() => {}).finally(() => {
        open.delete(from);
        open.delete(to);
      });
    await Promise.all([copy(client, agent), copy(agent, client)]);
  };
  const accepted: Promise<void>[] = [];
  const taking = (async () => {
    for await (const client of listener) accepted.push(carry(client).catch(() => end(client)));
  })();
  const cut = () => [...open].forEach(end);
  return {
    url: `http://127.0.0.1:${listener.addr.port}`,
    cut,
    async close() {
      listener.close();
      cut();
      await taking;
      await Promise.all(accepted);
    },
  };
}

browserTest(
  "a live log whose stream is cut goes on, with every line once",
  (browser) =>
    withAgent(browser, async (agent) => {
      const relay = openRelay(agent.url);
      try {
        const job = await newJob(agent, TALKING);
        const { page } = await browser.open(`${relay.url}/ui/jobs/${job}`, {
          tolerated: /net::ERR_/,
        });
        const log = page.getByRole("log");
        for (const stop of STOPS.slice(0, -1)) {
          await log.getByText(`line ${stop}`, { exact: true }).waitFor();
          await agent.job(job, "waiting");
          relay.cut();
          assertEquals((await agent.post(`/jobs/${job}/resume`)).status, 200);
        }
        await page.locator("h1 .state-succeeded").waitFor();
        await log.getByText(`line ${STOPS.at(-1)}`, { exact: true }).waitFor();
        const lines = await log.locator(".log-text").allInnerTexts();
        const said = lines.map((line) => line.trim()).filter((line) => line.startsWith("line "));
        assertEquals(said, Array.from({ length: STOPS.at(-1) ?? 0 }, (_, at) => `line ${at + 1}`));
      } finally {
        await browser.closePages();
        await relay.close();
      }
    }),
);

/** More than the connections that a browser opens to a host. */
const TABS = 8;

browserTest(
  "every tab of a browser has its content, and the one that is used is live",
  (browser) =>
    withAgent(browser, async (agent) => {
      await agent.job(await newJob(agent, WAITING), "waiting");
      const { page: first } = await browser.open(`${agent.url}/ui/jobs`);
      const live = (page: Page) => page.getByText("live", { exact: true }).waitFor();
      await live(first);
      const tabs: Page[] = [];
      for (let tab = 1; tab < TABS; tab++) {
        const page = await first.context().newPage();
        await page.goto(`${agent.url}/ui/jobs`);
        await page.locator(".rows-body .state-waiting").waitFor();
        await live(page);
        tabs.push(page);
      }
      await first.getByText("paused").waitFor();
      await agent.job(await newJob(agent, FAILING), "failure");
      await tabs.at(-1)?.locator(".rows-body .state-failed").waitFor();
      assertEquals(await first.locator(".rows-body .row").count(), 1);
      await first.getByText("paused").click();
      await live(first);
      await first.locator(".rows-body .state-failed").waitFor();
      assertEquals(await first.locator(".rows-body .row").count(), 2);
      // What is closed makes room for a tab that waits.
      const [second] = tabs;
      await second?.getByText("paused").waitFor();
      await Promise.all(tabs.slice(1).map((tab) => tab.close()));
      await second?.locator(".rows-body .state-failed").waitFor();
    }),
);

browserTest(
  "once the agent has restarted or the session is over, the console asks for the token and stays at its address",
  (browser) =>
    withFolder(async (folder) => {
      const stateDir = `${folder}/state`;
      const flags = ["--host", "simulated", "--require-token"];
      const first = await startAgentProcess(programOfRun(), stateDir, flags);
      const token = await newToken(first, "operator", "admin");
      const address = `${first.url}/ui/jobs?search=approve`;
      const { page } = await browser.open(address, { tolerated: /net::ERR_|401/ });
      const signIn = async () => {
        await page.getByLabel("Token", { exact: true }).fill(token);
        await page.getByRole("button", { name: "Sign in" }).click();
        await page.getByText("No jobs match this filter").waitFor();
        assertEquals(page.url(), address);
      };
      await signIn();
      await first.kill();
      await page.getByText("reconnecting").waitFor();
      const listen = ["--listen", new URL(first.url).host];
      const second = await startAgentProcess(programOfRun(), stateDir, [...flags, ...listen]);
      try {
        await page.getByText("Your session has ended").waitFor();
        await signIn();
        // The browser names each refusal and each attempt to reach an agent that is not there.
        await page.clock.install();
        await page.reload();
        await page.getByText("No jobs match this filter").waitFor();
        await page.context().clearCookies();
        // A page that nobody touches sees by its own clock that the session is over.
        await page.clock.fastForward("12:01:00");
        await page.getByText("Your session has ended").waitFor();
        await page.locator("input:focus").waitFor();
        await signIn();
      } finally {
        await browser.closePages();
        await second.stop();
      }
    }),
);

browserTest(
  "a page whose events are refused says why, and does not ask again",
  (browser) =>
    withAgent(browser, async (agent) => {
      const { page } = await browser.open(`${agent.url}/ui/system`, { tolerated: /409/ });
      await page.getByText("live", { exact: true }).waitFor();
      await page.clock.install();
      let asked = 0;
      const message = "Cannot read the query: kind must be another word";
      await page.route("**/agent/v1/events?*", async (route) => {
        asked += 1;
        await route.fulfill({ status: 409, json: { code: "InvalidArgument", message } });
      });
      await page.getByRole("navigation").getByRole("link", { name: "Jobs" }).click();
      await page.getByText(`not live: ${message}`).waitFor();
      // The stream, and the call that asks why it was refused.
      assertEquals(asked, 2);
      await page.clock.fastForward(60_000);
      await page.evaluate(() => fetch("/agent/v1/session").then((answer) => answer.text()));
      assertEquals(asked, 2);
      await page.unroute("**/agent/v1/events?*");
      await page.getByRole("navigation").getByRole("link", { name: "System" }).click();
      await page.getByText("live", { exact: true }).waitFor();
    }),
);

browserTest(
  "an answer that breaks off is shown as such, and the page stays whole",
  (browser) =>
    withAgent(browser, async (agent) => {
      const job = await newJob(agent, WAITING);
      const { page } = await browser.open(`${agent.url}/ui/jobs`);
      const cut = { contentType: "application/json", body: '[{"name": "gz' };
      const places = ["**/agent/v1/hosts", `**/agent/v1/jobs/${job}`];
      for (const place of places) await page.route(place, (route) => route.fulfill(cut));
      const banner = page.locator(".banner", { hasText: "The answer of the agent broke off" });
      // The log is read beside the job; that it arrives later is not the end of the error.
      const log = `**/agent/v1/jobs/${job}/log?*`;
      const shown = Promise.withResolvers<void>();
      await page.route(log, async (route) => {
        await shown.promise;
        await route.continue();
      });
      const logRead = page.waitForResponse(log);
      await page.goto(`${agent.url}/ui/jobs/${job}`);
      await banner.waitFor();
      shown.resolve();
      await (await logRead).finished();
      await page.evaluate("new Promise((drawn) => requestAnimationFrame(drawn))");
      assertEquals(await banner.count(), 1);
      await page.unroute(log);
      for (const place of places) await page.unroute(place);
      await page.reload();
      await page.locator("h1 .state-waiting").waitFor();
    }),
);
