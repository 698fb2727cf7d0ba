// The VNC console of a simulated machine, looked at with an RFB client: handshakes of three versions,
// authentication, pixel formats, and a picture that tells what was booted and what was typed.

import { assert, assertEquals, assertNotEquals, assertRejects } from "@std/assert";
import { join } from "@std/path";
import { desEncipher } from "../../src/simulator/console/handshake.ts";
import { until } from "../support/until.ts";
import { RfbClient } from "./simulator/rfb_client.ts";
import { payload, type SimulatedHost, UUID, withHost } from "./simulator/simulated_host.ts";

async function pictureAfter(host: SimulatedHost, words: readonly string[]): Promise<Uint8Array> {
  await host.vmadm(["boot", UUID, ...words]);
  using client = await RfbClient.connect(await host.vncPort(UUID));
  await client.handshake("3.8");
  const picture = await client.picture();
  await host.vmadm(["stop", UUID, "-F"]);
  return picture;
}

/** Which pixels differ from the last one, which is background. */
function litPixels(picture: Uint8Array, bytesPerPixel: number): Uint8Array {
  const last = picture.subarray(-bytesPerPixel);
  const lit = new Uint8Array(picture.length / bytesPerPixel);
  for (let at = 0; at < picture.length; at++) {
    if (picture[at] !== last[at % bytesPerPixel]) lit[Math.floor(at / bytesPerPixel)] = 1;
  }
  return lit;
}

function hex(text: string): Uint8Array {
  return new Uint8Array((text.match(/../g) ?? []).map((byte) => Number.parseInt(byte, 16)));
}

Deno.test("desEncipher() returns the published answers", () => {
  const cases = [
    ["133457799bbcdff1", "0123456789abcdef", "85e813540f0ab405"],
    ["0e329232ea6d0d73", "8787878787878787", "0000000000000000"],
    ["0101010101010101", "8000000000000000", "95f8a5e5dd31d900"],
    ["7ca110454a1a6e57", "01a1d6d039776742", "690f5b0d9a26939b"],
  ] as const;
  for (const [key, plain, cipher] of cases) {
    assertEquals(desEncipher(hex(key), hex(plain)), hex(cipher));
  }
  // Two hundred blocks, each enciphered with the one before it; the end was reckoned by OpenSSL.
  let [key, block] = [new Uint8Array(8), new Uint8Array(8)];
  for (let count = 0; count < 200; count++) [key, block] = [block, desEncipher(key, block)];
  assertEquals(block, hex("897c7f850fcaf30d"));
});

Deno.test("the picture distinguishes a CD from a disk image and from nothing", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.place(UUID, "x.iso");
    await host.place(UUID, "x.raw");
    const cd = await pictureAfter(host, ["order=cd,once=d", "cdrom=/x.iso,ide"]);
    const disk = await pictureAfter(host, ["disk=/x.raw,ide"]);
    const nothing = await pictureAfter(host, []);
    assertEquals(cd.length, 640 * 400 * 4);
    assertNotEquals(cd, disk);
    assertNotEquals(cd, nothing);
    assertNotEquals(disk, nothing);
    // The background, at the right lower corner: blue, green, red of a CD.
    assertEquals([...cd.subarray(-4)], [112, 0, 0, 0]);
  });
});

Deno.test("a client of each version sees the same picture in every pixel format", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.vmadm(["boot", UUID]);
    const port = await host.vncPort(UUID);
    for (const version of ["3.3", "3.7", "3.8"] as const) {
      using client = await RfbClient.connect(port);
      const { width, height, name } = await client.handshake(version);
      assertEquals([width, height, name], [640, 400, `web01 (${UUID})`]);
      await client.setEncodings();
      const full = await client.picture();
      for (const bits of [8, 16] as const) {
        await client.setPixelBits(bits);
        const picture = await client.picture();
        assertEquals(picture.length, 640 * 400 * bits / 8);
        assertEquals(litPixels(picture, bits / 8), litPixels(full, 4));
      }
    }
  });
});

Deno.test("typed keys appear in an incremental update, are logged, and take effect", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.place(UUID, "x.iso");
    await host.vmadm(["boot", UUID, "order=cd,once=d", "cdrom=/x.iso,ide"]);
    using client = await RfbClient.connect(await host.vncPort(UUID));
    await client.handshake("3.8");
    const before = await client.picture();
    await client.request(true);
    await client.type("i");
    const [rectangle, ...others] = await client.update();
    assert(rectangle !== undefined && rectangle.height < 400);
    assertEquals(others, []);
    const shown = before.subarray(rectangle.y * 640 * 4);
    assertNotEquals(rectangle.pixels, shown.subarray(0, rectangle.pixels.length));
    await client.write(5, 1, 0, 7, 0, 9);
    await client.write(6, 0, 0, 0, 0, 0, 0, 2, 65, 66);
    await client.type("nstall\nreboot\n");
    await until("the disk", async () => {
      const guest = JSON.parse((await host.run(["guest", UUID])).stdout);
      return guest.booted.kind === "disk";
    });
    const log = await Deno.readTextFile(join(host.dir, "processes", `${UUID}.input`));
    assertEquals(log.split("\n").slice(0, 2), [
      '{"key":105}',
      '{"pointer":{"x":7,"y":9,"buttons":1}}',
    ]);
    assertNotEquals(await client.picture(), before);
  });
});

Deno.test("VNC authentication asks for a password, and it must be right", async () => {
  await withHost(async (host) => {
    await host.create(payload({ vnc_password: "s3cret" }));
    await host.vmadm(["boot", UUID]);
    const port = await host.vncPort(UUID);
    const info = JSON.parse((await host.vmadm(["info", UUID, "vnc"])).stdout);
    assertEquals(info.vnc.password, "s3cret");
    for (const version of ["3.3", "3.8"] as const) {
      using right = await RfbClient.connect(port);
      await right.handshake(version, "s3cret");
      assertEquals((await right.picture()).length, 640 * 400 * 4);
      using wrong = await RfbClient.connect(port);
      const reason = version === "3.8" ? "Authentication failed" : "refused";
      await assertRejects(() => wrong.handshake(version, "guess"), Error, reason);
    }
    // kvm takes another password while it runs, since it had one when it started.
    await host.vmadm(["update", UUID, "vnc_password=other"]);
    using client = await RfbClient.connect(port);
    await client.handshake("3.8", "other");
  });
});

Deno.test("the port changes at each start and with the proxy, and may be fixed or off", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.vmadm(["boot", UUID]);
    const first = await host.vncPort(UUID);
    await host.run(["guest", UUID, "proxy-restart"]);
    const second = await until("another port", async () => {
      const port = await host.vncPort(UUID);
      return port === first ? null : port;
    });
    await assertRejects(() => RfbClient.connect(first), Deno.errors.ConnectionRefused);
    (await RfbClient.connect(second))[Symbol.dispose]();
    await host.vmadm(["update", UUID, "vnc_port=-1"]);
    await until("no listener", async () => {
      const { stdout } = await host.vmadm(["info", UUID, "vnc"]);
      return stdout === '{\n  "vnc": {}\n}\n';
    });
    await host.vmadm(["stop", UUID, "-F"]);
    const stopped = await host.vmadm(["info", UUID, "vnc"]);
    assertEquals(
      stopped.stderr,
      `Unable to get VM info for VM ${UUID}: Unable to get info for vm from state "stopped", ` +
        'must be "running" or "stopping".\n',
    );
    assertEquals([stopped.code, stopped.stdout], [1, ""]);
  });
});

Deno.test("the screen of bhyve is black with its CSM firmware", async () => {
  await withHost(async (host) => {
    await host.create(payload({ brand: "bhyve" }));
    assert((await pictureAfter(host, [])).every((byte) => byte === 0));
    const sections = async (types: string) => (await host.vmadm(["info", UUID, types])).stderr;
    await host.vmadm(["boot", UUID]);
    assertEquals(
      await sections("kvm"),
      `Unable to get VM info for VM ${UUID}: unknown info type kvm\n`,
    );
  });
});

Deno.test("a client that breaks the protocol loses its connection; others keep theirs", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.vmadm(["boot", UUID]);
    const port = await host.vncPort(UUID);
    using other = await RfbClient.connect(port);
    await other.handshake("3.8");
    using stranger = await RfbClient.connect(port);
    await stranger.text(12);
    await stranger.write(...new TextEncoder().encode("GET / HTTP/1"));
    await assertRejects(() => stranger.read(1), Error);
    using broken = await RfbClient.connect(port);
    await broken.handshake("3.8");
    await broken.write(99);
    await assertRejects(() => broken.read(1), Error);
    assertEquals((await other.picture()).length, 640 * 400 * 4);
  });
});
