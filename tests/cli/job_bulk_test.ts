// `job cancel` and `job retry` of every job that fits: against the real application, and in rounds
// against a server that has more jobs than one call changes.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { JobUuid } from "../../src/domain/id.ts";
import { type HttpAgent, jobIn, newJob, newWorkflow, withHttpAgent } from "../http/http_agent.ts";
import { document, openScreen, said, screenFor } from "./screen.ts";
import { CLOSED_ADDRESS } from "../support/closed_port.ts";

async function executions(agent: HttpAgent, uuids: readonly JobUuid[]): Promise<unknown[]> {
  return await Promise.all(
    uuids.map(async (uuid) => (await agent.store.jobs.get(uuid))?.execution),
  );
}

Deno.test("job cancel of many asks on a terminal, says how many, and cancels after a yes", () =>
  withHttpAgent(async (agent) => {
    await jobIn(agent, "failed");
    const workflow = await newWorkflow(agent, { name: "hello" });
    const meant = [await newJob(agent, { workflow }), await newJob(agent, { workflow, zone: "a" })];
    const other = await newJob(agent);
    const line = ["job", "cancel", "--workflow", "hello"];
    for (const answer of ["", "n", "yess"]) {
      const no = await said(agent, line, { isTerminal: true, answer });
      assertEquals([no.code, no.out()], [1, ""], answer);
      assertEquals(
        no.err(),
        'Cancel 2 jobs with name "hello"? [y/N] nothing changed\n',
      );
    }
    assertEquals(await executions(agent, meant), ["queued", "queued"]);
    const yes = await said(agent, line, { isTerminal: true, answer: "Y " });
    assertEquals(yes.code, 0);
    assertEquals(
      yes.out().trim().split("\n").sort(),
      meant.map((uuid) => `${uuid} canceled`).sort(),
    );
    assertMatch(yes.err(), /\[y\/N\] 2 canceled\n$/);
    assertEquals(await executions(agent, [...meant, other]), ["canceled", "canceled", "queued"]);
  }));

Deno.test("job cancel of many requires --yes in scripts", () =>
  withHttpAgent(async (agent) => {
    const uuid = await newJob(agent, { zone: "a" });
    const line = ["job", "cancel", "--execution", "queued", "--param", "zone=a"];
    const unasked = await said(agent, line);
    assertEquals([unasked.code, unasked.out()], [2, ""]);
    assertStringIncludes(
      unasked.err(),
      'Cannot cancel 1 job with execution "queued", param zone="a": there is no terminal to ask on, ' +
        "expected --yes\n",
    );
    assertEquals(await executions(agent, [uuid]), ["queued"]);
    const seen = await said(agent, [...line, "--yes", "--json"]);
    assertEquals([seen.code, seen.err()], [0, "1 canceled\n"]);
    const canceled = [{ uuid, stop_confirmed: true, host: null, host_state: null }];
    assertEquals(document(seen), { matched: 1, canceled, refused: [], more: false });
    assertEquals(await executions(agent, [uuid]), ["canceled"]);
  }));

Deno.test("job cancel and job retry of many say when no job matches, and ask nothing", () =>
  withHttpAgent(async (agent) => {
    await newWorkflow(agent, { name: "hello" });
    for (const verb of ["cancel", "retry"]) {
      for (const yes of [[], ["--yes"]]) {
        const none = await said(agent, ["job", verb, "--workflow", "helo", ...yes]);
        assertEquals([none.code, none.out()], [0, ""]);
        assertEquals(
          none.err(),
          'no job matches\nno workflow has the name "helo": did you mean "hello"?\n',
        );
      }
    }
  }));

Deno.test("job retry of many leaves out jobs that were retried before", () =>
  withHttpAgent(async (agent) => {
    const failed = await jobIn(agent, "failed");
    const canceled = await jobIn(agent, "canceled");
    const before = await jobIn(agent, "failed");
    assertEquals((await said(agent, ["job", "retry", before])).code, 0);
    const line = ["job", "retry", "--since", "1h"];
    const asked = await said(agent, line, { isTerminal: true, answer: "no" });
    assertMatch(asked.err(), /^Retry 2 jobs with since "[^"]+"\? /);
    const done = await said(agent, line, { isTerminal: true, answer: "yes" });
    assertEquals(done.code, 0);
    const made = done.out().trim().split("\n") as JobUuid[];
    assertEquals(await executions(agent, made), ["queued", "queued"]);
    const olds = await Promise.all(made.map((uuid) => agent.store.jobs.get(uuid)));
    assertEquals(
      olds.map((job) => job?.props.prev_attempt).sort(),
      [failed, canceled].sort(),
    );
    assertStringIncludes((await said(agent, [...line, "--yes"])).err(), "no job matches\n");
  }));

Deno.test("job retry of many says what was refused and why, and exits 6", () =>
  withHttpAgent(async (agent) => {
    const workflow = await newWorkflow(agent);
    const old = await newJob(agent, { workflow, target: "/t" });
    await agent.call("POST", `/jobs/${old}/cancel`, {});
    const holder = await newJob(agent, { workflow, target: "/t" });
    const free = await jobIn(agent, "failed");
    const line = ["job", "retry", "--until", "1s", "--yes"];
    const mixed = await said(agent, line);
    assertEquals(mixed.code, 6);
    assertMatch(mixed.out(), /^[0-9a-f-]{36}\n$/);
    assertMatch(mixed.err(), new RegExp(`^zonewright: .*${holder}.*\n1 retried, 1 refused\n$`));
    assertEquals(
      (await agent.store.jobs.get(free))?.props.next_attempt as string,
      mixed.out().trim(),
    );
    const json = await said(agent, [...line, "--json"]);
    assertEquals(json.code, 6);
    const { matched, retried, refused } = document(json) as Record<string, { uuid: string }[]>;
    assertEquals([matched, retried], [1, []] as unknown[]);
    assertEquals(refused?.map(({ uuid }) => uuid), [old]);
  }));

Deno.test("--limit bounds a change of many, and says that more are left", () =>
  withHttpAgent(async (agent) => {
    const uuids = [await newJob(agent), await newJob(agent), await newJob(agent)];
    const line = ["job", "cancel", "--execution", "queued", "--limit", "2"];
    const done = await said(agent, line, { isTerminal: true, answer: "y" });
    assertEquals(done.code, 0);
    assertStringIncludes(done.err(), 'Cancel 2 jobs with execution "queued"? ');
    assertStringIncludes(done.err(), "2 canceled, more jobs match\n");
    const left = (await executions(agent, uuids)).filter((execution) => execution === "queued");
    assertEquals(left.length, 1);
  }));

Deno.test("a param named like a list key can be filtered by, and the count is an upper bound", () =>
  withHttpAgent(async (agent) => {
    const meant = await newJob(agent, { name: "world" });
    const other = await newJob(agent, { name: "moon" });
    const line = ["job", "cancel", "-p", "name=world"];
    const done = await said(agent, line, { isTerminal: true, answer: "y" });
    assertStringIncludes(done.err(), 'Cancel up to 2 jobs with param name="world"? ');
    assertEquals(await executions(agent, [meant, other]), ["canceled", "queued"]);
  }));

Deno.test("an ambiguous choice of jobs exits 2 before any call", async () => {
  const refused: [string[], string][] = [
    [["cancel"], "expected a job, or filters such as"],
    [["cancel", "--yes"], "expected a job, or filters such as"],
    [["retry", "--limit", "3"], "expected a job, or filters such as"],
    [["cancel", "x", "--target", "t"], "a job and the filter --target are both given"],
    [["retry", "x", "--limit", "3"], "a job and the filter --limit are both given"],
    [["retry", "--target", "t", "--from", "copy"], "--from is for one job"],
    [["retry", "--target", "t", "--wait"], "--wait is for one job"],
    [["retry", "--target", "t", "--timeout", "9s"], "--timeout is for one job"],
    [["retry", "--execution", "running"], "expected --execution failed or canceled"],
    [["cancel", "--execution", "success"], "expected --execution queued or running or waiting"],
    [["cancel", "--execution", "done"], 'Cannot filter by execution "done"'],
    [["cancel", "a", "b"], 'unexpected operand "b", expected job cancel [JOB]'],
  ];
  for (const [words, why] of refused) {
    const screen = openScreen({ env: { ZONEWRIGHT_URL: `http://${CLOSED_ADDRESS}` } });
    assertEquals([await screen.run("job", ...words), screen.out()], [2, ""], words.join(" "));
    assertStringIncludes(screen.err(), why);
  }
});

Deno.test("--curl prints the call for many jobs, and nobody is asked", async () => {
  const screen = screenFor("http://127.0.0.1:9", {
    nowMs: () => Date.parse("2026-01-01T12:00:00Z"),
  });
  const flags = ["--execution", "failed", "--since", "1h", "-p", "zone=a", "--limit", "5"];
  assertEquals(await screen.run("job", "retry", ...flags, "--curl"), 0);
  const filter = { execution: "failed", since: "2026-01-01T11:00:00.000Z", params: { zone: "a" } };
  assertStringIncludes(
    screen.out(),
    `--data-raw '${JSON.stringify({ filter, limit: 5 })}' http://127.0.0.1:9/agent/v1/jobs/retry\n`,
  );
});

/** Bodies that a server got which answers calls on many jobs as the test says. */
async function inRounds(
  answers: readonly unknown[],
  run: (url: string, bodies: { filter: Record<string, string>; limit: number }[]) => Promise<void>,
): Promise<void> {
  const bodies: { filter: Record<string, string>; limit: number }[] = [];
  const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const server = Deno.serve(options, async (request) => {
    bodies.push(await request.json());
    const answer = answers[bodies.length - 1];
    const status = answer === undefined ? 503 : 200;
    return Response.json(answer ?? { message: "Cannot answer: busy" }, { status });
  });
  try {
    await run(`http://127.0.0.1:${server.addr.port}`, bodies);
  } finally {
    await server.shutdown();
  }
}

const NOW = "2026-01-01T12:00:00.000Z";
const options = { nowMs: () => Date.parse(NOW) };
const retried = (...names: string[]) =>
  names.map((name) => ({ uuid: name, next_attempt: `${name}-anew` }));
const REFUSED = [{ uuid: "r", code: "conflict", message: "Cannot retry job r" }];

Deno.test("more jobs than one call may change are changed in rounds, without new ones", () =>
  inRounds([
    { matched: 3, retried: retried("a", "b"), refused: REFUSED, more: true },
    { matched: 2, retried: retried("c"), refused: REFUSED, more: false },
  ], async (url, bodies) => {
    const screen = screenFor(url, options);
    assertEquals(await screen.run("job", "retry", "--execution", "failed", "--yes"), 6);
    assertEquals(screen.out(), "a-anew\nb-anew\nc-anew\n");
    assertEquals(screen.err(), "zonewright: Cannot retry job r\n3 retried, 1 refused\n");
    assertEquals(bodies.map(({ filter }) => filter), [
      { execution: "failed" },
      { execution: "failed", until: NOW },
    ]);
    assertEquals(bodies.map(({ limit }) => limit), [1000, 1000]);
  }));

Deno.test("rounds end when a call changes nothing, and at the limit", async () => {
  await inRounds([
    { retried: retried("a"), refused: [], more: true },
    { retried: [], refused: REFUSED, more: true },
  ], async (url, bodies) => {
    const screen = screenFor(url, options);
    assertEquals(await screen.run("job", "retry", "--until", NOW, "--yes"), 6);
    assertStringIncludes(screen.err(), "1 retried, 1 refused, more jobs match\n");
    assertEquals(bodies.length, 2);
  });
  await inRounds([
    { canceled: [{ uuid: "a" }], refused: [], more: true },
    { canceled: [{ uuid: "b" }], refused: [], more: true },
  ], async (url, bodies) => {
    const screen = screenFor(url, options);
    const flags = ["--target", "t", "--limit", "2", "--yes"];
    assertEquals(await screen.run("job", "cancel", ...flags), 0);
    assertEquals(bodies.map(({ limit }) => limit), [2, 1]);
  });
});

Deno.test("what was changed before a round failed is still reported", () =>
  inRounds([{ canceled: [{ uuid: "a" }], refused: [], more: true }], async (url) => {
    const screen = screenFor(url, options);
    assertEquals(await screen.run("job", "cancel", "--target", "t", "--yes", "--json"), 1);
    assertEquals(document(screen), {
      matched: 1,
      canceled: [{ uuid: "a" }],
      refused: [],
      more: true,
    });
    assertStringIncludes(screen.err(), '{"code":"overloaded","message":"Cannot answer: busy",');
  }));
