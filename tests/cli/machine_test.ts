// `machine create`: what it sends for what was typed, against a server that keeps it; and `machine
// list`, `get` and `vnc` against the HTTP application with a host of one machine.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import type { JsonObject } from "../../src/domain/json.ts";
import { claimAll, endTask, MACHINE_DEPS, NO_MACHINES, withHttpAgent } from "../http/http_agent.ts";
import { withMachines } from "../http/machine_agent.ts";
import { until, withFolder } from "../support/until.ts";
import { openScreen, screenFor } from "./screen.ts";

const MACHINE = { brand: "kvm", ram: 1024 };
const INPUT = JSON.stringify(MACHINE);
const HEX = "ab".repeat(32);
const UUID = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11";

/** The body that a command line sends. */
async function sent(...flags: string[]): Promise<JsonObject> {
  const screen = openScreen({ input: INPUT, cwd: "/here" });
  const code = await screen.run("machine", "create", "-f", "-", ...flags, "--curl");
  assertEquals([code, screen.err()], [0, ""], flags.join(" "));
  const body = /--data-raw '(.*)' http/.exec(screen.out())?.[1];
  return JSON.parse(body ?? "");
}

async function refused(...flags: string[]): Promise<string> {
  const screen = openScreen({ input: INPUT });
  const code = await screen.run("machine", "create", "-f", "-", ...flags, "--curl");
  assertEquals([code, screen.out()], [2, ""], flags.join(" "));
  return screen.err();
}

Deno.test("--iso distinguishes a name, a path, an address and an artifact by their form", async () => {
  const media = async (...flags: string[]) => (await sent(...flags)).media;
  assertEquals(await media("--iso", "debian.iso"), { path: "debian.iso" });
  assertEquals(await media("--iso", "/media/debian.iso"), { path: "/media/debian.iso" });
  assertEquals(await media("--iso", "./debian.iso"), { path: "/here/debian.iso" });
  assertEquals(await media("--iso", "../debian.iso"), { path: "/debian.iso" });
  assertEquals(await media("--iso", "debian/13"), {
    artifact: { distro: "debian", release: "13" },
  });
  assertEquals(await media("--iso", "https://a.example/b.iso", "--sha256", HEX.toUpperCase()), {
    url: "https://a.example/b.iso",
    digest: `sha256:${HEX}`,
  });
  assertEquals(await media("--iso", "/a.iso", "--sha512", HEX + HEX), {
    path: "/a.iso",
    digest: `sha512:${HEX}${HEX}`,
  });
});

Deno.test("--artifact names build, variant, architecture and format", async () => {
  const ref = "omnios/r151058:20261001?variant=cloud&arch=x86_64&format=raw";
  assertEquals((await sent("--artifact", ref)).media, {
    artifact: {
      distro: "omnios",
      release: "r151058",
      build: "20261001",
      variant: "cloud",
      arch: "x86_64",
      format: "raw",
    },
  });
});

Deno.test("boot is taken from the flag, and left to the agent for artifacts", async () => {
  assertEquals((await sent("--iso", "a.iso")).boot, "cd");
  assertEquals((await sent("--disk", "a.img")).boot, "disk");
  assertEquals((await sent("--artifact", "a/b")).boot, undefined);
  assertEquals((await sent("--artifact", "a/b", "--boot", "cd")).boot, "cd");
  assertEquals((await sent("--iso", "a.img", "--boot", "disk")).boot, "disk");
});

Deno.test("--brand and --uuid are sent beside the description, which is unchanged", async () => {
  const body = await sent("--iso", "a.iso", "--brand", "bhyve", "--uuid", UUID.toUpperCase());
  assertEquals(body.machine, { ...MACHINE, brand: "bhyve" });
  assertEquals(body.uuid, UUID);
});

Deno.test("media that are ambiguous or not trusted are refused with their own message", async () => {
  assertStringIncludes(await refused(), "a medium is missing");
  assertStringIncludes(
    await refused("--iso", "a", "--disk", "b"),
    "--iso and --disk are both given, expected one medium",
  );
  assertStringIncludes(await refused("--iso", "https://a/b.iso"), "expected its --sha256");
  assertStringIncludes(await refused("--iso", "ftp://a/b.iso"), "expected an http or https URL");
  assertStringIncludes(await refused("--iso", "file:///b.iso"), "or the path of a file");
  assertStringIncludes(await refused("--iso", "sub/a.iso"), "a subfolder, or ./sub/a.iso");
  assertStringIncludes(await refused("--iso", ""), "Cannot use --iso: it is empty");
  assertStringIncludes(await refused("--iso", "a.iso", "--sha256", "abc"), "64 hexadecimal digits");
  assertStringIncludes(await refused("--iso", "a.iso", "--sha256", HEX, "--sha512", HEX), "both");
  assertStringIncludes(await refused("--iso", "a.iso", "--boot", "net"), "expected cd or disk");
  assertStringIncludes(await refused("--iso", "a.iso", "--uuid", "x"), "expected a uuid");
  assertStringIncludes(await refused("--artifact", "debian"), "expected DISTRO/RELEASE");
  assertStringIncludes(
    await refused("--artifact", "debian/13?formt=raw"),
    'choose an artifact by "formt", expected variant, arch, format: did you mean "format"?',
  );
});

const PATH = { path: "/media/a.iso" };

/** The body that a command line sends for a file of this content. */
async function sentFor(content: unknown, ...flags: string[]): Promise<JsonObject> {
  const screen = openScreen({ input: JSON.stringify(content) });
  const code = await screen.run("machine", "create", "-f", "-", ...flags, "--curl");
  assertEquals([code, screen.err()], [0, ""], flags.join(" "));
  return JSON.parse(/--data-raw '(.*)' http/.exec(screen.out())?.[1] ?? "");
}

Deno.test("a file may be the whole request, which is sent as it is", async () => {
  const whole = { machine: MACHINE, media: PATH, boot: "disk", uuid: UUID };
  assertEquals(await sentFor(whole), whole);
  const { boot: _boot, uuid: _uuid, ...half } = whole;
  assertEquals(await sentFor(half), half);
  assertEquals(await sentFor(half, "--brand", "bhyve", "--uuid", UUID, "--boot", "cd"), {
    machine: { ...MACHINE, brand: "bhyve" },
    media: PATH,
    boot: "cd",
    uuid: UUID,
  });
});

Deno.test("a request without a medium gets it from the flags, as a description does", async () => {
  const media = { media: { path: "a.iso" }, boot: "cd" };
  assertEquals(await sentFor({ machine: MACHINE }, "--iso", "a.iso"), {
    machine: MACHINE,
    ...media,
  });
  assertEquals(await sentFor({ machine: 7 }, "--iso", "a.iso", "--brand", "kvm"), {
    machine: 7,
    ...media,
  });
});

Deno.test("a mixture of request, description and flags is refused, naming what is given twice", async () => {
  const refusal = async (content: unknown, ...flags: string[]) => {
    const screen = openScreen({ input: JSON.stringify(content) });
    const code = await screen.run("machine", "create", "-f", "-", ...flags, "--curl");
    assertEquals([code, screen.out()], [2, ""]);
    return screen.err();
  };
  const whole = { machine: MACHINE, media: PATH, boot: "cd", uuid: UUID };
  assertStringIncludes(
    await refusal({ ...MACHINE, media: PATH }),
    'Cannot read standard input: it mixes a request and a description: it has "media" and "brand", expected',
  );
  assertStringIncludes(await refusal({ machine: MACHINE, mdia: PATH }), 'did you mean "media"?');
  assertStringIncludes(await refusal({ media: PATH }), 'has "media" and no "machine"');
  assertStringIncludes(await refusal({ machine: MACHINE }), '--artifact, or "media" in the file');
  const twice: [string, string, string][] = [
    ["--iso", "b.iso", "media"],
    ["--sha256", HEX, "media"],
    ["--boot", "cd", "boot"],
    ["--uuid", UUID, "uuid"],
  ];
  for (const [flag, value, key] of twice) {
    assertStringIncludes(
      await refusal(whole, flag, value),
      `${flag} and "${key}" in standard input are both given`,
    );
  }
  assertStringIncludes(
    await refusal({ machine: MACHINE, boot: "disk" }, "--iso", "a.img"),
    'has "boot" and no "media"',
  );
});

Deno.test("machine create without a description exits 2", async () => {
  const screen = openScreen();
  assertEquals(await screen.run("machine", "create", "--iso", "a.iso"), 2);
  assertStringIncludes(screen.err(), "-f FILE is missing");
});

const CREATE = ["machine", "create", "-f", "-", "--iso", "/a.iso", "--wait"];

Deno.test("machine create --wait --json prints one document when its job fails, and exits 5", () =>
  withMachines(async (agent) => {
    const screen = screenFor(agent.url, { input: INPUT });
    const ended = screen.run(...CREATE, "--json");
    const listed = await until("job", async () => (await agent.store.jobs.list({}))[0]);
    const { uuid, params } = listed.job;
    await claimAll(agent);
    const failed = { kind: "fail", onerror: false } as const;
    await endTask(agent, uuid, failed, { error: "no such file" }, params);
    assertEquals(await ended, 5);
    assertEquals(JSON.parse(screen.out()), {
      uuid: params.uuid,
      job_uuid: uuid,
      execution: "failure",
      error: { task: "first", message: "no such file" },
    });
    const { code, message, exit_code } = JSON.parse(screen.err());
    const said = `Job ${uuid} failed in first: no such file`;
    assertEquals([code, message, exit_code], ["job_failed", said, 5]);
  }));

Deno.test("machine create --wait --json prints one document when its job is canceled", () =>
  withMachines(async (agent) => {
    const screen = screenFor(agent.url, { input: INPUT });
    const ended = screen.run(...CREATE, "--json");
    const listed = await until("job", async () => (await agent.store.jobs.list({}))[0]);
    const { uuid, params } = listed.job;
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    assertEquals(await ended, 7);
    const document = { uuid: params.uuid, job_uuid: uuid, execution: "canceled", error: null };
    assertEquals(JSON.parse(screen.out()), document);
  }));

Deno.test("machine create --follow --json names the machine on a line, and its failure in one object", () =>
  withMachines(async (agent) => {
    const screen = screenFor(agent.url, { input: INPUT });
    const ended = screen.run(...CREATE.slice(0, -1), "--follow", "--json");
    const listed = await until("job", async () => (await agent.store.jobs.list({}))[0]);
    const { uuid, params } = listed.job;
    await agent.call("POST", `/jobs/${uuid}/cancel`, {});
    assertEquals(await ended, 7);
    const [first = ""] = screen.out().split("\n");
    const message = `machine ${params.uuid}, job ${uuid}`;
    assertEquals(JSON.parse(first), { kind: "note", job_uuid: uuid, message });
    assertEquals(JSON.parse(screen.err()).code, "canceled");
  }));

Deno.test("machine create --idempotency-key twice makes one machine, and says so", () =>
  withMachines(async (agent) => {
    const line = [...CREATE, "--idempotency-key", "order-7"].filter((word) => word !== "--wait");
    const first = screenFor(agent.url, { input: INPUT });
    assertEquals(await first.run(...line), 0);
    const again = screenFor(agent.url, { input: INPUT });
    assertEquals([await again.run(...line), again.out()], [0, first.out()]);
    assertStringIncludes(again.err(), "was requested by the same call before\n");
    assertEquals(await agent.store.jobs.count({}), 1);
    const bad = screenFor(agent.url, { input: INPUT });
    assertEquals(await bad.run(...CREATE, "--idempotency-key", "a b"), 2);
  }));

const VNC = { host: "127.0.0.1", port: 5901, display: 1 };

/** A host with one machine that runs and one that does not. */
const HOST = {
  ...MACHINE_DEPS,
  vmadm: {
    ...NO_MACHINES,
    list: () => Promise.resolve([machine(UUID, "running"), machine(OTHER, "stopped")]),
    get: (uuid: string) =>
      Promise.resolve(
        uuid === UUID
          ? machine(UUID, "running")
          : uuid === OTHER
          ? machine(OTHER, "stopped")
          : null,
      ),
    infoVnc: (uuid: string) => Promise.resolve(uuid === UUID ? VNC : null),
    vncConsole: (uuid: string) =>
      Promise.resolve(uuid === UUID ? { ...VNC, password: PASSWORD } : null),
  },
};
const PASSWORD = "abcd2345";
const OTHER = "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a12";

function machine(uuid: string, state: string): JsonObject {
  return { uuid, state, alias: "web\x1b[2J", brand: "kvm", ram: 1024 };
}

Deno.test("machine list shows every machine, and its name cannot move the cursor", () =>
  withHttpAgent(async (agent) => {
    const screen = screenFor(agent.url);
    assertEquals(await screen.run("machine", "list"), 0);
    assertStringIncludes(
      screen.out(),
      `${UUID}  web\\x1b[2J  kvm    running     1024      -  -          -  gz-7  -\n`,
    );
    const json = screenFor(agent.url);
    await json.run("machine", "list", "--json");
    assertEquals(JSON.parse(json.out()).length, 2);
    const some = screenFor(agent.url);
    await some.run("machine", "list", "--state", "stopped", "--limit", "5", "--json");
    assertEquals(JSON.parse(some.out()).map((it: JsonObject) => it.uuid), [OTHER]);
  }, { machines: HOST }));

Deno.test("machine list shows the age of a state reported by a host that is away", async () => {
  const machines = [{ ...machine(UUID, "running"), age_seconds: 7300, host: "gz-9" }, {
    ...machine(OTHER, "running"),
    age_seconds: 110,
    host: "gz-8",
  }];
  const options = { hostname: "127.0.0.1", port: 0, onListen() {} };
  const server = Deno.serve(options, () => Response.json(machines));
  try {
    const screen = screenFor(`http://127.0.0.1:${server.addr.port}`);
    assertEquals(await screen.run("machine", "list"), 0, screen.err());
    const [, old, fresh] = screen.out().split("\n");
    assertStringIncludes(old ?? "", "running (2 h ago)  ");
    assertMatch(fresh ?? "", /running {10}/);
  } finally {
    await server.shutdown();
  }
});

Deno.test("machine list of a state without machines names the states that exist", () =>
  withHttpAgent(async (agent) => {
    const screen = screenFor(agent.url);
    assertEquals(await screen.run("machine", "list", "--state", "run"), 0);
    assertStringIncludes(screen.err(), 'no machine is "run": they are running, stopped\n');
  }, { machines: HOST }));

Deno.test("machine list and workflow list say that there is nothing to list", async () => {
  await withHttpAgent(async (agent) => {
    const words = "no machine matches\nhint: zonewright machine list  shows all of them\n";
    const screen = screenFor(agent.url);
    assertEquals(await screen.run("machine", "list", "--alias", "nobody"), 0);
    assertEquals(screen.err(), words);
  }, { machines: HOST });
  await withHttpAgent(async (agent) => {
    const hints = [];
    for (const noun of ["machine", "workflow"]) {
      const screen = screenFor(agent.url);
      assertEquals(await screen.run(noun, "list"), 0);
      hints.push(screen.err());
    }
    assertEquals(hints, [
      "there are no machines yet\nhint: zonewright machine create --help  says how to make one\n",
      "there are no workflows yet\nhint: zonewright workflow list --all  shows the built-in ones\n",
    ]);
  }, { machines: { ...HOST, vmadm: { ...HOST.vmadm, list: () => Promise.resolve([]) } } });
});

Deno.test("machine get shows the console of a machine that runs", () =>
  withHttpAgent(async (agent) => {
    const screen = screenFor(agent.url);
    assertEquals(await screen.run("machine", "get", UUID), 0);
    assertMatch(screen.out(), /^vnc +127\.0\.0\.1:5901 \(display 1\)$/m);
    assertStringIncludes(screen.out(), `/agent/v1/machines/${UUID}/console\n`);
    assertEquals(await screenFor(agent.url).run("machine", "get", UUID.replace("6c", "7c")), 4);
  }, { machines: HOST }));

Deno.test("machine vnc prints the address alone, and exits 6 when there is none", () =>
  withHttpAgent(async (agent) => {
    const screen = screenFor(agent.url);
    assertEquals([await screen.run("machine", "vnc", UUID), screen.out()], [0, "127.0.0.1:5901\n"]);
    const json = screenFor(agent.url);
    await json.run("machine", "vnc", UUID, "--json");
    assertEquals(JSON.parse(json.out()), { ...VNC, password: PASSWORD });
    const password = screenFor(agent.url);
    assertEquals(await password.run("machine", "vnc", UUID, "--password"), 0);
    assertEquals(password.out(), `${PASSWORD}\n`);
    const stopped = screenFor(agent.url);
    assertEquals(await stopped.run("machine", "vnc", OTHER), 6);
    assertStringIncludes(stopped.err(), 'its state is "stopped", expected running');
  }, { machines: HOST }));

Deno.test("machine console refuses a machine that is stopped, and says how to start it", () =>
  withHttpAgent(async (agent) => {
    for (const words of [[], ["--ticket"], ["--listen", "127.0.0.1:0"]]) {
      const stopped = screenFor(agent.url);
      assertEquals(await stopped.run("machine", "console", OTHER, ...words), 6);
      assertEquals(stopped.out(), "");
      assertStringIncludes(stopped.err(), 'its state is "stopped", expected running');
      assertStringIncludes(stopped.err(), `hint: zonewright machine boot ${OTHER}  starts`);
    }
  }, { machines: HOST }));

Deno.test("machine console opens an installed viewer where there is a display", () =>
  withHttpAgent((agent) =>
    withFolder(async (folder) => {
      const viewer = `${folder}/vncviewer`;
      await Deno.writeTextFile(viewer, `#!/bin/sh\necho "$@" > ${folder}/seen\n`);
      await Deno.chmod(viewer, 0o755);
      const env = { PATH: `relative:${folder}/none:${folder}`, DISPLAY: ":0" };
      const shown = screenFor(agent.url, { isTerminal: true, env });
      assertEquals(await shown.run("machine", "console", UUID), 0);
      const place = shown.out().trim();
      assertMatch(place, /^127\.0\.0\.1:\d+$/);
      const seen = await Deno.readTextFile(`${folder}/seen`);
      assertEquals(seen, `${place.replace(":", "::")}\n`);
      const plain = screenFor(agent.url, { isTerminal: true, env: { PATH: folder } });
      assertEquals(await plain.run("machine", "console", UUID), 0);
      assertMatch(plain.out(), /^ws:\/\//);
      assertStringIncludes(plain.err(), "next: zonewright machine console ");
      await Deno.writeTextFile(viewer, "#!/bin/sh\nexit 3\n");
      const failed = screenFor(agent.url, { isTerminal: true, env });
      assertEquals(await failed.run("machine", "console", UUID), 1);
      assertStringIncludes(failed.err(), "it ended with code 3");
    }), { machines: HOST }));
