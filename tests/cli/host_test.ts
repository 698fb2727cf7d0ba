// `zonewright host` against the real HTTP application: with SQLite, and with two hosts on one database.

import { assert, assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { runCli } from "../../src/cli/cli.ts";
import { instantAfter } from "../../src/domain/instant.ts";
import { withHttpAgent } from "../http/http_agent.ts";
import { LEASE, register } from "../store/host_suite.ts";
import { fleetTests, HOSTS } from "../store/postgres_fleet.ts";
import { create, recordOf } from "../store/store_case.ts";
import { lifeOf } from "../support/clocked_store.ts";
import { jobOf, RUNNER, T0, uuidOf } from "../support/job.ts";
import { until } from "../support/until.ts";
import { document, openScreen, said, screenFor } from "./screen.ts";

Deno.test("host list and host show print the one host of an agent with SQLite", () =>
  withHttpAgent(async (agent) => {
    await register(agent.store);
    const list = await said(agent, ["host", "list"]);
    assertEquals([list.code, list.err()], [0, ""]);
    assertEquals(list.out().split("\n").slice(0, 2), [
      "UUID      NAME  STATE      HEARD  RUNNING  QUEUED  SLOTS  VERSION  THIS",
      "11111111  gz01  connected    0 s        0       0      4  1.2.3    yes",
    ]);
    for (const name of ["gz01", RUNNER, "1111"]) {
      const { out } = await said(agent, ["host", "show", name]);
      for (const words of [/^state +connected$/m, /^this host +yes$/m, /^brands +bhyve$/m]) {
        assertMatch(out(), words);
      }
    }
    const json = document(await said(agent, ["host", "show", "gz01", "--json"]));
    assertEquals((json as { uuid: string }).uuid, RUNNER as string);
    const curl = await said(agent, ["host", "show", RUNNER, "--curl"]);
    assertStringIncludes(curl.out(), `/agent/v1/hosts/${RUNNER}`);
  }));

Deno.test("host cordon and host uncordon print the state that follows", () =>
  withHttpAgent(async (agent) => {
    await register(agent.store);
    assertEquals((await said(agent, ["host", "cordon", "gz01"])).out(), "gz01 cordoned\n");
    assertEquals((await agent.store.hosts.list())[0]?.state, "cordoned");
    assertEquals((await said(agent, ["host", "uncordon", "gz01"])).out(), "gz01 connected\n");
    const json = document(await said(agent, ["host", "cordon", "gz01", "--json"]));
    assertEquals((json as { cordoned: boolean }).cordoned, true);
  }));

Deno.test("an unknown host exits 4, and the hint lists the known ones", () =>
  withHttpAgent(async (agent) => {
    for (const verb of ["show", "cordon", "drain", "uncordon", "forget"]) {
      const { code, err } = await said(agent, ["host", verb, "gz02"]);
      assertEquals([verb, code], [verb, 4]);
      assertEquals(
        err(),
        'zonewright: Cannot find host "gz02": none has that name, expected a known name, a uuid or its first 4 characters or ' +
          "more\nhint: zonewright host list  shows the hosts\n",
      );
    }
  }));

const ASKED = {
  machine: { brand: "kvm", ram: 256, vcpus: 1, disks: [{ model: "virtio", size: 1024 }] },
  media: { path: "/a.iso" },
};

Deno.test("every command that names a host exits 4 for an unknown one", () =>
  withHttpAgent(async (agent) => {
    await register(agent.store);
    const { body } = await agent.call("POST", "/workflows", { name: "w", chain: [] });
    const { uuid } = body as { uuid: string };
    for (
      const words of [
        ["job", "run", uuid, "--on", "gz02"],
        ["job", "list", "--host", "gz02"],
        ["machine", "list", "--host", "gz02"],
        ["machine", "leftovers", "--host", "gz02"],
        ["machine", "create", "--file", "-", "--on", "gz02"],
      ]
    ) {
      const { code, err } = await said(agent, words, { input: JSON.stringify(ASKED) });
      assertStringIncludes(err(), 'host "gz02" is not registered');
      assertMatch(err(), /hint: zonewright host list /);
      assertEquals([words, code], [words, 4]);
    }
  }));

Deno.test("host drain ends at once if nothing runs; waiting jobs do not count", () =>
  withHttpAgent(async (agent) => {
    await register(agent.store);
    await create(agent.store, jobOf(1));
    const [job] = (await agent.store.jobs.claim(lifeOf(RUNNER), 1)).jobs;
    assert(job !== undefined);
    await agent.store.jobs.recordTask(recordOf(job, { kind: "cb_wait" }));
    await create(agent.store, jobOf(2));
    const { code, out, err } = await said(agent, ["host", "drain", "gz01"]);
    assertEquals([code, out(), err()], [0, "gz01 drained\n", ""]);
    assertEquals((await agent.store.hosts.list())[0]?.state, "cordoned");
  }));

Deno.test("host drain shows the number of running jobs until there is none", () =>
  withHttpAgent(async (agent) => {
    await register(agent.store);
    await create(agent.store, jobOf(1));
    await create(agent.store, jobOf(2));
    const [first, second] = (await agent.store.jobs.claim(lifeOf(RUNNER), 2)).jobs;
    assert(first !== undefined && second !== undefined);
    const screen = screenFor(agent.url);
    const drained = screen.run("host", "drain", "gz01");
    await until("the number of jobs", () => screen.err() === "gz01: 2 jobs run\n");
    await agent.store.jobs.recordTask(recordOf(first, { kind: "succeed" }));
    await until("the next number", () => screen.err().endsWith("gz01: 1 job runs\n"));
    await agent.store.jobs.recordTask(recordOf(second, { kind: "succeed" }));
    assertEquals([await drained, screen.out()], [0, "gz01 drained\n"]);
  }));

Deno.test("host drain gives up after its time with 124, at Ctrl-C with 130, and leaves the jobs", () =>
  withHttpAgent(async (agent) => {
    await register(agent.store);
    await create(agent.store, jobOf(1));
    await agent.store.jobs.claim(lifeOf(RUNNER), 1);
    let nowMs = 0;
    const screen = screenFor(agent.url, { nowMs: () => nowMs });
    const drained = screen.run("host", "drain", "gz01", "--timeout", "1h", "--json");
    await until("the cordon", async () => (await agent.store.hosts.list())[0]?.cordoned);
    nowMs = 3_600_001;
    assertEquals([await drained, screen.out()], [124, ""]);
    assertEquals(JSON.parse(screen.err()), {
      code: "timeout",
      message: "Gave up waiting for host gz01: 1 job runs; it stays cordoned",
      hint: "zonewright host drain gz01  to wait on",
      exit_code: 124,
    });
    const other = screenFor(agent.url);
    const stopped = other.run("host", "drain", "gz01");
    await until("the number of jobs", () => other.err() === "gz01: 1 job runs\n");
    other.interrupt();
    assertEquals(await stopped, 130);
    assertStringIncludes(other.err(), "Stopped waiting for host gz01: 1 job runs");
    assertEquals((await agent.store.hosts.jobs()).get(RUNNER)?.running, 1);
    const wrong = await said(agent, ["host", "drain", "gz01", "--timeout", "soon"]);
    assertEquals(wrong.code, 2);
  }));

Deno.test("host drain ends with 6 when the host is uncordoned meanwhile", () =>
  withHttpAgent(async (agent) => {
    await register(agent.store);
    await create(agent.store, jobOf(1));
    await agent.store.jobs.claim(lifeOf(RUNNER), 1);
    const screen = screenFor(agent.url);
    const drained = screen.run("host", "drain", "gz01");
    await until("the number of jobs", () => screen.err() === "gz01: 1 job runs\n");
    await agent.store.hosts.uncordon(RUNNER);
    assertEquals(await drained, 6);
    assertStringIncludes(screen.err(), "Cannot drain host gz01: it was uncordoned in the meantime");
  }));

Deno.test("host forget asks, requires --yes in scripts, and is refused for a connected host", () =>
  withHttpAgent(async (agent) => {
    await register(agent.store);
    const script = await said(agent, ["host", "forget", "gz01"]);
    assertEquals(script.code, 2);
    assertStringIncludes(script.err(), "expected --yes");
    const no = await said(agent, ["host", "forget", "gz01"], { isTerminal: true, answer: "n" });
    assertEquals(no.code, 1);
    assertStringIncludes(
      no.err(),
      `Forget host ${RUNNER} (gz01, connected) and fail its jobs? [y/N]`,
    );
    const refused = await said(agent, ["host", "forget", "gz01", "--yes"]);
    assertEquals(refused.code, 6);
    assertStringIncludes(refused.err(), "its agent was heard from 0 s ago");
    assertStringIncludes(
      refused.err(),
      "hint: zonewright host list  shows when each host was last heard from",
    );
  }));

const fleetTest = fleetTests();
const [ONE, OTHER] = HOSTS;

fleetTest("host forget fails the jobs of a host that is away", async ({ one, other }) => {
  await register(one, lifeOf(ONE));
  await register(other, lifeOf(OTHER), [], { name: "gz02" });
  await create(one, jobOf(1));
  one.clock.now = instantAfter(T0, LEASE + 1000);
  await withHttpAgent(async (agent) => {
    const { code, out } = await said(agent, ["host", "forget", "gz01", "--yes"]);
    assertEquals([code, out()], [0, "gz01 forgotten, 1 job failed\n"]);
    const json = document(await said(agent, ["host", "forget", "gz01", "--yes", "--json"]));
    assertEquals((json as { failed_jobs: number }).failed_jobs, 0);
    // No other host has the name.
    const found = await other.hosts.find("gz01");
    assertEquals(found.kind === "found" && [found.host.uuid, found.host.state], [ONE, "forgotten"]);
    assertEquals((await other.hosts.find("gz03")).kind, "not_found");
    assertEquals((await said(agent, ["host", "uncordon", "gz01"])).out(), "gz01 away\n");
  }, { store: other, hostUuid: OTHER });
});

fleetTest(
  "the name of a forgotten host means another host with that name",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    await register(other, lifeOf(OTHER));
    await withHttpAgent(async (agent) => {
      one.clock.now = other.clock.now = instantAfter(T0, LEASE + 1000);
      await other.jobs.renew(lifeOf(OTHER), [], LEASE);
      assertEquals((await said(agent, ["host", "forget", ONE, "--yes"])).code, 0);
      const { out } = await said(agent, ["host", "show", "gz01"]);
      assertMatch(out(), new RegExp(`^uuid +${OTHER}$`, "m"));
    }, { store: other, hostUuid: OTHER });
  },
);

fleetTest(
  "job commands say that a job waits for its host while that is away",
  async ({ one, other }) => {
    await register(one, lifeOf(ONE));
    await register(other, lifeOf(OTHER), [], { name: "gz02" });
    await create(one, jobOf(1));
    await create(one, jobOf(2));
    await one.jobs.claim(lifeOf(ONE), 1);
    one.clock.now = instantAfter(T0, LEASE + 1000);
    await withHttpAgent(async (agent) => {
      const list = (await said(agent, ["job", "list"])).out();
      assertMatch(list, / queued +sample +waits for gz01, which is away /);
      assertMatch(list, / running +sample +first, on gz01, which is away /);
      const { body } = await agent.call("POST", "/workflows", { name: "w", chain: [] });
      const ordered = await said(agent, [
        "job",
        "run",
        (body as { uuid: string }).uuid,
        "--on",
        ONE,
      ]);
      assertStringIncludes(ordered.err(), "the job waits for gz01, which is away\n");
      const [queued, running] = [uuidOf(2), uuidOf(1)];
      const show = (await said(agent, ["job", "get", queued])).out();
      assertMatch(show, /^host +gz01, which is away\nreason +waiting for gz01, which is away$/m);
      assertStringIncludes(show, "next: zonewright host show gz01  shows when");
      const why = (await said(agent, ["job", "why", running])).out();
      assertMatch(why, /^task +first, on gz01, which is away$/m);
      assertStringIncludes(why, "next: zonewright host show gz01  shows when");
    }, { store: other, hostUuid: OTHER });
  },
);

fleetTest("a name of two hosts exits 2, and lists their uuids", async ({ one, other }) => {
  await register(one, lifeOf(ONE));
  await register(other, lifeOf(OTHER));
  await withHttpAgent(async (agent) => {
    const { code, err } = await said(agent, ["host", "cordon", "gz01"]);
    assertEquals(code, 2);
    assertStringIncludes(err(), 'Cannot choose host "gz01": 2 have that name');
    for (const uuid of HOSTS) assertStringIncludes(err(), uuid);
    assertEquals((await said(agent, ["host", "cordon", ONE])).code, 0);
  }, { store: other, hostUuid: OTHER });
});

fleetTest("the names of hosts are completed", async ({ one, other }) => {
  await register(one, lifeOf(ONE));
  await register(other, lifeOf(OTHER), [], { name: "gz02" });
  await withHttpAgent(async (agent) => {
    const screen = openScreen({ env: { ZONEWRIGHT_URL: agent.url } });
    await runCli(["__complete", "host", "drain", "gz"], screen.terminal);
    assertEquals(screen.out(), "gz01\tconnected\ngz02\tconnected\n");
  }, { store: other, hostUuid: OTHER });
});
