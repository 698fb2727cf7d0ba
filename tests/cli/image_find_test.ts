// `image find` and the filters of `image list` against the routes of the index on a real server.

import { assertEquals, assertMatch, assertStringIncludes } from "@std/assert";
import { served } from "../http/served_index.ts";
import { type Screen, screenFor } from "./screen.ts";

type Said = (...args: string[]) => Promise<Screen & { readonly code: number }>;

async function withIndex(run: (said: Said) => Promise<void>): Promise<void> {
  await served(async ({ mirror }, url) => {
    await mirror.sync();
    await run(async (...args) => {
      const screen = screenFor(url);
      return { ...screen, code: await screen.run(...args) };
    });
  });
}

function rows(screen: Screen): string[] {
  return screen.out().trimEnd().split("\n").slice(1).map((line) => line.replace(/ {2,}/g, " "));
}

Deno.test("image find shows the matches in the order of the index", async () => {
  await withIndex(async (said) => {
    const all = await said("image", "find");
    assertMatch(all.out(), /^DISTRO +RELEASE +BUILD +VARIANT +ARCH +FORMAT +PACKED +SIZE\n/);
    assertEquals([all.code, all.err()], [0, ""]);
    const found = await said("image", "find", "aurora", "--newest", "--arch", "aarch64");
    assertEquals(
      rows(found),
      rows(all).filter((row) => /^aurora .* aarch64 /.test(row)).slice(0, 1),
    );
    const listed = await said("image", "list", "aurora/latest", "--arch", "aarch64", "--newest");
    assertEquals(listed.out(), found.out());
  });
});

Deno.test("image find --json is one page of the search, whatever it took to read it", async () => {
  await withIndex(async (said) => {
    const { out, err } = await said("image", "find", "--limit", "2", "--json");
    const page = JSON.parse(out());
    assertEquals([page.images.length, typeof page.next], [2, "string"]);
    assertMatch(err(), /^\d+ more are not shown; see --limit\n$/);
    const whole = JSON.parse((await said("image", "find", "--limit", "2000", "--json")).out());
    assertEquals(whole.next, null);
    assertEquals(whole.images.slice(0, 2), page.images);
  });
});

Deno.test("image find suggests what was probably meant", async () => {
  await withIndex(async (said) => {
    const distro = await said("image", "find", "--distro", "aurrora");
    assertEquals(distro.code, 0);
    assertStringIncludes(distro.err(), 'no distro has the id "aurrora": did you mean "aurora"?');
    const none = await said("image", "find", "nothing", "like", "it");
    const words = "no file of the index matches\nhint: zonewright image list  shows the distros\n";
    assertEquals([none.code, none.err()], [0, words]);
    const arch = await said("image", "find", "--arch", "amd64");
    assertEquals(arch.code, 2);
    assertStringIncludes(arch.err(), 'did you mean "x86_64"?');
    const firmware = await said("image", "list", "aurora", "--firmware", "efi");
    assertEquals(firmware.code, 2);
    assertStringIncludes(firmware.err(), 'did you mean "uefi"?');
    for (const flags of [["--limit", "0"], ["--arch", ""], ["--archs", "x"]]) {
      assertEquals([flags, (await said("image", "find", ...flags)).code], [flags, 2]);
    }
  });
});

Deno.test("image find without an index finds nothing, and says how to get one", async () => {
  const synced = "zonewright image sync --wait  fetches the index";
  const named = "zonewright config set index URL  names its upstream: an address, or a folder";
  const of = async (url: string, ...args: string[]) => {
    const screen = screenFor(url);
    const code = await screen.run("image", ...args);
    const [message = "", hint = ""] = screen.err().split("\n");
    return [code, screen.out(), message.split(": ").at(-1), hint.slice("hint: ".length)];
  };
  const head = "DISTRO  RELEASE  BUILD  VARIANT  ARCH  FORMAT  PACKED  SIZE\n";
  await served(async (_, url) => {
    const why = "the index has not been synced yet";
    for (const args of [["find"], ["find", "debian", "--newest"], ["list", "debian", "--newest"]]) {
      assertEquals([args, ...await of(url, ...args)], [args, 0, head, why, synced]);
    }
    for (const args of [["list"], ["show", "debian/13"]]) {
      assertEquals([args, ...await of(url, ...args)], [args, 4, "", why, synced]);
    }
    const json = screenFor(url);
    assertEquals(await json.run("image", "find", "--json"), 0);
    assertEquals(JSON.parse(json.out()), { images: [], next: null });
    assertEquals(json.err(), `${why}\nhint: ${synced}\n`);
  });
  await served(async (_, url) => {
    const none = "no upstream is configured";
    assertEquals(await of(url, "find"), [0, head, none, named]);
    const refused = `${none}, expected one in the setting index`;
    assertEquals(await of(url, "sync", "--wait"), [6, "", refused, named]);
  }, null);
});
