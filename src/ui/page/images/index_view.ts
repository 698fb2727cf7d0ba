// The image index as the agent has it: how fresh it is, its distros with their releases, and the artifacts of a
// release; read at the start, and again when a sync has ended.

import { signal } from "@preact/signals";
import { read, wordsOf } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import type { Schemas } from "../../client/schema.ts";
import { isThere } from "../../part/shown.tsx";

/** A distro with its releases. */
export type Distro = Schemas["Distro"];
/** An artifact with its place in the index. */
export type Image = Schemas["ListedImage"];

/** The distros of the index, and how fresh it is. */
export function openIndexView() {
  const status = signal<Schemas["IndexStatus"] | undefined>(undefined);
  const distros = signal<readonly Distro[] | undefined>(undefined);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  const guarded = async (work: () => Promise<void>) => {
    try {
      await work();
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const readStatus = async () => {
    const found = await read("GET /agent/v1/index", "/agent/v1/index", closing.signal);
    status.value = found;
    return found;
  };
  const load = () =>
    void guarded(async () => {
      const { documents } = await readStatus();
      distros.value = documents === 0 ? [] : await readDistros(closing.signal);
    });
  const stop = follow("kind=index", {
    load,
    index: load,
    syncing: () => void guarded(async () => void await readStatus()),
  });
  return {
    status,
    distros,
    error,
    /** Says that a sync is under way; its end is an event. */
    syncing: () => {
      if (status.value !== undefined) status.value = { ...status.value, syncing: true };
    },
    close: () => {
      stop();
      closing.abort();
    },
  };
}

async function readDistros(signal: AbortSignal): Promise<readonly Distro[]> {
  const list = await read("GET /v1/index.json", "/v1/index.json", signal);
  return await Promise.all(
    list.distros.map(({ id }) =>
      read(
        "GET /v1/distros/{distro}/index.json",
        `/v1/distros/${encodeURIComponent(id)}/index.json`,
        signal,
      )
    ),
  );
}

/** Artifacts of one page. */
const IMAGES_PER_PAGE = 200;

/** The artifacts that fit a query, those of the vendor's vault among them. @param query as the API takes it */
export function openImageList(query: Readonly<Record<string, string>>) {
  const images = signal<readonly Image[] | undefined>(undefined);
  const more = signal(false);
  const error = signal<string | undefined>(undefined);
  const closing = new AbortController();
  let next: string | null = null;
  const load = async (again: boolean) => {
    const asked = new URLSearchParams({ ...query, limit: String(IMAGES_PER_PAGE) });
    if (!again && next !== null) asked.set("after", next);
    try {
      const page = await read("GET /agent/v1/images", `/agent/v1/images?${asked}`, closing.signal);
      images.value = again ? page.images : [...images.value ?? [], ...page.images];
      next = page.next;
      more.value = next !== null;
      error.value = undefined;
    } catch (failure) {
      if (!closing.signal.aborted) error.value = wordsOf(failure);
    }
  };
  const stop = follow("kind=index", { load: () => void load(true), index: () => void load(true) });
  return {
    images,
    more,
    error,
    /** Reads the next page. */
    further: () => void load(false),
    close: () => {
      stop();
      closing.abort();
    },
  };
}

/** What names an artifact in a request for a medium or a machine. */
type ArtifactName = Readonly<Record<string, string>>;

/** The name of an artifact, as a request has it. */
export function artifactNameOf({ distro, release, build, artifact }: Image): ArtifactName {
  const { arch, format, variant } = artifact;
  return { distro, release, build, arch, format, ...(isThere(variant) ? { variant } : {}) };
}

/** The name of an artifact as the command line takes it: `debian/13/20260101?arch=x86_64&format=iso`. */
export function artifactText({ distro, release, build, ...others }: ArtifactName): string {
  return `${distro}/${release}/${build}?${new URLSearchParams(others)}`;
}

/** The page that makes a machine of an artifact. */
export function machineLinkOf(image: Image): string {
  return `/ui/new?${new URLSearchParams(artifactNameOf(image))}`;
}

/** Formats that a machine boots, once they are unpacked. */
const BOOTED: readonly string[] = ["iso", "raw", "img"];

/** Whether a machine boots an artifact. */
export function isBootable({ artifact: { format } }: Image): boolean {
  return BOOTED.includes(format);
}

/** How far a download of an artifact can be verified by what the index says of it. */
export function checkOf({ artifact: { integrity } }: Image): string {
  const { digests = [], signatures = [] } = integrity ?? {};
  if (signatures.length > 0) return "signature";
  if (digests.some(({ source }) => isThere(source))) return "vendor";
  return digests.length > 0 ? "index" : "none";
}
