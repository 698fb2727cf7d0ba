// The book of tickets: each is good once, for one machine, for a while, and there are only so many.

import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { MachineUuid } from "../../src/domain/id.ts";
import type { Caller } from "../../src/http/caller.ts";
import { openConsoleTickets, shownTicket } from "../../src/http/console/tickets.ts";
import { tokenText } from "../../src/domain/token.ts";
import { uuidOf } from "../support/job.ts";

const MACHINE = uuidOf<MachineUuid>(1);
const OTHER = uuidOf<MachineUuid>(2);
const MAKER: Caller = { kind: "token", name: "boss", scope: "admin" };
const SECONDS = 30;

function openBook(max = 8) {
  const clock = { ms: 1_000_000 };
  const limits = { consoleTicketSeconds: SECONDS, consoleTicketsMax: max };
  return { clock, book: openConsoleTickets(limits, () => clock.ms) };
}

Deno.test("a ticket is 256 random bits, and valid once", async () => {
  const { book } = openBook(1000);
  const made = new Set<string>();
  for (let times = 0; times < 1000; times += 1) made.add(await book.issue(MACHINE, MAKER));
  assertEquals(made.size, 1000);
  for (const ticket of made) assertMatch(ticket, /^zwc_[A-Za-z0-9_-]{43}$/);
  const [ticket = ""] = made;
  assertEquals(await book.take(ticket, MACHINE), MAKER);
  assertEquals(await book.take(ticket, MACHINE), undefined);
});

Deno.test("of many simultaneous uses of a ticket, one succeeds", async () => {
  const { book } = openBook();
  const ticket = await book.issue(MACHINE, MAKER);
  const takers = Array.from({ length: 100 }, () => book.take(ticket, MACHINE));
  const through = (await Promise.all(takers)).filter((maker) => maker !== undefined);
  assertEquals(through, [MAKER]);
});

Deno.test("a ticket expires when its time is up, to the millisecond", async () => {
  const { book, clock } = openBook();
  const [first, second] = [await book.issue(MACHINE, MAKER), await book.issue(MACHINE, MAKER)];
  clock.ms += SECONDS * 1000 - 1;
  assertEquals(await book.take(first, MACHINE), MAKER);
  clock.ms += 1;
  assertEquals(await book.take(second, MACHINE), undefined);
});

Deno.test("another machine's ticket opens nothing, and stays valid for its own", async () => {
  const { book } = openBook();
  const ticket = await book.issue(MACHINE, MAKER);
  assertEquals(await book.take(ticket, OTHER), undefined);
  assertEquals(await book.take(ticket, MACHINE), MAKER);
});

Deno.test("a text that was never issued is not a ticket", async () => {
  const { book } = openBook();
  const ticket = await book.issue(MACHINE, MAKER);
  const last = ticket.at(-1) === "A" ? "E" : "A";
  const forged = [
    "",
    "zwc_",
    ticket.slice(0, -1),
    ticket.slice(0, -1) + last,
    `${ticket}A`,
    ` ${ticket}`,
    ticket.toUpperCase(),
    ticket.replace("zwc_", "zwt_"),
    tokenText(new Uint8Array(32)),
    tokenText(new Uint8Array(32)).replace("zwt_", "zwc_"),
    "zwc_" + "ü".repeat(43),
    "x".repeat(100_000),
  ];
  for (const text of forged) {
    assertEquals([text.slice(0, 60), await book.take(text, MACHINE)], [
      text.slice(0, 60),
      undefined,
    ]);
  }
  assertEquals(await book.take(ticket, MACHINE), MAKER);
});

Deno.test("no more tickets than the limit are issued, until one is used or has expired", async () => {
  const { book, clock } = openBook(3);
  const first = await book.issue(MACHINE, MAKER);
  clock.ms += 10_500;
  await book.issue(MACHINE, MAKER);
  await book.issue(OTHER, MAKER);
  const refused = await assertRejects(() => book.issue(OTHER, MAKER), AgentError);
  assertEquals([refused.code, refused.retryAfterSeconds], ["overloaded", 20]);
  assert(refused.message.includes(`machine ${OTHER}: 3 are unused`), refused.message);
  assertEquals(await book.take(first, MACHINE), MAKER);
  await book.issue(OTHER, MAKER);
  await assertRejects(() => book.issue(OTHER, MAKER), AgentError);
  clock.ms += SECONDS * 1000;
  for (let times = 0; times < 3; times += 1) await book.issue(OTHER, MAKER);
});

Deno.test("simultaneous requests get tickets up to the limit, and no more", async () => {
  const { book } = openBook(5);
  const asked = Array.from({ length: 50 }, () => book.issue(MACHINE, MAKER));
  const made = (await Promise.allSettled(asked)).filter(({ status }) => status === "fulfilled");
  assertEquals(made.length, 5);
});

Deno.test("a ticket counts only in a request for a console's WebSocket", () => {
  const path = `/agent/v1/machines/${MACHINE}/console`;
  const shown = (of: string, query: string, init: RequestInit = {}) =>
    shownTicket(
      new Request(`http://agent${of}${query}`, { headers: { upgrade: "WebSocket" }, ...init }),
      of,
    );
  assertEquals(shown(path, "?ticket=zwc_x"), { ticket: "zwc_x", uuid: MACHINE });
  assertEquals(shown(path, "?ticket=a&ticket=b"), { ticket: "", uuid: MACHINE });
  assertEquals(shown(path, "?ticket="), { ticket: "", uuid: MACHINE });
  for (const query of ["", "?", "?Ticket=x", "?tickets=x", "?x=ticket"]) {
    assertEquals(shown(path, query), undefined);
  }
  assertEquals(shown(path, "?ticket=x", { headers: { accept: "text/html" } }), undefined);
  assertEquals(shown(path, "?ticket=x", { headers: { upgrade: "h2c" } }), undefined);
  assertEquals(shown(path, "?ticket=x", { method: "HEAD" }), undefined);
  assertEquals(shown(path, "?ticket=x", { method: "POST" }), undefined);
  for (const other of [`${path}/`, `/${path}`, path.replace("console", "vnc"), "/jobs", "/"]) {
    assertEquals(shown(other, "?ticket=x"), undefined);
  }
  assertEquals(shown("/agent/v1/machines/x/console", "?ticket=x"), undefined);
});
