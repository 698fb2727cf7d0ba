// Faults of the simulated host that spoil what is answered: by info, by the VNC listener, and by any
// subcommand.

import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { until } from "../support/until.ts";
import { RfbClient } from "./simulator/rfb_client.ts";
import { failedWith, fault, payload, UUID, withHost } from "./simulator/simulated_host.ts";

Deno.test("info is empty, broken or refused as often as the fault says", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.vmadm(["boot", UUID]);
    const port = await host.vncPort(UUID);
    const info = () => host.vmadm(["info", UUID, "vnc"]);
    const prefix = `Unable to get VM info for VM ${UUID}: `;
    await fault(host, "info_empty", "2");
    for (let times = 0; times < 2; times++) {
      assertEquals((await info()).stdout, '{\n  "vnc": {}\n}\n');
    }
    await fault(host, "info_500", "1");
    failedWith(await info(), `${prefix}Unable to get info from vmadmd, query returned 500.\n`);
    await fault(host, "info_refused", "1");
    failedWith(await info(), `${prefix}connect ECONNREFUSED\n`);
    await fault(host, "vmadmd_down", "1");
    failedWith(await info(), `${prefix}connect ECONNREFUSED\n`);
    await fault(host, "info_cut", "1");
    const cut = await info();
    assertEquals(cut.code, 0);
    await assertRejects(async () => await JSON.parse(cut.stdout), SyntaxError);
    await fault(host, "info_missing_port", "1");
    assertEquals(JSON.parse((await info()).stdout), { vnc: { host: "127.0.0.1" } });
    await fault(host, "info_missing_host", "1");
    assertEquals(Object.keys(JSON.parse((await info()).stdout).vnc), ["port", "display"]);
    await fault(host, "info_wrong_host", "198.51.100.9", "1");
    assertEquals(JSON.parse((await info()).stdout).vnc.host, "198.51.100.9");
    const { vnc } = JSON.parse((await info()).stdout);
    assertEquals(vnc, { host: "127.0.0.1", port, display: port - 5900 });
  });
});

Deno.test("the VNC listener is silent, closes, is old, or is slow to one client each", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await host.vmadm(["boot", UUID]);
    const port = await host.vncPort(UUID);
    await fault(host, "vnc_close", "1");
    using closed = await RfbClient.connect(port);
    await assertRejects(() => closed.text(12), Error, "Connection ended");
    await fault(host, "vnc_old", "1");
    using old = await RfbClient.connect(port);
    assertEquals(await old.text(12), "RFB 003.003\n");
    await fault(host, "vnc_slow", "300", "1");
    const started = performance.now();
    using slow = await RfbClient.connect(port);
    assertEquals(await slow.text(12), "RFB 003.008\n");
    assert(performance.now() - started >= 250); // Timers may be a little early.
    await fault(host, "vnc_silent", "1");
    using silent = await RfbClient.connect(port);
    const banner = silent.text(12).catch(() => "ended");
    await host.vmadm(["stop", UUID, "-F"]);
    assertEquals(await banner, "ended");
    await fault(host, "vnc_refuse", "1");
    await host.vmadm(["boot", UUID]);
    const refused = await host.vncPort(UUID);
    await assertRejects(() => RfbClient.connect(refused), Deno.errors.ConnectionRefused);
  });
});

Deno.test("any subcommand can die, or print nothing, nonsense or too much", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    const lookup = () => host.vmadm(["lookup"]);
    await fault(host, "killed", "lookup", "1");
    assertEquals((await lookup()).signal, "SIGKILL");
    await fault(host, "aborted", "lookup", "1");
    assertEquals((await lookup()).signal, "SIGABRT");
    await fault(host, "empty", "lookup", "1");
    assertEquals(await lookup(), { code: 0, signal: null, stdout: "", stderr: "" });
    await fault(host, "garbage", "lookup", "1");
    assertStringIncludes((await lookup()).stdout, "nonsense");
    await fault(host, "flood", "lookup", "1");
    assertEquals((await lookup()).stdout.length, 64 << 20);
    await fault(host, "noise_stdout", "lookup", "1");
    assert((await lookup()).stdout.endsWith(`stepped\n${UUID}\n`));
    await fault(host, "noise_stderr", "*", "1");
    const noisy = await lookup();
    assertEquals(noisy.stdout, `${UUID}\n`);
    assertStringIncludes(noisy.stderr, "simulated noise");
    assertEquals((await lookup()).stdout, `${UUID}\n`);
    await fault(host, "slow", "200", "1");
    const started = performance.now();
    await lookup();
    assert(performance.now() - started >= 150);
  });
});

Deno.test("a call that hangs has done nothing, or all of its work, when it is killed", async () => {
  await withHost(async (host) => {
    await host.create(payload());
    await fault(host, "hang", "update", "1");
    const hung = host.start(["vmadm", "update", UUID, "quota=33"]);
    await until("the fault is spent", async () => (await host.run(["fault"])).stdout === "{}\n");
    hung.kill("SIGKILL");
    await hung.output();
    assertEquals((await host.get(UUID)).quota, 10);
    await fault(host, "hang_after", "update", "1");
    const lost = host.start(["vmadm", "update", UUID, "quota=44"]);
    await until("the update", async () => (await host.get(UUID)).quota === 44);
    lost.kill("SIGKILL");
    assertEquals((await lost.output()).stderr.length, 0);
  });
});
