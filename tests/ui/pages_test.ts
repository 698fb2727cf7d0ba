// Every page of the console as different people meet it: with assistive technology, in either scheme, on a phone and
// on a wall, with a token that may only read, and while the agent is gone.

import { assert, assertEquals } from "@std/assert";
import { FAILING, newJob, newToken, WAITING, withAgent } from "./agent.ts";
import { programOfRun, startAgentProcess } from "../support/agent_process.ts";
import { withFolder } from "../support/until.ts";
import { browserTest, expectSoundAtAllWidths, findings } from "./browser.ts";

browserTest(
  "no page or dialog has a serious finding, and none is wider than its window",
  (browser) =>
    withAgent(browser, async (agent) => {
      const failed = await newJob(agent, FAILING);
      const waiting = await newJob(agent, WAITING);
      await agent.job(failed, "failure");
      await agent.job(waiting, "waiting");
      const { page } = await browser.open(`${agent.url}/ui`);
      const check = (what: string) => expectSoundAtAllWidths(page, what);
      await page.locator(".fact").first().waitFor();
      await check("overview");
      await page.goto(`${agent.url}/ui/jobs`);
      await page.locator(".rows-body .row").nth(1).waitFor();
      await page.getByRole("checkbox").last().check();
      await check("jobs");
      await page.goto(`${agent.url}/ui/jobs?search=nothing`);
      await page.getByText("No jobs match").waitFor();
      await check("no jobs");
      await page.goto(`${agent.url}/ui/jobs/${failed}`);
      await page.locator(".task-failed summary").click();
      await check("failed job");
      await page.goto(`${agent.url}/ui/jobs/${waiting}`);
      await page.getByRole("button", { name: "Resume…" }).click();
      await check("dialog");
      await page.keyboard.press("Escape");
      for (const part of ["Results", "Params", "Source", "JSON"]) {
        await page.getByRole("tab", { name: part }).click();
        await check(part);
      }
      await page.goto(`${agent.url}/ui/nowhere`);
      await page.getByText("There is no page").waitFor();
      await check("missing page");
    }),
);

browserTest(
  "a read token gets a console without actions, and signing out ends it",
  (browser) =>
    withAgent(browser, async (agent) => {
      const token = await newToken(agent, "looker", "read");
      const { page } = await browser.open(`${agent.url}/ui/jobs`, {
        tolerated: /status of 40[13]/,
      });
      await page.getByText("I have no token").click();
      await expectSoundAtAllWidths(page, "sign-in");
      await page.getByLabel("Token", { exact: true }).fill("zwt_wrong");
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("Cannot sign in: the token is unknown").waitFor();
      assertEquals(await findings(page), []);
      await page.getByLabel("Token", { exact: true }).fill(token);
      await page.getByRole("button", { name: "Sign in" }).click();
      await page.getByText("There are no jobs yet").waitFor();
      assert(await page.getByText("looker, read only").isVisible());
      assertEquals(await page.getByRole("checkbox").count(), 0);
      assert(!(await page.evaluate("document.cookie") as string).includes("zonewright"));
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByLabel("Token", { exact: true }).waitFor();
    }, "--require-token"),
);

browserTest(
  "a copied command is complete, and does the same in a terminal",
  (browser) =>
    withAgent(browser, async (agent) => {
      const failed = await newJob(agent, FAILING);
      await agent.job(failed, "failure");
      const permissions = ["clipboard-read", "clipboard-write"];
      const { page } = await browser.open(`${agent.url}/ui/jobs`, { permissions });
      const copied = () => page.evaluate("navigator.clipboard.readText()") as Promise<string>;
      await page.getByTitle("Copy uuid of").click();
      await page.getByText("Copied", { exact: true }).waitFor();
      assertEquals(await copied(), failed);
      let last = failed;
      for (const way of ["CLI", "curl"]) {
        await page.goto(`${agent.url}/ui/jobs/${last}`);
        await page.getByRole("button", { name: "Retry…" }).click();
        await page.getByText("The same from a terminal").click();
        await page.getByRole("button", { name: `Copy as ${way}` }).click();
        await page.getByText("Copied", { exact: true }).waitFor();
        const said = await typed(await copied());
        const made = way === "CLI" ? said.trim() : JSON.parse(said).uuid;
        const job = await agent.job(made, "failure");
        assertEquals([way, job.prev_attempt], [way, last]);
        last = made;
      }
    }),
);

/** What a command prints that somebody types where the program is installed. */
async function typed(command: string): Promise<string> {
  const { program, args, env } = programOfRun();
  const words = [program, ...args].map((word) => `'${word}'`).join(" ");
  const { stdout, stderr, code } = await new Deno.Command("/bin/sh", {
    args: ["-c", `zonewright() { ${words} "$@"; }; ${command}`],
    env,
  }).output();
  const text = new TextDecoder();
  assertEquals(code, 0, text.decode(stderr));
  return text.decode(stdout);
}

browserTest(
  "a page goes on by itself after the agent was killed and started again",
  (browser) =>
    withFolder(async (folder) => {
      const stateDir = `${folder}/state`;
      const first = await startAgentProcess(programOfRun(), stateDir, ["--host", "simulated"]);
      const { host } = new URL(first.url);
      const waiting = await newJob(first, WAITING);
      await first.job(waiting, "waiting");
      const { page } = await browser.open(`${first.url}/ui/jobs`, { tolerated: /net::ERR_/ });
      await page.locator(".rows-body .state-waiting").waitFor();
      await page.getByText("live", { exact: true }).waitFor();
      await first.kill();
      await page.getByText("reconnecting").waitFor();
      const flags = ["--host", "simulated", "--listen", host];
      const second = await startAgentProcess(programOfRun(), stateDir, flags);
      try {
        await page.getByText("live", { exact: true }).waitFor();
        await second.post(`/jobs/${waiting}/resume`, {});
        await page.locator(".rows-body .state-succeeded").waitFor();
        assertEquals(await page.locator(".rows-body .row").count(), 1);
      } finally {
        await browser.closePages();
        await second.stop();
      }
    }),
);

browserTest(
  "what is typed into the filter stays while jobs change, and is in the address",
  (browser) =>
    withAgent(browser, async (agent) => {
      const failed = await newJob(agent, FAILING);
      await agent.job(failed, "failure");
      const { page } = await browser.open(`${agent.url}/ui/jobs`);
      await page.locator(".rows-body .row").waitFor();
      await newJob(agent, WAITING);
      await page.getByRole("searchbox").pressSequentially("the checksum", { delay: 20 });
      await page.waitForURL("**/ui/jobs?search=the+checksum");
      await page.locator(".rows-body .state-waiting").waitFor({ state: "detached" });
      // Fails while there are two.
      await page.locator(".rows-body .row").waitFor();
      await page.reload();
      assertEquals(await page.getByRole("searchbox").inputValue(), "the checksum");
      await page.getByRole("tab", { name: "Canceled" }).click();
      await page.getByText("No jobs match this filter").waitFor();
      await page.getByRole("link", { name: "Show all jobs" }).click();
      await page.locator(".rows-body .row").nth(1).waitFor();
    }),
);
