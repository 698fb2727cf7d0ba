import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { HEAD_BYTES } from "../../src/mirror/media/file_format.ts";
import { openIndexServer } from "../mirror/index_server.ts";
import { AgentError, type ErrorCode } from "../../src/domain/error.ts";
import { isJsonObject, type JsonObject, type JsonValue } from "../../src/domain/json.ts";
import { DEFAULT_POLICY } from "../../src/domain/policy.ts";
import { runCommand } from "../../src/host/program.ts";
import type { Perform } from "../../src/sandbox/task_calls.ts";
import { ISO_BYTES, machineUuidOf, withHost } from "./simulated_host.ts";
import { isoBytes } from "../support/medium.ts";

const UUID: string = machineUuidOf(1);
const { signal } = new AbortController();

async function hexOf(path: string, algorithm: "SHA-256" | "SHA-512"): Promise<string> {
  const digest = await crypto.subtle.digest(algorithm, await Deno.readFile(path));
  return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

async function find(perform: Perform, request: JsonValue): Promise<JsonObject> {
  const medium = await perform("media.find", [request], signal);
  assert(isJsonObject(medium));
  return medium;
}

async function refused(call: () => Promise<unknown>, code: ErrorCode): Promise<string> {
  const error = await assertRejects(call, AgentError);
  assertEquals(error.code, code, error.message);
  return error.message;
}

async function newMachine(perform: Perform, brand: "kvm" | "bhyve"): Promise<void> {
  await perform("vmadm.create", [{ brand, ram: 256, uuid: UUID }], signal);
}

Deno.test("media.find() verifies a file of a media folder", async () => {
  await withHost(async ({ iso, newJob }) => {
    const { perform } = await newJob(1);
    const sha256 = await hexOf(iso, "SHA-256");
    const medium = {
      source: "path",
      path: iso,
      name: "install.iso",
      size: ISO_BYTES,
      sha256,
      label: `file ${iso}`,
      level: "none",
    };
    assertEquals(await find(perform, { path: iso }), medium);
    const checked = { ...medium, level: "index" };
    assertEquals(await find(perform, { path: iso, digest: `sha256:${sha256}` }), checked);
    const sha512 = await hexOf(iso, "SHA-512");
    assertEquals(await find(perform, { path: iso, digest: `sha512:${sha512}` }), checked);
  });
});

Deno.test("media.find() looks for a name without a slash in the media folders", async () => {
  await withHost(async ({ iso, newJob }) => {
    const { perform } = await newJob(1);
    assertEquals((await find(perform, { path: "install.iso" })).path, iso);
    const message = await refused(() => find(perform, { path: "missing.iso" }), "not_found");
    assertEquals(message.includes("it is in no media folder"), true, message);
  });
});

Deno.test("media.find() refuses a file whose digest differs", async () => {
  await withHost(async ({ iso, newJob }) => {
    const { perform } = await newJob(1);
    for (const digest of [`sha256:${"0".repeat(64)}`, `sha512:${"0".repeat(128)}`]) {
      await refused(() => find(perform, { path: iso, digest }), "digest_mismatch");
    }
  });
});

Deno.test("media.find() refuses files outside the media folders, and links that lead out of them", async () => {
  await withHost(async ({ folder, mediaDir, iso, newJob }) => {
    const { perform } = await newJob(1);
    const outside = join(folder, "outside.iso");
    await Deno.writeFile(outside, new Uint8Array(10));
    await Deno.symlink(outside, join(mediaDir, "link.iso"));
    await Deno.symlink(folder, join(mediaDir, "up"));
    await Deno.mkdir(join(folder, "media2"));
    await Deno.copyFile(iso, join(folder, "media2", "a.iso"));
    const paths = [
      outside,
      join(mediaDir, "link.iso"),
      join(mediaDir, "up", "outside.iso"),
      join(folder, "media2", "a.iso"),
      join(folder, "not-there.iso"),
      "/etc/nothing.iso",
    ];
    for (const path of paths) {
      const message = await refused(() => find(perform, { path }), "forbidden");
      assert(message.includes("is not in a media folder"), message);
    }
  });
});

Deno.test("media.find() follows a link that stays inside its folder, under the link's name", async () => {
  await withHost(async ({ mediaDir, iso, newJob }) => {
    const { perform } = await newJob(1);
    await Deno.symlink(iso, join(mediaDir, "latest.iso"));
    const medium = await find(perform, { path: join(mediaDir, "latest.iso") });
    assertEquals([medium.path, medium.name], [iso, "latest.iso"]);
  });
});

Deno.test("media.find() refuses what is not a regular file, and does not wait for a FIFO", async () => {
  await withHost(async ({ mediaDir, newJob }) => {
    const { perform } = await newJob(1);
    const at = (name: string) => join(mediaDir, name);
    const made = await runCommand("/usr/bin/mkfifo", [at("fifo.iso")], { deadlineMs: 90_000 });
    assertEquals(made.code, 0);
    await Deno.mkdir(at("folder.iso"));
    await Deno.writeFile(at("empty.iso"), new Uint8Array());
    await Deno.symlink("/dev/zero", at("zero.iso"));
    await Deno.symlink(at("loop.iso"), at("loop.iso"));
    await refused(() => find(perform, { path: at("fifo.iso") }), "invalid_argument");
    await refused(() => find(perform, { path: at("folder.iso") }), "invalid_argument");
    await refused(() => find(perform, { path: at("empty.iso") }), "invalid_argument");
    await refused(() => find(perform, { path: at("loop.iso") }), "invalid_argument");
    await refused(() => find(perform, { path: at("zero.iso") }), "forbidden");
    await refused(() => find(perform, { path: at("missing.iso") }), "not_found");
    await refused(() => find(perform, { path: `${mediaDir}/../a.iso` }), "invalid_argument");
  });
});

Deno.test("media.find() turns an unsafe name into a safe one", async () => {
  await withHost(async ({ mediaDir, newJob }) => {
    const { perform } = await newJob(1);
    const path = join(mediaDir, "Win 11, (x64)=é.iso");
    await Deno.writeFile(path, isoBytes(40_960));
    assertEquals((await find(perform, { path })).name, "Win-11-x64-.iso");
  });
});

Deno.test("media.place() copies a found medium into the zone, and media.remove() removes it", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await newMachine(perform, "kvm");
    const medium = await find(perform, { path: host.iso });
    const placed = await perform("media.place", [UUID, medium], signal);
    const file = "/install.iso";
    assertEquals(placed, { file, size: ISO_BYTES, sha256: medium.sha256 ?? null });
    const copy = join(host.transport.zonesRoot, UUID, "root", file);
    assertEquals(await hexOf(copy, "SHA-256"), medium.sha256);
    assertEquals(host.mediaCounts.placed, ISO_BYTES);
    assertEquals(await perform("media.remove", [UUID, file], signal), true);
    assertEquals(await perform("media.remove", [UUID, file], signal), false);
  });
});

Deno.test("media.place() refuses a medium that this job did not find", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    const other = await host.newJob(2);
    await newMachine(perform, "kvm");
    const medium = await find(other.perform, { path: host.iso });
    const place = (value: JsonValue) => () => perform("media.place", [UUID, value], signal);
    const message = await refused(place(medium), "forbidden");
    assert(message.includes("media.find() did not return it to this job"), message);
    const own = await find(perform, { path: host.iso });
    await refused(place({ ...own, path: "/etc/shadow" }), "forbidden");
    await refused(place({ ...own, sha256: "0".repeat(64) }), "forbidden");
    for (const value of [null, "x", {}, []]) await refused(place(value), "invalid_argument");
  });
});

Deno.test("media.place() trusts nothing but the path of the medium that a task passes back", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await newMachine(perform, "kvm");
    const medium = await find(perform, { path: host.iso });
    const forged = { ...medium, name: "../../startvm", size: 1, source: "url" };
    const placed = await perform("media.place", [UUID, forged], signal);
    assertEquals((placed as JsonObject).file, "/install.iso");
    assertEquals((placed as JsonObject).size, ISO_BYTES);
  });
});

Deno.test("media.place() refuses a file that changed after it was found", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await newMachine(perform, "kvm");
    const medium = await find(perform, { path: host.iso });
    await Deno.writeFile(host.iso, isoBytes(ISO_BYTES, false));
    const place = () => perform("media.place", [UUID, medium], signal);
    await refused(place, "digest_mismatch");
    const root = join(host.transport.zonesRoot, UUID, "root");
    const files = Array.from(Deno.readDirSync(root), ({ name }) => name);
    assertEquals(files.filter((name) => name.includes("install")), []);
    // Found again it is another medium, and may be placed.
    const again = await find(perform, { path: host.iso });
    assert(again.sha256 !== medium.sha256);
    await perform("media.place", [UUID, again], signal);
  });
});

Deno.test("media.place() refuses a running machine, and a missing one", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    const medium = await find(perform, { path: host.iso });
    const place = () => perform("media.place", [UUID, medium], signal);
    await refused(place, "not_found");
    await newMachine(perform, "kvm");
    await perform("vmadm.boot", [UUID, {}], signal);
    await refused(place, "conflict");
  });
});

Deno.test("media.remove() refuses names that no medium can have", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await newMachine(perform, "kvm");
    for (const file of ["/startvm", "/../x.iso", "/a/b.iso", "", null, 5]) {
      await refused(() => perform("media.remove", [UUID, file], signal), "invalid_argument");
    }
  });
});

Deno.test("media.place() raises the quota of a bhyve machine when the medium would not fit", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await newMachine(perform, "bhyve");
    const medium = await find(perform, { path: host.iso });
    await perform("media.place", [UUID, medium], signal);
    assertEquals((await host.vmadm.get(machineUuidOf(1)))?.quota, 2);
  });
});

Deno.test("media.place() keeps a quota that is large enough", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await newMachine(perform, "kvm");
    await perform("media.place", [UUID, await find(perform, { path: host.iso })], signal);
    assertEquals((await host.vmadm.get(machineUuidOf(1)))?.quota, 10);
  });
});

Deno.test("media.place() refuses a quota above the policy", async () => {
  await withHost(async (host) => {
    const { perform } = await host.newJob(1);
    await perform("vmadm.create", [{ brand: "bhyve", uuid: UUID, quota: 1 }], signal);
    const medium = await find(perform, { path: host.iso });
    const message = await refused(
      () => perform("media.place", [UUID, medium], signal),
      "forbidden",
    );
    assert(message.includes("would need a quota of 2 GiB, the policy allows 1"), message);
  }, { policy: { ...DEFAULT_POLICY, quotaGiBMax: 1 } });
});

Deno.test("media.find() and images.download() accept the checks that a download must pass", async () => {
  await withHost(async ({ newJob }) => {
    const { perform } = await newJob(1);
    const artifact = { distro: "x", release: "1" };
    const digest = `sha256:${"0".repeat(64)}`;
    const rows: JsonValue[] = [
      { artifact, check: "best" },
      { artifact, allow_unverified: 1 },
      { artifact, compression: "xz" },
      { url: "https://images.example.com/a.iso" },
      { url: "https://images.example.com/a.qcow2", digest },
      { path: "install.iso", check: "none" },
      { path: "install.iso", any_format: "yes" },
      { known: "sha256:12" },
      { known: digest, check: "none" },
      { known: `sha512:${"0".repeat(128)}` },
    ];
    for (const request of rows) await refused(() => find(perform, request), "invalid_argument");
    await refused(() => find(perform, { known: digest }), "not_found");
    // Its words are right: what is missing is the index.
    await refused(() => find(perform, { artifact, check: "vendor" }), "not_found");
    const download = (ref: JsonValue) => () => perform("images.download", [ref], signal);
    for (const words of [{ check: "best" }, { digest: "md5:1" }, { any: true }]) {
      await refused(download({ ...artifact, ...words }), "invalid_argument");
    }
    await refused(download({ ...artifact, check: "vendor", allow_unverified: true }), "not_found");
  });
});

Deno.test("media.find() with any_format accepts files that cannot be placed", async () => {
  await withHost(async ({ mediaDir, newJob, store }) => {
    const { perform, uuid } = await newJob(1);
    await Deno.writeFile(join(mediaDir, "disk.qcow2"), new Uint8Array(10));
    await refused(() => find(perform, { path: "disk.qcow2" }), "invalid_argument");
    const medium = await find(perform, { path: "disk.qcow2", any_format: true });
    await newMachine(perform, "kvm");
    await refused(() => perform("media.place", [UUID, medium], signal), "invalid_argument");
    // It is in use by the job that has found it.
    assertEquals(await store.media.users(String(medium.sha256)), [uuid]);
    const again = await find(perform, { known: `sha256:${medium.sha256}` });
    assertEquals(again, medium);
  });
});

Deno.test("media.find() ends a download whose first bytes cannot boot; any_format accepts it", async () => {
  const body = new Uint8Array(2 * HEAD_BYTES);
  body.set([0x51, 0x46, 0x49, 0xfb]);
  await using server = openIndexServer(new Map([["disk.img", { body, etag: '"one"' }]]));
  server.faults.set("disk.img", [{ kind: "stall", after: HEAD_BYTES }]);
  await withHost(async ({ newJob }) => {
    const { perform } = await newJob(1);
    const request = { url: `${server.url}/disk.img`, allow_unverified: true };
    const message = await refused(() => find(perform, request), "invalid_argument");
    assert(message.includes("it is a qcow2 file, expected a raw disk image"), message);
    assertEquals(server.requests.length, 1);
    const medium = await find(perform, { ...request, any_format: true });
    assertEquals(medium.size, body.length);
  }, { upstream: server.url });
});
