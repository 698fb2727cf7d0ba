// Waiting for a console, against real listeners and a vmadm that names them.

import { assert, assertEquals } from "@std/assert";
import { type MachineUuid, parseUuid } from "../../src/domain/id.ts";
import { openVmadm } from "../../src/host/vmadm/vmadm.ts";
import { connectVnc, waitForVnc } from "../../src/host/vmadm/vnc.ts";
import { hurriedWait, quickTimers } from "../support/timers.ts";
import { until } from "../support/until.ts";
import { type FakeVmadm, withFakeVmadm } from "./fake_vmadm.ts";
import { RECORDED_UUID, recording } from "./recording.ts";
import { refused } from "./refused.ts";

const UUID = parseUuid<MachineUuid>(RECORDED_UUID, "uuid");
const BANNER = "RFB 003.008\n";
const DEADLINE_MS = 90_000;

interface Listener {
  readonly port: number;
  /** Connections that were accepted so far. */
  accepted(): number;
}

/** Runs a test with a listener that does something with each connection, by its number from 1. */
async function withListener(
  greet: (connection: Deno.Conn, number: number) => Promise<void> | void,
  test: (listener: Listener) => Promise<void>,
): Promise<void> {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const open: Deno.Conn[] = [];
  const accepting = (async () => {
    for await (const connection of listener) {
      open.push(connection);
      // The other side may be gone already.
      await Promise.resolve(greet(connection, open.length)).catch(() => {});
    }
  })();
  try {
    await test({ port: listener.addr.port, accepted: () => open.length });
  } finally {
    listener.close();
    await accepting;
    for (const connection of open) {
      try {
        connection.close();
      } catch {
        // The test has closed the connection.
      }
    }
  }
}

async function send(connection: Deno.Conn, text: string): Promise<void> {
  await connection.write(new TextEncoder().encode(text));
}

function names(port: number): string {
  return `printf '{"vnc": {"host": "127.0.0.1", "port": %d}}' ${port}`;
}

function wait(fake: FakeVmadm, deadlineMs = DEADLINE_MS, signal?: AbortSignal) {
  const options = {
    deadlineMs,
    wait: hurriedWait,
    ...(signal === undefined ? {} : { signal }),
  };
  const vmadm: Parameters<typeof waitForVnc>[0] = {
    ...openVmadm(fake.transport),
    connectVnc: (address, o) =>
      connectVnc(fake.transport, address, { ...o, timers: quickTimers(5) }),
  };
  return waitForVnc(vmadm, UUID, options);
}

/** Deadlines, milliseconds: a busy machine needs a longer one until vmadm has answered at all. */
const DEADLINES_MS = [1_000, 4_000, 16_000, DEADLINE_MS];

/** Waits until the time is up, and expects these words about what was seen. */
async function refusedInTime(fake: FakeVmadm, ...words: string[]): Promise<void> {
  for (const deadlineMs of DEADLINES_MS) {
    const time = `no answer within ${deadlineMs / 1000} s`;
    const judged = refused(() => wait(fake, deadlineMs), "timeout", UUID, time, ...words);
    if (deadlineMs === DEADLINE_MS) await judged;
    else if (await judged.then(() => true, () => false)) return;
  }
}

Deno.test("waitForVnc() returns the address at which an RFB server answers", async () => {
  await withFakeVmadm(async (fake) => {
    await withListener((connection) => send(connection, BANNER), async ({ port }) => {
      await fake.answer("info", names(port));
      assertEquals(await wait(fake), { host: "127.0.0.1", port });
    });
  });
});

Deno.test("waitForVnc() accepts a banner that arrives in parts, and older versions", async () => {
  await withFakeVmadm(async (fake) => {
    const parts = async (connection: Deno.Conn) => {
      for (const part of ["R", "FB 0", "03.003\n"]) await send(connection, part);
    };
    await withListener(parts, async ({ port }) => {
      await fake.answer("info", names(port));
      assertEquals((await wait(fake)).port, port);
    });
  });
});

Deno.test("waitForVnc() asks again until vmadm names an address", async () => {
  await withFakeVmadm(async (fake) => {
    await withListener((connection) => send(connection, BANNER), async ({ port }) => {
      await fake.answer(
        "info",
        `case $(wc -l < "$dir/calls") in
         1) printf '{"vnc": {}}' ;;
         2) echo "Unable to get info from vmadmd, query returned 500." >&2; exit 1 ;;
         *) ${names(port)} ;;
         esac`,
      );
      assertEquals((await wait(fake)).port, port);
      assertEquals((await fake.calls()).length, 3);
    });
  });
});

Deno.test("waitForVnc() asks vmadm again before each connection", async () => {
  await withFakeVmadm(async (fake) => {
    await withListener((connection) => connection.close(), async (first) => {
      await withListener((connection) => send(connection, BANNER), async (second) => {
        await fake.answer(
          "info",
          `if [ $(wc -l < "$dir/calls") -lt 3 ]; then ${names(first.port)}; else ${
            names(second.port)
          }; fi`,
        );
        assertEquals((await wait(fake)).port, second.port);
        assertEquals(first.accepted(), 2);
        assertEquals(second.accepted(), 1);
      });
    });
  });
});

Deno.test("waitForVnc() continues after a listener that closed, refused or sent garbage", async () => {
  const greet = (connection: Deno.Conn, number: number) => {
    if (number === 1) return connection.close();
    if (number === 2) return send(connection, "HTTP/1.1 200 OK\r\n\r\n");
    if (number === 3) return send(connection, "RFB 002.000\n");
    return send(connection, BANNER);
  };
  await withFakeVmadm(async (fake) => {
    await withListener(greet, async (listener) => {
      await fake.answer("info", names(listener.port));
      assertEquals((await wait(fake)).port, listener.port);
      assertEquals(listener.accepted(), 4);
    });
  });
});

Deno.test("waitForVnc() continues after a silent listener", async () => {
  const greet = async (connection: Deno.Conn, number: number) => {
    if (number > 1) await send(connection, BANNER);
  };
  await withFakeVmadm(async (fake) => {
    await withListener(greet, async (listener) => {
      await fake.answer("info", names(listener.port));
      assertEquals((await wait(fake)).port, listener.port);
      assertEquals(listener.accepted(), 2);
    });
  });
});

Deno.test("waitForVnc() continues after vmadm failed or printed garbage", async () => {
  await withFakeVmadm(async (fake) => {
    await withListener((connection) => send(connection, BANNER), async ({ port }) => {
      const running = recording("lookup_one.json").replace("stopped", "running");
      await fake.answer("lookup", `cat <<'TEXT'\n${running}TEXT`);
      await fake.answer(
        "info",
        `case $(grep -c ^info "$dir/calls") in
         1) echo 'connect ECONNREFUSED' >&2; exit 1 ;;
         2) printf '{"vnc": {"host": ' ;;
         3) printf '{"vnc": {"host": "127.0.0.1"}}' ;;
         *) ${names(port)} ;;
         esac`,
      );
      assertEquals((await wait(fake)).port, port);
    });
  });
});

Deno.test("waitForVnc() names what it saw last when its time is up", async () => {
  await withFakeVmadm(async (fake) => {
    await fake.answer("info", `printf '{"vnc": {}}'`);
    await refusedInTime(fake, "vmadm reports no address");
    await withListener((connection) => connection.close(), async ({ port }) => {
      await fake.answer("info", names(port));
      const seen =
        `last seen: Cannot connect to the console at 127.0.0.1:${port}: it closed the connection`;
      await refusedInTime(fake, seen);
    });
    // Below those that the system gives out: nobody listens there, whatever other tests do.
    await fake.answer("info", names(1024));
    await refusedInTime(fake, "cannot be reached");
  });
});

Deno.test("waitForVnc() keeps its deadline with a silent listener and a vmadm that hangs", async () => {
  await withFakeVmadm(async (fake) => {
    await withListener(() => {}, async ({ port, accepted }) => {
      await fake.answer("info", names(port));
      await refusedInTime(fake, "RFB version");
      assert(accepted() >= 1);
    });
    await fake.answer("info", "exec sleep 600");
    await refused(() => wait(fake, 1_000), "timeout", "vmadm has not answered");
  });
});

Deno.test("waitForVnc() ends at once for a stopped or missing machine", async () => {
  await withFakeVmadm(async (fake) => {
    await fake.answer("info", "exit 1");
    await fake.answer("lookup", `cat <<'TEXT'\n${recording("lookup_one.json")}TEXT`);
    await refused(
      () => wait(fake),
      "conflict",
      'its state is "stopped", expected "running" or "stopping"',
    );
    await fake.answer("lookup", "echo '[]'");
    await refused(() => wait(fake), "not_found");
  });
});

Deno.test("waitForVnc() ends when the caller aborts", async () => {
  await withFakeVmadm(async (fake) => {
    await withListener(() => {}, async ({ port, accepted }) => {
      await fake.answer("info", names(port));
      const giveUp = new AbortController();
      const failing = refused(() => wait(fake, DEADLINE_MS, giveUp.signal), "aborted");
      await until("the connection", () => accepted() === 1);
      giveUp.abort();
      await failing;
      await refused(() => wait(fake, DEADLINE_MS, AbortSignal.abort()), "aborted");
      assert((await fake.calls()).length === 1);
    });
  });
});
