// The index tree of the sample upstream: two made-up distros that between them show every kind of
// document and every alias, and whose images can really be downloaded and booted.

import type { JsonObject } from "../../domain/json.ts";
import { SAMPLE_ISO, type SampleFiles, sampleFiles, type SamplePath } from "./sample_file.ts";
import { SAMPLE_OPENAPI } from "./sample_openapi.ts";

/** The day on which all files are said to have been published. */
export const PUBLISHED_AT = "2026-11-01T00:00:00Z";

/** What the documents of the sample index are made from. */
export interface SampleIndexOptions {
  /** What the documents' addresses begin with, without a slash at the end. */
  readonly baseUrl: string;
  /** The files to describe; those of the default size when left out. */
  readonly files?: SampleFiles;
}

/** The entity tag under which the upstream serves bytes of this digest. */
export function entityTag(sha256: string): string {
  return `"${sha256}"`;
}

/**
 * The documents of the index by their paths below the base, such as `v1/index.json`. Every optional
 * key is written, as the true publisher does.
 * @see document 1
 */
export async function sampleIndex(
  options: SampleIndexOptions,
): Promise<Map<string, Uint8Array<ArrayBuffer>>> {
  const files = options.files ?? await sampleFiles();
  const documents = new Map<string, JsonObject>();
  const distros = [sampleDistro(options.baseUrl, files), previewDistro(options.baseUrl, files)];
  documents.set("v1/index.json", { distros: distros.map(distroSummary) });
  for (const distro of distros) putDistro(documents, distro);
  documents.set("v1/openapi.json", SAMPLE_OPENAPI);
  return new Map([...documents].map(([path, document]) => {
    return [path, new TextEncoder().encode(`${JSON.stringify(document, null, 2)}\n`)];
  }));
}

interface Distro {
  readonly id: string;
  readonly name: string;
  readonly homepage: string | null;
  readonly os_family: "linux" | "bsd" | "illumos";
  readonly dev_channel: string | null;
  /** Newest first. */
  readonly releases: readonly Release[];
}

interface Release {
  readonly id: string;
  readonly title: string;
  readonly aliases: readonly ("latest" | "lts" | "dev")[];
  readonly eol_date: string | null;
  /** Newest first. */
  readonly builds: JsonObject[];
  /** Builds of the vault; a release without any has no archive. */
  readonly archive: JsonObject[];
}

function sampleDistro(baseUrl: string, files: SampleFiles): Distro {
  return {
    id: "zonewright-sample",
    name: "zonewright sample",
    homepage: null,
    os_family: "linux",
    dev_channel: null,
    releases: [
      {
        id: "2.0",
        title: "zonewright sample 2.0",
        aliases: ["latest", "lts"],
        eol_date: null,
        builds: [build("20261101", "2.0", [
          isoArtifact(baseUrl, files),
          diskArtifact("files/zonewright-sample-2.0.raw.gz", false, baseUrl, files),
        ])],
        archive: [],
      },
      {
        id: "1.0",
        title: "zonewright sample 1.0",
        aliases: [],
        eol_date: "2027-12-31",
        builds: [build("20260201", "1.0", [
          diskArtifact("files/zonewright-sample-1.0.raw.gz", true, baseUrl, files),
        ])],
        archive: [],
      },
    ],
  };
}

function previewDistro(baseUrl: string, files: SampleFiles): Distro {
  return {
    id: "zonewright-preview",
    name: "zonewright preview",
    homepage: null,
    os_family: "illumos",
    dev_channel: "preview",
    releases: [
      {
        id: "3.0_preview",
        title: "zonewright preview 3.0",
        aliases: ["dev"],
        eol_date: null,
        builds: [build("3.0-20261101.1", null, [
          diskArtifact("files/zonewright-preview-3.0.raw.gz", true, baseUrl, files),
        ])],
        archive: [],
      },
      {
        id: "2",
        title: "zonewright preview 2",
        aliases: ["latest"],
        eol_date: null,
        builds: [build("2.1-20261001.0", "2.1", [
          diskArtifact("files/zonewright-preview-2.1.raw.gz", true, baseUrl, files),
        ])],
        archive: [build("2.0-20260501.0", "2.0", [
          diskArtifact("vault/zonewright-preview-2.0.raw.gz", true, baseUrl, files),
        ])],
      },
    ],
  };
}

function putDistro(documents: Map<string, JsonObject>, distro: Distro): void {
  const folder = `v1/distros/${distro.id}`;
  documents.set(`${folder}/index.json`, {
    ...distroSummary(distro),
    dev_channel: distro.dev_channel,
    releases: distro.releases.map(({ id, title, aliases, eol_date }) => (
      { id, version: id, title, aliases: [...aliases], eol_date, osinfo: null }
    )),
  });
  for (const { id: release, aliases, builds, archive } of distro.releases) {
    const current = { distro: distro.id, release, builds };
    documents.set(`${folder}/releases/${release}/index.json`, current);
    for (const alias of aliases) documents.set(`${folder}/aliases/${alias}.json`, current);
    if (archive.length === 0) continue;
    const archived = { distro: distro.id, release, builds: archive };
    documents.set(`${folder}/releases/${release}/archive.json`, archived);
  }
}

function distroSummary({ id, name, os_family, homepage }: Distro): JsonObject {
  return { id, name, os_family, homepage };
}

function build(id: string, pointRelease: string | null, artifacts: JsonObject[]): JsonObject {
  return {
    build: id,
    point_release: pointRelease,
    published_at: PUBLISHED_AT,
    first_seen: PUBLISHED_AT,
    osinfo: null,
    artifacts,
  };
}

function isoArtifact(baseUrl: string, files: SampleFiles): JsonObject {
  return {
    variant: "installer",
    default_variant: true,
    arch: "x86_64",
    format: "iso",
    compression: "none",
    ...download(SAMPLE_ISO, baseUrl, files),
  };
}

function diskArtifact(
  path: Exclude<SamplePath, typeof SAMPLE_ISO>,
  isDefault: boolean,
  baseUrl: string,
  files: SampleFiles,
): JsonObject {
  return {
    variant: "disk",
    default_variant: isDefault,
    arch: "x86_64",
    format: "raw",
    compression: "gzip",
    ...download(path, baseUrl, files),
  };
}

/** The keys of an artifact that follow from its file. */
function download(path: SamplePath, baseUrl: string, files: SampleFiles): JsonObject {
  const { content, digests: { sha256, sha512 } } = files[path];
  return {
    firmware: ["bios"],
    datasources: [],
    ssh_key_injection: false,
    size: content.size,
    locations: [{
      url: `${baseUrl}/${path}`,
      kind: path.startsWith("vault/") ? "vault" : "primary",
      redirects_off_host: false,
    }],
    integrity: {
      digests: [
        { algorithm: "sha256", value: sha256, source: null },
        { algorithm: "sha512", value: sha512, source: null },
      ],
      signatures: [],
      http: { last_modified: new Date(PUBLISHED_AT).toUTCString(), etag: entityTag(sha256) },
    },
  };
}
