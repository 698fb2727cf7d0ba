// Media on their way to a host behind ssh, when the way ends or the far end is full; and connections
// to what listens there.

import { assertEquals, assertRejects } from "@std/assert";
import { placeFile } from "../../src/host/zone/root.ts";
import { AgentError } from "../../src/domain/error.ts";
import { smallDiskTest, withSmallDisk } from "../support/small_disk.ts";
import { until } from "../support/until.ts";
import { type FarHost, farTest } from "./far_host.ts";
import { refused } from "./refused.ts";
import { findSshd } from "./ssh_server.ts";
import { namesIn, withFarZone } from "./zone.ts";

const MIB = 1024 * 1024;

/** A zone of the host, and a placement that is long enough to be cut off. */
async function openZone({ folder }: FarHost) {
  const zonepath = `${folder}/zones/z`;
  await Deno.mkdir(`${zonepath}/root`, { recursive: true });
  const source = `${folder}/medium.iso`;
  const bytes = new Uint8Array(24 * MIB).map((_, at) => at >> 9);
  await Deno.writeFile(source, bytes);
  return { zonepath, name: "a.iso", source, size: bytes.length };
}

/** Does something once, when the copy is under way. */
function once(run: () => void): () => void {
  let done = false;
  return () => {
    if (!done) run();
    done = true;
  };
}

farTest("a copy fails when sshd dies, and its repetition leaves nothing behind", async (host) => {
  const { server, transport } = host;
  const placement = await openZone(host);
  const { zonepath } = placement;
  let killed: Promise<void> | undefined;
  const onProgress = once(() => killed = server.kill());
  const first = placeFile(transport, { ...placement, onProgress });
  await refused(() => first, "host", "Cannot reach the files of");
  await killed;
  assertEquals(await namesIn(`${zonepath}/root`), []);
  await server.start();
  assertEquals((await placeFile(transport, placement)).file, "/a.iso");
  assertEquals(await namesIn(zonepath), ["root"]);
  assertEquals(await namesIn(`${zonepath}/root`), ["a.iso"]);
});

farTest(
  "leftovers of a copy whose connection broke are removed over the next one",
  async (host) => {
    const { server, transport } = host;
    const placement = await openZone(host);
    let dropped: Promise<void> | undefined;
    const onProgress = once(() => dropped = server.dropConnections());
    const copy = placeFile(transport, { ...placement, onProgress });
    await refused(() => copy, "host", "Cannot reach the files of");
    await dropped;
    assertEquals(await namesIn(placement.zonepath), ["root"]);
    assertEquals(await namesIn(`${placement.zonepath}/root`), []);
  },
);

farTest("bytes that differ on the remote host are noticed", async (host) => {
  const placement = await openZone(host);
  const { zonepath } = placement;
  // Again and again: what is on its way at the first signal may overwrite what was changed.
  let spoiling: ReturnType<typeof setInterval> | undefined;
  const onProgress = once(() => {
    const file = Deno.openSync(`${zonepath}/.zonewright-a.iso.part`, { write: true });
    spoiling = setInterval(() => {
      file.seekSync(0, Deno.SeekMode.Start);
      file.writeSync(new Uint8Array([99]));
    }, 1);
    closing.push(() => file.close());
  });
  const closing = [() => clearInterval(spoiling)];
  const copy = placeFile(host.transport, { ...placement, onProgress });
  try {
    await refused(() => copy, "digest_mismatch", "there and", "here");
  } finally {
    for (const close of closing) close();
  }
  assertEquals(await namesIn(zonepath), ["root"]);
  assertEquals(await namesIn(`${zonepath}/root`), []);
});

if (findSshd() !== undefined) {
  smallDiskTest(
    "placeFile() over ssh reports a disk that fills up while it copies",
    () =>
      withFarZone(({ transport, placement, zonepath, root }) =>
        withSmallDisk(zonepath, 4, async () => {
          await Deno.mkdir(root);
          const onProgress = once(() =>
            Deno.writeFileSync(`${root}/other`, new Uint8Array(3 * MIB))
          );
          const failed = await assertRejects(
            () => placeFile(transport, { ...placement, onProgress }),
            AgentError,
          );
          assertEquals(failed.code, "storage_full", failed.message);
          assertEquals(await namesIn(root), ["other"]);
          await Deno.remove(`${root}/other`);
          const { size } = placement;
          await until("the room", async () => await transport.files.freeBytes(root) >= size);
          assertEquals((await placeFile(transport, placement)).file, "/install.iso");
        })
      ),
  );
}

farTest("dial() connects to a listener on the host, in both directions", async ({ transport }) => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const echo = async () => {
    const peer = await listener.accept();
    await peer.readable.pipeTo(peer.writable);
  };
  const echoed = echo();
  const connection = await transport.dial("127.0.0.1", listener.addr.port);
  const sent = new Uint8Array(300_000).map((_, at) => at * 13);
  const write = async () => {
    for (let at = 0; at < sent.length;) at += await connection.write(sent.subarray(at));
  };
  const writing = write();
  const received = new Uint8Array(sent.length);
  for (let at = 0; at < received.length;) {
    at += await connection.read(received.subarray(at)) ?? received.length;
  }
  await writing;
  assertEquals(received, sent);
  connection.close();
  await echoed;
  listener.close();
});

farTest("dial() reports at the first read that nothing listens there", async ({ transport }) => {
  // Below those that the system gives out: nobody listens there, whatever other tests do.
  const port = 1024;
  const connection = await transport.dial("127.0.0.1", port);
  const read = connection.read(new Uint8Array(8));
  await refused(() => read, "host", `Cannot connect to 127.0.0.1:${port}`);
  connection.close();
});

farTest("closing a dialed connection ends its pending read", async ({ transport }) => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const accepted = listener.accept();
  const connection = await transport.dial("127.0.0.1", listener.addr.port);
  const peer = await accepted;
  const read = connection.read(new Uint8Array(8));
  connection.close();
  assertEquals(await read, null);
  assertEquals(await peer.read(new Uint8Array(8)), null);
  peer.close();
  listener.close();
});
