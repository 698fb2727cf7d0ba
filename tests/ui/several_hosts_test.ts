// Two hosts of one database in a browser: lists say which host each row is of, and can be narrowed to one; a machine
// of the other host is used like one of this host.

import { assertEquals, assertStringIncludes } from "@std/assert";
import type { Page } from "playwright-core";
import type { AgentProcess } from "../support/agent_process.ts";
import { hostAt, newJob, untilHost, withHosts } from "../support/hosts.ts";
import { isoBytes } from "../support/medium.ts";
import { postgresFolder, postgresTest } from "../support/postgres.ts";
import { until, withFolder } from "../support/until.ts";
import { browserTest, expectSoundAtAllWidths, type OpenBrowser } from "./browser.ts";

const MACHINE = {
  brand: "kvm",
  alias: "web1",
  vcpus: 1,
  autoboot: false,
  ram: 256,
  disks: [{ boot: true, model: "virtio", size: 1024 }],
};

const MAKING = { machine: MACHINE, media: { path: "installer.iso" } };

const WIDE = { width: 1400, height: 900 };

const TESTS: Readonly<Record<string, (browser: OpenBrowser) => Promise<void>>> = {
  "jobs and machines show their hosts, and are filtered by them": showHosts,
  "a machine of another host is shown with its screen and stopped, and errors name a host that is away":
    showRemote,
  "a machine is ordered for another host, which checks the order": orderElsewhere,
  "what is left on another host is shown with it, and dropped": showLeftover,
};
for (const [name, test] of Object.entries(TESTS)) {
  // Without the server it is skipped by that name.
  if (postgresFolder() === undefined) postgresTest(name, () => Promise.resolve());
  else browserTest(`${name} [needs postgres]`, test);
}

/** Two hosts with a medium, which end after the pages; gz02 can be called by the other. @param flags of gz02 */
function withMedium(
  browser: OpenBrowser,
  run: Parameters<typeof withHosts>[0],
  flags: readonly string[] = [],
): Promise<void> {
  return withFolder(async (media) => {
    await Deno.writeFile(`${media}/installer.iso`, isoBytes(64 * 1024));
    await withHosts((hosts) => run(hosts).finally(() => browser.closePages()), (name, port) => [
      ...["--media-dir", media],
      ...(name === "gz02" ? ["--address", `http://127.0.0.1:${port}`, ...flags] : []),
    ]);
  });
}

function showHosts(browser: OpenBrowser): Promise<void> {
  return withMedium(browser, async ({ one, other }) => {
    const { page } = await browser.open(`${one.url}/ui/machines`);
    await page.getByText("No host has machines").waitFor();
    const made = (await one.post("/agent/v1/machines", MAKING)).body;
    await one.job(String(made.job_uuid), "success");
    const job = await newJob(other, "/b", "running");
    await page.goto(`${one.url}/ui/jobs`);
    const rows = page.locator(".jobs-table .rows-body .row");
    const hosts = () => rows.locator(".cell-host").allInnerTexts();
    await until("both jobs to be listed", async () => (await hosts()).length === 2);
    assertEquals(await hosts(), ["gz02", "gz01"]);
    await expectSoundAtAllWidths(page, "jobs of two hosts");
    await page.setViewportSize(WIDE);
    await page.getByLabel("Host").selectOption("gz02");
    await until("the jobs of gz02", async () => (await hosts()).join() === "gz02");
    assertStringIncludes(page.url(), "host=gz02");
    await rows.locator(".job-link").click();
    await page.locator(".facts", { hasText: "gz02" }).waitFor();
    await page.goto(`${one.url}/ui/machines`);
    await page.locator(".machines-table .cell-host", { hasText: "gz01" }).waitFor();
    await expectSoundAtAllWidths(page, "machines of two hosts");
    await page.setViewportSize(WIDE);
    await page.getByLabel("Host").selectOption("gz02");
    await page.getByText("No machines match this filter").waitFor();
    await page.goto(`${one.url}/ui/machines/${made.uuid}`);
    await page.locator(".facts", { hasText: "gz01" }).waitFor();
    await page.locator(".job-line", { hasText: "provision-machine gz01" }).waitFor();
    const { workflow_uuid } = (await one.get(`/jobs/${job}`)).body;
    await page.goto(`${one.url}/ui/workflows/${workflow_uuid}`);
    await page.locator(".job-line", { hasText: "sleeps gz02" }).waitFor();
    await expectSoundAtAllWidths(page, "a workflow of two hosts");
    await page.setViewportSize(WIDE);
    await page.goto(`${one.url}/ui`);
    await page.locator(".card", { hasText: "sleeps" }).getByText("gz02").waitFor();
    await expectSoundAtAllWidths(page, "overview of two hosts");
    await showAbsence(page, { one, other }, job);
  });
}

type Agents = Readonly<Record<"one" | "other", AgentProcess>>;

/** A host is cordoned, then away, while pages are open; the job that it ran is canceled. */
async function showAbsence(page: Page, { one, other }: Agents, job: string): Promise<void> {
  await page.goto(`${one.url}/ui/jobs?host=${(await hostAt(one, "gz02")).uuid}`);
  const chosen = page.getByLabel("Host").locator("option:checked");
  const named = (words: string) => until(words, async () => await chosen.innerText() === words);
  await named("gz02");
  await one.post("/agent/v1/hosts/gz02/cordon", {});
  await named("gz02, cordoned");
  await one.post("/agent/v1/hosts/gz02/uncordon", {});
  await named("gz02");
  await other.kill();
  await named("gz02, away");
  const row = page.locator(".jobs-table .rows-body .row");
  for (const size of [{ ...WIDE, width: 390 }, WIDE]) {
    await page.setViewportSize(size);
    await row.locator(".cell-host", { hasText: "gz02, away" }).waitFor();
  }
  await row.locator(".job-link").click();
  await page.locator(".facts", { hasText: "gz02, away" }).waitFor();
  await page.getByRole("button", { name: "Cancel…" }).click();
  await page.getByRole("button", { name: "Cancel the job" }).click();
  await page.getByText("Canceled, but its host is away").waitFor();
  assertEquals((await one.get(`/jobs/${job}`)).body.stop_confirmed, false);
  await page.goto(`${one.url}/ui/jobs`);
  await page.locator(".row", { hasText: "has not confirmed" }).waitFor();
  const { workflow_uuid } = (await one.get(`/jobs/${job}`)).body;
  const next = await one.post("/jobs", { workflow: String(workflow_uuid), server_uuid: "gz02" });
  await page.goto(`${one.url}/ui/jobs/${next.body.uuid}`);
  await page.getByText("Waiting for gz02, which is away").waitFor();
}

function showRemote(browser: OpenBrowser): Promise<void> {
  return withMedium(browser, async ({ one, other, start }) => {
    const made = (await other.post("/agent/v1/machines", MAKING)).body;
    await other.job(String(made.job_uuid), "success");
    // What the browser notes while the host is away.
    const { page } = await browser.open(`${one.url}/ui/machines`, { tolerated: /status of 503/ });
    const row = page.locator(".machines-table .rows-body .row", { hasText: "gz02" });
    await row.locator(".badge", { hasText: "running" }).waitFor();
    await row.getByRole("link", { name: "web1" }).click();
    await page.locator(".facts", { hasText: "gz02" }).waitFor();
    await page.locator(".screen-state-connected").waitFor();
    await page.getByLabel("Disks").getByText("virtio").waitFor();
    await expectSoundAtAllWidths(page, "a machine of another host");
    await page.getByRole("button", { name: "Stop…" }).click();
    await page.getByLabel("Immediately, by force").check();
    await page.getByRole("button", { name: "Stop web1" }).click();
    await page.locator(".job-line", { hasText: "machine-stop" }).locator(".state-succeeded")
      .waitFor();
    await page.locator("h1 .badge", { hasText: "stopped" }).waitFor();
    assertEquals((await other.get(`/agent/v1/machines/${made.uuid}`)).body.state, "stopped");

    await other.kill();
    await page.locator(".facts", { hasText: "gz02, away" }).waitFor();
    await page.getByRole("button", { name: "Boot…" }).click();
    const dialog = page.getByRole("dialog");
    await dialog.getByRole("button", { name: "Boot web1" }).click();
    await dialog.getByRole("alert").getByText("Cannot reach host gz02 (").waitFor();
    await page.keyboard.press("Escape");
    await dialog.waitFor({ state: "detached" });
    await page.reload();
    await page.locator(".banner-bad", { hasText: "Cannot reach host gz02 (" }).waitFor();
    // The jobs of a machine are those of the store.
    await page.locator(".job-line", { hasText: "machine-stop" }).waitFor();
    await expectSoundAtAllWidths(page, "a machine of a host that is away");
    await start("gz02");
    await untilHost(one, "gz02", "connected");
    await page.getByRole("button", { name: "Try again" }).click();
    await page.locator("h1 .badge", { hasText: "stopped" }).waitFor();
  });
}

function orderElsewhere(browser: OpenBrowser): Promise<void> {
  return withMedium(browser, async ({ one, other }) => {
    const { page } = await browser.open(`${one.url}/ui/new?path=installer.iso`, {
      tolerated: /status of 409/,
    });
    const field = (label: string) => page.getByLabel(label, { exact: true });
    await field("Name").fill("web2");
    await field("Memory, MiB").fill("256");
    await field("Size, MiB of disk 0").fill("1024");
    await field("Host").selectOption("gz02");
    await page.getByText("media, networks and bounds here are of this agent").waitFor();
    await expectSoundAtAllWidths(page, "a new machine for another host");
    await page.setViewportSize(WIDE);
    // Only the other host refuses as much.
    await field("Virtual CPUs").fill("9");
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.locator(".field-error", { hasText: "from 1 to 8" }).waitFor();
    await field("Virtual CPUs").fill("2");
    await page.getByRole("button", { name: "Check", exact: true }).click();
    await page.getByText("It boots installer.iso").waitFor();
    await page.getByRole("button", { name: "Create web2" }).click();
    await page.locator(".screen-state-connected").waitFor();
    await page.locator(".facts", { hasText: "gz02" }).waitFor();
    const path = new URL(page.url()).pathname.replace("/ui/", "/agent/v1/");
    const { alias, vcpus, host } = (await other.get(path)).body;
    assertEquals([alias, vcpus, host], ["web2", 2, "gz02"]);
  }, ["--vcpus-max", "8"]);
}

function showLeftover(browser: OpenBrowser): Promise<void> {
  return withMedium(browser, async ({ one, other }) => {
    const { page } = await browser.open(`${one.url}/ui/machines`);
    await page.getByText("No host has machines").waitFor();
    await other.simulate("fault", "start_failure", "9");
    await other.simulate("fault", "delete_busy");
    const made = (await other.post("/agent/v1/machines", MAKING)).body;
    await other.job(String(made.job_uuid), "failure");
    const line = page.locator(".leftovers li");
    await line.getByText("on gz02").waitFor();
    assertEquals((await one.get("/agent/v1/host")).body.leftovers, 1);
    await line.getByRole("link", { name: "web1" }).waitFor();
    await page.getByLabel("Host").selectOption("gz01");
    await line.waitFor({ state: "detached" });
    await page.getByLabel("Host").selectOption("gz02");
    await line.waitFor();
    await other.kill();
    await line.getByText("on gz02, away").waitFor();
    await expectSoundAtAllWidths(page, "a leftover of a host that is away");
    await line.getByRole("button", { name: "Drop web1" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Drop leftover" }).click();
    await line.waitFor({ state: "detached" });
    assertEquals((await one.get("/agent/v1/leftovers")).body.items, []);
  });
}
