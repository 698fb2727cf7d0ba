// Which word is taken for the one that was meant.

import { assertEquals } from "@std/assert";
import { nearest, nearName, nearWord } from "../../src/domain/near_word.ts";

const VERBS = ["job list", "job resume", "job run", "job wait"];
const VARIABLES = ["ZONEWRIGHT_SLOTS", "ZONEWRIGHT_STATE_DIR"];

Deno.test("nearest() suggests a similar word, and nothing if none is similar", () => {
  assertEquals(nearest("lisen", ["listen", "slots"]), ': did you mean "listen"?');
  assertEquals(nearest("frobnicate", ["listen", "slots"]), "");
  // The letters are there, in another order.
  assertEquals(nearest("nothing-like-it", ["machine-eject", "provision-machine"]), "");
  // Two of four letters, and two of three, make another word.
  assertEquals(nearest("tcsh", ["bash", "zsh", "fish"]), "");
  assertEquals(nearest("name", ["ram", "nics", "uuid"]), "");
  assertEquals(nearest("ls", ["list", "run"]), ': did you mean "list"?');
  assertEquals(nearest("", ["listen"]), "");
  assertEquals(nearest("listen", []), "");
});

Deno.test("nearWord() ignores a prefix that all words share", () => {
  assertEquals(nearWord("job rsume", VERBS), "job resume");
  assertEquals(nearWord("job nosuch", VERBS), undefined);
  assertEquals(nearWord("job ", VERBS), undefined);
  assertEquals(nearWord("ZONEWRIGHT_SLOT", VARIABLES), "ZONEWRIGHT_SLOTS");
  assertEquals(nearWord("ZONEWRIGHT_HUGE", VARIABLES), undefined);
  assertEquals(nearWord("--xy", ["--json", "--url"]), undefined);
  assertEquals(nearWord("ram_max", ["ram_mib_max"]), "ram_mib_max");
});

Deno.test("nearName() finds a name with another spelling, a plural, or a letter or two changed", () => {
  const known = ["name", "timeout", "retry", "retry_delay"];
  for (const typed of ["timeOut", "time-out", "timeouts", "tiemout", "timout"]) {
    assertEquals(nearName(typed, known), "timeout", typed);
  }
  assertEquals(nearName("retries", known), "retry");
  for (const typed of ["", "date", "size", "version", "x".repeat(10_000)]) {
    assertEquals(nearName(typed, known), undefined, typed);
  }
});
