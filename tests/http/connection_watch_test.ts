// The limits of connections, with a clock that is the test's.

import { assert, assertEquals } from "@std/assert";
import { WatchedConnections } from "../../src/http/listen/connection_watch.ts";
import { SHORT_LIMITS as SHORT } from "./listeners.ts";

Deno.test("ConnectionWatch counts connections that it could not close, and limits their peer", () => {
  const limits = { ...SHORT, connectionsMax: 32 };
  let nowMs = 0;
  const watch = new WatchedConnections(limits, () => nowMs);
  const look = () => {
    nowMs += SHORT.headSeconds * 1000 + 1;
    watch.sweep();
  };
  const open = (peer?: string) => watch.open(() => {}, peer);
  const closed = open("192.0.2.1");
  const held = [open("192.0.2.1"), open("192.0.2.1")];
  look(); // Cuts all three; one of them closes.
  closed?.closed();
  assertEquals(watch.count, 0);
  assert(open("192.0.2.1") !== undefined, "refused before anything was held");
  look();
  assertEquals(watch.count, 2);
  assertEquals(open("192.0.2.1"), undefined);
  assert(open("192.0.2.2") !== undefined, "refused for another");
  assert(open() !== undefined, "this host was refused");
  look();
  for (const one of held) one?.closed();
  assert(open("192.0.2.1") !== undefined, "refused after it had let go");
  const working = Array.from({ length: 100 }, () => open());
  for (const one of working) one?.requested();
  assert(watch.count <= limits.connectionsMax, `${watch.count} are open`);
  watch.close();
});

Deno.test("ConnectionWatch applies each state's own limit", () => {
  let nowMs = 0;
  const limits = { connectionsMax: 10, headSeconds: 1, idleSeconds: 5, answerSeconds: 9 };
  const watch = new WatchedConnections(limits, () => nowMs);
  const cut: string[] = [];
  const open = (name: string) => {
    const one = watch.open(() => {
      cut.push(name);
      one?.closed();
    });
    return one;
  };
  const look = (ms: number) => {
    nowMs = ms;
    watch.sweep();
    return cut.splice(0);
  };
  open("new");
  const idle = open("idle");
  const answering = open("answering");
  const working = open("working");
  for (const one of [idle, answering, working]) one?.requested();
  for (const one of [idle, answering]) one?.answered();
  idle?.taken();
  assertEquals(look(1000), []);
  assertEquals(look(1001), ["new"]);
  assertEquals(look(5001), ["idle"]);
  assertEquals(look(9001), ["answering"]);
  assertEquals(look(99_000), []);
  assertEquals([watch.count, working?.isUsed()], [1, true]);
  const slow = open("slow");
  slow?.moved(); // A handshake, as far as it is carried: that gives no more time.
  slow?.requested();
  slow?.answered();
  slow?.taken();
  assertEquals(look(103_000), []);
  slow?.moved();
  assertEquals(look(107_999), []);
  slow?.moved();
  assertEquals(look(112_000), []);
  slow?.moved(); // Later than a caller may take an answer.
  assertEquals(look(113_000), ["slow"]);
  const dripping = open("dripping");
  nowMs = 113_900;
  dripping?.moved();
  assertEquals(look(114_001), ["dripping"]);
  working?.closed();
  assertEquals(watch.count, 0);
  watch.close();
});
