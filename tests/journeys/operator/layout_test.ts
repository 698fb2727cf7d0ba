// The layouts of every list in windows of 80 and 140 columns, as layouts.txt has them. After a change that
// is meant: WRITE_LAYOUTS=1, and look at the difference.

import { assert, assertEquals } from "@std/assert";
import type { JsonValue } from "../../../src/domain/json.ts";
import { NOUNS } from "../../../src/cli/cli.ts";
import { changeTokenFile, tokenFilePath } from "../../../src/state_dir/token_file.ts";
import { screenFor } from "../../cli/screen.ts";
import { withFolder } from "../../support/until.ts";

const GOLDEN = new URL("./layouts.txt", import.meta.url);
const NOW_MS = Date.parse("2026-01-31T18:30:00Z");
const HEX = "5b2f6a10c4de9a77b0e1c2d3f4a5968778695a4b3c2d1e0f9a8b7c6d5e4f3a2b";

function job(uuid: string, state: string, name: string, fields: Record<string, JsonValue>) {
  return {
    uuid: `${uuid}-6a53-4c0c-9a3b-0d1f4e0a7a11`,
    state,
    name,
    reason: null,
    task: null,
    error: null,
    duration: null,
    created_at: "2026-01-31T18:20:00Z",
    ...fields,
  };
}

function task(name: string, attempt: number | null = null): JsonValue {
  return { name, phase: "chain", index: 1, attempt, since: null, next_retry_at: null };
}

const JOBS: JsonValue = [
  job("6c1e8f0a", "running", "provision-machine", {
    task: task("place_medium", 1),
    progress: { phase: "copy", done: 412, total: 631 },
    duration: 12.4,
  }),
  job("51fe0b77", "failed", "provision-machine", {
    task: task("fetch_medium"),
    error: "Cannot place medium debian-13.iso in zones/51fe0b77: no space left on the device, 12 " +
      "MiB are free and 640 MiB are needed",
    duration: 185,
  }),
  job("51fe0b79", "failed", "nightly-backup-of-the-customer-database-of-the-northern-region", {
    task: task("dump"),
    error: "connection refused",
    duration: 0.3,
    created_at: "2026-01-29T03:00:00Z",
  }),
  job("aa00bb11", "queued", "hello", { reason: "waiting_for_slot" }),
  job("aa00bb12", "waiting", "approve", {
    reason: "waiting_for_resume",
    task: task("ask"),
    duration: 7810,
  }),
  job("aa00bb13", "succeeded", "hello", { duration: 0.1 }),
  job("aa00bb14", "canceled", "stop-machine", { duration: 2 }),
];

const MACHINES: JsonValue = [
  {
    machine: ["6c1e8f0a", "web-1", "kvm", "running", 4096, "success", "2026-01-29T03:00:00Z"],
    disks: [10_240],
    nics: [["10.0.0.5/24"], ["192.0.2.69/24", "2001:db8::9/64"]],
  },
  {
    machine: [
      ...["7d2f9a1b", "database-of-the-northern-region-replica-2", "bhyve", "stopped"],
      ...[131072, "failure", "2026-01-31T18:20:00Z"],
    ],
    disks: [10_240, 1_048_576],
    nics: [["2001:db8:85a3:8d3:1319:8a2e:370:7348/64"]],
  },
  { machine: ["8e30ab2c", null, "kvm", "absent", 512, "running", null], disks: [], nics: [] },
].map((
  {
    machine: [
      uuid = "",
      alias = null,
      brand = null,
      state = null,
      ram = null,
      job_execution = null,
      created_at = null,
    ],
    disks,
    nics,
  },
) => ({
  uuid: `${uuid}-6a53-4c0c-9a3b-0d1f4e0a7a11`,
  alias,
  brand,
  state,
  ram,
  job_execution,
  created_at,
  disks: [...disks.map((size) => ({ media: "disk", size })), { media: "cdrom", size: null }],
  nics: nics.map((ips, at) => ({ ips, primary: at === nics.length - 1 })),
}));

const WORKFLOWS: JsonValue = ["hello", "nightly-backup-of-the-customer-database"].map((
  name,
  at,
) => ({
  uuid: `${at}c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11`,
  name,
  chain: [{ name: "first" }, { name: "second" }],
  onerror: [],
  ...(at === 0 ? {} : { timeout: 3600 }),
}));

const LEFTOVERS: JsonValue = [{
  uuid: "6c1e8f0a-6a53-4c0c-9a3b-0d1f4e0a7a11",
  job_uuid: "51fe0b77-6a53-4c0c-9a3b-0d1f4e0a7a11",
  host: "gz-7.example.org",
  tries: 3,
  next_try_at: "2026-01-31T18:31:00Z",
  error: "cannot destroy zones/6c1e8f0a: dataset is busy",
}];

const LIBRARY: JsonValue = {
  files: [
    {
      name: "debian-13.1.0-amd64-netinst.iso",
      place: "folder",
      folder: "/zones/media",
      size: 661_651_456,
      kind: "iso",
      problem: null,
      digest: null,
      level: null,
      used_by: [],
    },
    {
      name: "customer-image-of-the-northern-region-2026-01-30.raw",
      place: "upload",
      folder: "/zones/zonewright/uploads",
      size: 2_361_393_152,
      kind: "raw",
      problem: null,
      digest: `sha256:${HEX}`,
      level: "given",
      used_by: [],
    },
  ],
  folders: [],
  truncated: false,
  cache: { bytes: 0, bytes_max: 68_719_476_736 },
};

const IMAGES: JsonValue = {
  images: [
    ["debian", "13", "20260115", "genericcloud", "x86_64", "qcow2", 343_932_928],
    ["omnios", "r151054", "r151054-lts-with-all-updates", "cloud", "x86_64", "raw", 4_294_967_296],
  ].map((
    [distro = "", release = "", build = "", variant = "", arch = "", format = "", size = 0],
  ) => ({
    distro,
    release,
    build,
    artifact: { variant, arch, format, size, path: "a" },
  })),
  next: null,
};

const STATS: JsonValue = Object.fromEntries(
  ["all_time", "past_24h", "past_hour", "current"].map((window, at) => [
    window,
    { queued: at, running: 2 * at, waiting: 0, succeeded: 123_456, failed: 7, canceled: 1 },
  ]),
);

const DISTROS: JsonValue = {
  distros: [
    { id: "debian", name: "Debian GNU/Linux", os_family: "linux" },
    { id: "omnios", name: null, os_family: "illumos" },
  ],
};

const RELEASES: JsonValue = {
  ...{ id: "debian", os_family: "linux" },
  releases: [
    { id: "13", title: "Debian 13 (trixie)", aliases: ["latest", "lts"], eol_date: "2030-06-30" },
    { id: "12", title: null, aliases: [], eol_date: null },
  ],
};

const BUILDS: JsonValue = {
  ...{ distro: "debian", release: "13" },
  builds: [{
    build: "20260115-2000-with-all-updates-of-the-point-release",
    artifacts: ["genericcloud", "nocloud-for-machines-without-metadata"].map((variant) => ({
      ...{ variant, arch: "x86_64", format: "qcow2", compression: "none" },
      ...{ size: 343_932_928, locations: [] },
    })),
  }],
};

const HOSTS: JsonValue = ([
  ["gz01", "connected", 3, 12, 1],
  ["gz02.rack-4.example.org", "cordoned", 1, 0, 4],
  ["gz03", "away", 2, 7, 86_400],
] as const).map(([name, state, running, queued, age_seconds], at) => ({
  ...{ uuid: `${at}f1c2e4a-0b3d-4c5e-8f6a-2b1d3c4e5f6a`, name, state, this_host: at === 0 },
  ...{ version: "0.1.0", slots: 8, running, queued, capabilities: ["vmadm"], brands: ["bhyve"] },
  ...{ address: null, generation: 3, seen_at: "2026-01-31T18:20:00.000Z", age_seconds },
  ...{ lease_seconds: 30, cordoned: state === "cordoned", forgotten: false },
}));

/** Each list with the path that it asks for, and the document that it gets. */
const LISTS: readonly (readonly [line: string, path: string, answer: JsonValue])[] = [
  ["job list", "/agent/v1/jobs", { jobs: JOBS, next: null }],
  ["machine list", "/agent/v1/machines", MACHINES],
  ["workflow list", "/workflows", WORKFLOWS],
  ["machine leftovers", "/agent/v1/leftovers", LEFTOVERS],
  ["media list", "/agent/v1/media/library", LIBRARY],
  ["host list", "/agent/v1/hosts", HOSTS],
  ["image find", "/agent/v1/images", IMAGES],
  ["image list", "/v1/index.json", DISTROS],
  ["image list debian", "/v1/distros/debian/index.json", RELEASES],
  ["image list debian/latest", "/v1/distros/debian/aliases/latest.json", BUILDS],
  ["job stats", "/stats", STATS],
  ["token list", "", null],
];

/** The state folder of `token list`, which asks no agent. */
async function writeTokens(folder: string): Promise<void> {
  await changeTokenFile(tokenFilePath(folder), () => [
    { name: "backup", scope: "read", sha256: HEX, created_at: "2026-01-29T03:00:00.000Z" },
    {
      name: "deploy-by-ansible",
      scope: "admin",
      sha256: HEX,
      created_at: "2026-01-31T18:20:00.000Z",
    },
  ]);
}

async function shownIn(columns: number, folder: string): Promise<string> {
  const answers = new Map(LISTS.map(([, path, answer]) => [path, answer]));
  const server = Deno.serve({ hostname: "127.0.0.1", port: 0, onListen: () => {} }, (request) => {
    const answer = answers.get(new URL(request.url).pathname);
    return answer === undefined ? new Response("", { status: 404 }) : Response.json(answer);
  });
  const { port } = server.addr;
  let shown = "";
  for (const [line] of LISTS) {
    const screen = screenFor(`http://127.0.0.1:${port}`, {
      columns,
      isTerminal: true,
      env: { NO_COLOR: "1", ZONEWRIGHT_STATE_DIR: folder },
      nowMs: () => NOW_MS,
    });
    assertEquals([line, await screen.run(...line.split(" "))], [line, 0], screen.err());
    for (const row of screen.out().split("\n")) {
      assert([...row].length <= columns, `${line} in ${columns} columns: ${row}`);
    }
    shown += `$ zonewright ${line}   (${columns} columns)\n${screen.out()}\n`;
  }
  await server.shutdown();
  return shown;
}

Deno.test("every list has its layout in windows of 80 and of 140 columns", () =>
  withFolder(async (folder) => {
    await writeTokens(folder);
    const shown = `${await shownIn(80, folder)}${await shownIn(140, folder)}`;
    if (Deno.env.get("WRITE_LAYOUTS") === "1") await Deno.writeTextFile(GOLDEN, shown);
    assertEquals(shown, await Deno.readTextFile(GOLDEN));
  }));

Deno.test("no list of the table of commands is without a layout", async () => {
  const lines = LISTS.map(([line]) => line);
  for (const [name, load] of Object.entries(NOUNS)) {
    const noun = await load();
    if (noun.kind !== "verbs" || noun.verbs.list === undefined) continue;
    assert(lines.includes(`${name} list`), `${name} list has no layout`);
  }
});
