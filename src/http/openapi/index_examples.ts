// Documents of the image index for the examples of the description: those of the sample index,
// shortened to one of each kind.

import type { JsonObject } from "../../domain/json.ts";

const PUBLISHED_AT = "2026-11-01T00:00:00Z";

const SUMMARY: JsonObject = {
  id: "zonewright-sample",
  name: "zonewright sample",
  os_family: "linux",
  homepage: null,
};

/** A DistroList. */
export const DISTROS: JsonObject = { distros: [SUMMARY] };

/** A Distro. */
export const DISTRO: JsonObject = {
  ...SUMMARY,
  dev_channel: null,
  releases: [{
    id: "2.0",
    version: "2.0",
    title: "zonewright sample 2.0",
    aliases: ["latest", "lts"],
    eol_date: null,
    osinfo: null,
  }],
};

/** An Artifact: an image from which a machine can be installed. */
export const ARTIFACT: JsonObject = {
  arch: "x86_64",
  format: "iso",
  compression: "none",
  locations: [{
    url: "https://images.example.com/zonewright-sample-2.0.iso",
    kind: "primary",
    redirects_off_host: false,
  }],
  variant: "installer",
  default_variant: true,
  size: 8_388_608,
  firmware: ["bios"],
  datasources: [],
  ssh_key_injection: false,
  integrity: {
    digests: [{
      algorithm: "sha256",
      value: "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
      source: null,
    }],
    http: { etag: null, last_modified: null },
    signatures: [],
  },
};

/** A BuildList. */
export const BUILDS: JsonObject = {
  distro: "zonewright-sample",
  release: "2.0",
  builds: [{
    build: "20261101",
    point_release: "2.0",
    published_at: PUBLISHED_AT,
    first_seen: PUBLISHED_AT,
    osinfo: null,
    artifacts: [ARTIFACT],
  }],
};
