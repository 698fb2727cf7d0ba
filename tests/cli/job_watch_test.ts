// `job list --watch`: what a person and a program see of jobs that change.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { claimAll, endTask, newJob, newWorkflow, withHttpAgent } from "../http/http_agent.ts";
import { until } from "../support/until.ts";
import { screenFor } from "./screen.ts";
import { CLOSED_ADDRESS } from "../support/closed_port.ts";

Deno.test("job list --watch prints a line for each change, until Ctrl-C", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { name: "copy" });
    const uuid = await newJob(agent, { workflow });
    const screen = screenFor(agent.url);
    const ended = screen.run("job", "list", "--watch");
    const sees = (text: string) => until(JSON.stringify(text), () => screen.out().includes(text));
    await sees("queued copy");
    await claimAll(agent);
    await sees("running copy");
    const error = { name: "Error", message: "No space left" };
    await endTask(agent, uuid, { kind: "fail", onerror: false }, { error });
    await sees("failed copy");
    screen.interrupt();
    assertEquals(await ended, 130);
    const lines = screen.out().trimEnd().split("\n");
    for (const line of lines) {
      assertMatch(line, new RegExp(`^\\d\\d:\\d\\d:\\d\\d ${uuid.slice(0, 8)} \\S+ copy `));
    }
    assertStringIncludes(lines.at(-1) ?? "", "No space left");
    assertEquals(new Set(lines.map((line) => line.slice(9))).size, lines.length);
  }));

Deno.test("job list --watch --json prints one job a line, and on a terminal the whole list again", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent, { name: "copy" });
    const uuid = await newJob(agent, { workflow });
    const json = screenFor(agent.url);
    const window = screenFor(agent.url, {
      isTerminal: true,
      columns: 80,
      env: { NO_COLOR: "1" },
    });
    const ended = [
      json.run("job", "list", "--watch", "--json"),
      window.run("job", "list", "--watch"),
    ];
    await until("the queued job", () => json.out() !== "" && window.out().includes("queued"));
    await claimAll(agent);
    await until(
      "the running job",
      () => json.out().includes('"running"') && window.out().includes("running"),
    );
    for (const one of [json, window]) one.interrupt();
    assertEquals(await Promise.all(ended), [130, 130]);
    const jobs = json.out().trimEnd().split("\n").map((line) => JSON.parse(line));
    assertEquals(jobs.map((job) => [job.uuid, job.state]), [[uuid, "queued"], [uuid, "running"]]);
    const [before, ...screens] = window.out().split("\x1b[H\x1b[2J");
    // It is read once more when its events begin.
    assert(before === "" && screens.length >= 2, window.out());
    for (const one of screens) assertMatch(one, /^UUID +STATE +NAME /);
  }));

Deno.test("job list --watch exits 3 at once without an agent", async () => {
  const screen = screenFor(`http://${CLOSED_ADDRESS}`);
  assertEquals([await screen.run("job", "list", "--watch"), screen.out()], [3, ""]);
});
