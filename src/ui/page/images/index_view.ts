// The image index as the agent has it: how fresh it is, its distros with their releases, and the artifacts of a
// release with their downloads; read at the start, and again when a sync has ended.

import { signal } from "@preact/signals";
import { read, wordsOf } from "../../client/client.ts";
import { follow, type JobEvent } from "../../client/events.ts";
import type { Schemas } from "../../client/schema.ts";
import { isThere } from "../../part/shown.tsx";

/** A distro with its releases. */
export type Distro = Schemas["Distro"];
/** An artifact with its place in the index. */
export type Image = Schemas["ListedImage"];

/** The error of the latest read, if it failed. */
function openErrors(closing: AbortSignal) {
  const error = signal<string | undefined>(undefined);
  const guarded = async (work: () => Promise<void>) => {
    try {
      await work();
      error.value = undefined;
    } catch (failure) {
      if (!closing.aborted) error.value = wordsOf(failure);
    }
  };
  return { error, guarded };
}

/** The distros of the index, and how fresh it is. */
export function openIndexView() {
  const status = signal<Schemas["IndexStatus"] | undefined>(undefined);
  const distros = signal<readonly Distro[] | undefined>(undefined);
  const closing = new AbortController();
  const { error, guarded } = openErrors(closing.signal);
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
    /** Shows that a sync is in progress; its end is an event. */
    syncing: () => {
      if (status.value !== undefined) status.value = { ...status.value, syncing: true };
    },
    close: () => {
      stop();
      closing.abort();
    },
  };
}

async function readDistros(
  signal: AbortSignal,
  wanted: (id: string) => boolean = () => true,
): Promise<readonly Distro[]> {
  const list = await read("GET /v1/index.json", "/v1/index.json", signal);
  return await Promise.all(
    list.distros.filter(({ id }) => wanted(id)).map(({ id }) =>
      read(
        "GET /v1/distros/{distro}/index.json",
        `/v1/distros/${encodeURIComponent(id)}/index.json`,
        signal,
      )
    ),
  );
}

const IMAGES_PER_PAGE = 200;

/** One release: its artifacts, archived ones included, and their downloads. */
export function openRelease(distro: string, release: string) {
  const about = signal<Distro | undefined>(undefined);
  const images = signal<readonly Image[] | undefined>(undefined);
  const more = signal(false);
  const closing = new AbortController();
  const { error, guarded } = openErrors(closing.signal);
  let next: string | null = null;
  const readImages = async (again: boolean) => {
    const asked = new URLSearchParams({ distro, release, limit: String(IMAGES_PER_PAGE) });
    if (!again && next !== null) asked.set("after", next);
    const page = await read("GET /agent/v1/images", `/agent/v1/images?${asked}`, closing.signal);
    images.value = again ? page.images : [...images.value ?? [], ...page.images];
    next = page.next;
    more.value = next !== null;
  };
  const load = () =>
    void guarded(async () => {
      await readImages(true);
      if (images.value?.length === 0) return;
      [about.value] = await readDistros(closing.signal, (id) => id === distro);
    });
  const { downloads, begin, again, take } = openDownloads(closing.signal);
  const stop = follow("kind=index,job,media", {
    load: () => {
      load();
      again();
    },
    index: load,
    job: take,
    // A download has made progress; the jobs show which one.
    media: again,
  });
  return {
    about,
    images,
    more,
    error,
    /** Jobs started on this page, by uuid. */
    downloads,
    begin,
    further: () => void guarded(() => readImages(false)),
    close: () => {
      stop();
      closing.abort();
    },
  };
}

/** A job that downloads an artifact into the cache. */
export type Download = Schemas["JobSummary"];

function openDownloads(closing: AbortSignal) {
  const downloads = signal<ReadonlyMap<string, Download | undefined>>(new Map());
  const put = (uuid: string, job: Download) => {
    const before = downloads.value;
    // The answer may be older than the event about the end.
    if (!before.has(uuid) || isThere(before.get(uuid)?.finished_at)) return;
    downloads.value = new Map([...before, [uuid, job]]);
  };
  const look = async (uuid: string) => {
    const path = `/agent/v1/jobs/${uuid}`;
    // If it cannot be read now, the next event brings it.
    const job = await read("GET /agent/v1/jobs/{job_uuid}", path, closing).catch(() => undefined);
    if (job !== undefined) put(uuid, job);
  };
  return {
    downloads,
    /** Follows a new job: it may have started before the answer arrived. */
    begin: (uuid: string) => {
      downloads.value = new Map([...downloads.value, [uuid, undefined]]);
      void look(uuid);
    },
    again: () => {
      for (const [uuid, job] of downloads.value) {
        if (!isThere(job?.finished_at)) void look(uuid);
      }
    },
    take: ({ job_uuid, job }: JobEvent) => {
      if (job !== null) put(job_uuid, job);
    },
  };
}

/** The fields that name an artifact in a request for a medium or a machine. */
type ArtifactName = Readonly<Record<string, string>>;

/** The artifact's name as a request contains it. */
export function artifactNameOf({ distro, release, build, artifact }: Image): ArtifactName {
  const { arch, format, variant } = artifact;
  return { distro, release, build, arch, format, ...(isThere(variant) ? { variant } : {}) };
}

/** The artifact's name as the command line accepts it: `debian/13/20260101?arch=x86_64&format=iso`. */
export function artifactText({ distro, release, build, ...others }: ArtifactName): string {
  return `${distro}/${release}/${build}?${new URLSearchParams(others)}`;
}

/** The page that creates a machine from an artifact. */
export function machineLinkOf(image: Image): string {
  return `/ui/new?${new URLSearchParams(artifactNameOf(image))}`;
}

/** Formats that a machine boots, after decompression. */
const BOOTED: readonly string[] = ["iso", "raw", "img"];

/** Whether a machine boots an artifact. */
export function isBootable({ artifact: { format } }: Image): boolean {
  return BOOTED.includes(format);
}

/** The level to which a download can be verified by what the index says. */
export function checkOf({ artifact: { integrity } }: Image): string {
  const { digests = [], signatures = [] } = integrity ?? {};
  if (signatures.length > 0) return "signature";
  if (digests.some(({ source }) => isThere(source))) return "vendor";
  return digests.length > 0 ? "index" : "none";
}
