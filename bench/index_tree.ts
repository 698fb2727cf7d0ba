// Trees of the image index that are made up: as large as wanted, and as the specification has them.

const encoder = new TextEncoder();

/** Documents by their paths, without a leading slash. */
export type Tree = ReadonlyMap<string, Uint8Array<ArrayBuffer>>;

/** How many of each there are in the one above. */
export interface TreeSize {
  readonly distros: number;
  readonly releases: number;
  readonly builds: number;
  readonly artifacts: number;
}

const ARCHS = ["x86_64", "aarch64"];
const FORMATS = ["qcow2", "raw", "vmdk"];

/** A whole tree; the first release of each distro is its `latest`. */
export async function makeTree(size: TreeSize): Promise<Tree> {
  const tree = new Map<string, Uint8Array<ArrayBuffer>>();
  const put = (path: string, value: unknown) =>
    tree.set(`v1/${path}`, encoder.encode(JSON.stringify(value, null, 2)));
  const ids = Array.from({ length: size.distros }, (_, number) => `distro-${number}`);
  put("index.json", { distros: ids.map(summary) });
  put("openapi.json", { openapi: "3.0.3", info: { title: "x", version: "1.0.0" }, paths: {} });
  for (const distro of ids) {
    const releases = Array.from({ length: size.releases }, (_, number) => `${number + 1}.0`);
    put(`distros/${distro}/index.json`, {
      ...summary(distro),
      dev_channel: null,
      releases: releases.map((id, number) => ({
        id,
        version: id,
        title: `${distro} ${id}`,
        aliases: number === 0 ? ["latest"] : [],
        eol_date: null,
        osinfo: null,
      })),
    });
    for (const [number, release] of releases.entries()) {
      const list = await builds(distro, release, size);
      put(`distros/${distro}/releases/${release}/index.json`, list);
      if (number === 0) put(`distros/${distro}/aliases/latest.json`, list);
    }
  }
  return tree;
}

/** The path of a release's builds in such a tree, numbers from zero. */
export function releaseDocument(distro: number, release: number): string {
  return `v1/distros/distro-${distro}/releases/${release + 1}.0/index.json`;
}

function summary(id: string): Record<string, unknown> {
  return { id, name: `Distro ${id}`, os_family: "linux", homepage: null };
}

async function builds(distro: string, release: string, size: TreeSize): Promise<unknown> {
  const list = [];
  for (let number = 0; number < size.builds; number++) {
    const build = `2026${String(size.builds - number).padStart(4, "0")}`;
    const artifacts = [];
    for (let of = 0; of < size.artifacts; of++) {
      artifacts.push(await artifact(`${distro}/${release}/${build}`, of));
    }
    list.push({
      build,
      point_release: release,
      published_at: "2026-11-01T00:00:00Z",
      first_seen: "2026-11-01T00:00:00Z",
      osinfo: null,
      artifacts,
    });
  }
  return { distro, release, builds: list };
}

async function artifact(place: string, number: number): Promise<unknown> {
  const [arch, format] = [ARCHS[number % ARCHS.length], FORMATS[number % FORMATS.length]];
  const variant = number < ARCHS.length ? "server" : `variant-${number}`;
  const file = `${variant}-${arch}.${format}`;
  const base = `https://images.example.com/${place}`;
  const hash = await crypto.subtle.digest("SHA-256", encoder.encode(`${place}/${file}`));
  return {
    arch,
    format,
    compression: "none",
    variant,
    default_variant: variant === "server",
    size: 600_000_000 + number,
    firmware: ["bios", "uefi"],
    datasources: ["nocloud", "configdrive"],
    ssh_key_injection: true,
    locations: [{ url: `${base}/${file}`, kind: "primary", redirects_off_host: false }],
    integrity: {
      digests: [{
        algorithm: "sha256",
        value: Array.from(new Uint8Array(hash), (byte) => byte.toString(16).padStart(2, "0")).join(
          "",
        ),
        source: { format: "gnu", url: `${base}/SHA256SUMS`, filename: file },
      }],
      http: { etag: `"${number}"`, last_modified: "Sun, 01 Nov 2026 00:00:00 GMT" },
      signatures: [],
    },
  };
}
