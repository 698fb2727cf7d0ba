import { assertEquals } from "@std/assert";
import { AgentError } from "../../src/domain/error.ts";
import type { ArtifactRef } from "../../src/domain/machine/media.ts";
import {
  findArtifact,
  findImage,
  type FoundArtifact,
} from "../../src/mirror/media/find_artifact.ts";
import { type IndexReading, openIndexReading } from "../../src/mirror/sync/index_reading.ts";
import { withMirror } from "./test_mirror.ts";

const NONE = undefined;
const CHOICES = {
  distro: ["aurora", "basalt", "cinder-os", "none"],
  release: ["latest", "lts", "dev", "24.2", "24.0", "8_Beta", "r151058", "none"],
  build: [NONE, "20260901", "20250101", "none"],
  variant: [NONE, "server", "install", "none"],
  arch: [NONE, "aarch64"],
  format: [NONE, "qcow2", "raw"],
} as const;

/** Every reference that can be made of the words. */
function references(): ArtifactRef[] {
  let all: Record<string, string>[] = [{}];
  for (const [key, words] of Object.entries(CHOICES)) {
    all = all.flatMap((one) =>
      words.map((word) => word === undefined ? one : { ...one, [key]: word })
    );
  }
  return all.map(({ distro = "", release = "", ...rest }) => ({ distro, release, ...rest }));
}

/** The same documents are read for thousands of references. */
function remembering(reading: IndexReading): IndexReading {
  const known = new Map<string, Promise<unknown>>();
  const once = <T>(key: unknown[], read: () => Promise<T>): Promise<T> => {
    const text = JSON.stringify(key);
    if (!known.has(text)) known.set(text, read());
    return known.get(text) as Promise<T>;
  };
  return {
    ...reading,
    list: (body) => once(["list"], () => reading.list(body)),
    distro: (document, summary) => once([document.path], () => reading.distro(document, summary)),
    build: (document, about, wanted) =>
      once([document.path, wanted ?? null], () => reading.build(document, about, wanted)),
  };
}

Deno.test("the search by rows finds the same images as a reading of the documents", async () => {
  await withMirror(async ({ mirror, store, decoders }) => {
    await mirror.sync();
    const reading = remembering(openIndexReading(decoders, "the tests"));
    let found = 0;
    for (const ref of references()) {
      let expected: FoundArtifact | undefined;
      try {
        expected = await findArtifact({ index: store.index, reading }, ref);
        found += 1;
      } catch (error) {
        if (!(error instanceof AgentError)) throw error;
      }
      assertEquals([ref, await findImage(store.images, ref)], [ref, expected]);
    }
    assertEquals(found > 50, true);
  });
});
