// Every setting with its smallest and its largest value, as flags. The table of settings has the ranges of
// numbers and the closed lists of words; the values of other kinds are listed here.

import { LIMITS } from "../../src/config/limits.ts";
import { POLICY_TABLE } from "../../src/config/policy.ts";
import { type SettingRow, SETTINGS } from "../../src/config/settings.ts";
import type { TlsPaths } from "../http/tls_files.ts";

/** Files and folders that settings name. */
export interface SettingFiles {
  readonly folder: string;
  readonly tls: TlsPaths;
}

/** What a flag is given; a list for one that may be given several times, none to leave it out. */
export type Given = string | readonly string[] | undefined;

/** The values of one setting at the two ends of what it takes, and one that it does not take. */
interface Ends {
  readonly smallest: (files: SettingFiles) => Given;
  readonly largest: (files: SettingFiles) => Given;
  readonly refused: string;
}

const LISTED = { ...SETTINGS, ...LIMITS, ...POLICY_TABLE };

const left = () => undefined;
const always = (value: Given) => () => value;
const below = (name: string) => ({ folder }: SettingFiles) => `${folder}/${name}`;
const oneSwitch = { smallest: always("false"), largest: always("true"), refused: "2" };

/** As many as a list may have. */
function many(count: number, text: (at: number) => string): readonly string[] {
  return Array.from({ length: count }, (_, at) => text(at));
}

/** The settings that are neither a number nor one of a few words. */
export const OTHERS = {
  dev: oneSwitch,
  listen: {
    smallest: always("off"),
    largest: always("127.0.0.1:0"),
    refused: "127.0.0.1:65536",
  },
  socket: { smallest: below("smallest.sock"), largest: below("largest.sock"), refused: "" },
  require_token: oneSwitch,
  tls_cert: { smallest: left, largest: ({ tls }) => tls.certPath, refused: "" },
  tls_key: { smallest: left, largest: ({ tls }) => tls.keyPath, refused: "" },
  socket_mode: { smallest: always("0600"), largest: always("0666"), refused: "0700" },
  socket_group: { smallest: always("0"), largest: always("999999999"), refused: "1000000000" },
  audit_file: { smallest: left, largest: below("audit.log"), refused: "" },
  state_dir: { smallest: below("smallest"), largest: below("largest"), refused: "" },
  // A database that nobody serves would keep the agent from starting: see tests/agent/shared_store_test.ts.
  store: { smallest: always("sqlite"), largest: always("sqlite"), refused: "mysql://host/jobs" },
  store_notices: { smallest: left, largest: left, refused: "sqlite" },
  store_password_file: { smallest: left, largest: left, refused: "" },
  store_ca_file: { smallest: left, largest: left, refused: "" },
  address: {
    smallest: left,
    largest: always("https://host3.example.org:8780"),
    refused: "http://host3.example.org:8780",
  },
  peer_ca_file: { smallest: left, largest: left, refused: "" },
  index: { smallest: left, largest: always("https://127.0.0.1:9"), refused: "ftp://127.0.0.1" },
  allow_http_index: oneSwitch,
  index_token_file: { smallest: left, largest: below("secret"), refused: "" },
  host: {
    smallest: always("simulated"),
    largest: always(`simulated:${"g".repeat(253)}`),
    refused: "ssh://host:65536",
  },
  ssh_identity: { smallest: left, largest: below("secret"), refused: "" },
  ssh_known_hosts: { smallest: left, largest: below("secret"), refused: "" },
  vmadm: { smallest: always("/v"), largest: always("/usr/sbin/vmadm"), refused: "" },
  zones: { smallest: always("/"), largest: always("/zones"), refused: "" },
  media_dir: {
    smallest: ({ folder }) => [folder],
    largest: ({ folder }) => many(64, () => folder),
    refused: "",
  },
  upload_dir: { smallest: left, largest: below("uploads"), refused: "" },
  download_host: {
    smallest: left,
    largest: always(many(256, (at) => `host-${at}.example.org:65535`)),
    refused: "host.example.org:65536",
  },
  key_dir: { smallest: left, largest: ({ folder }) => folder, refused: "" },
  allow_host: {
    smallest: left,
    largest: always(many(256, (at) => `host-${at}.example.org`)),
    refused: "host.example.org:80",
  },
  callback_host: {
    smallest: left,
    largest: always(many(256, (at) => `host-${at}.example.org:65535`)),
    refused: "host.example.org:65536",
  },
  failpoint: {
    smallest: left,
    largest: always("job_record:9999999:after"),
    refused: "job_record:0:after",
  },
  fresh_realm: oneSwitch,
  guest_user: { smallest: always("none"), largest: always("999999999:999999999"), refused: "-1" },
  allow_brand: { smallest: always(["kvm"]), largest: always(["kvm", "bhyve"]), refused: "lx" },
  allow_nic_tag: {
    smallest: left,
    largest: always(many(256, (at) => `tag${at}`)),
    refused: "no tag",
  },
  forbid_property: {
    smallest: left,
    largest: always(many(256, () => "nics.mac")),
    refused: "brand",
  },
  // Both belong to a shared store: see tests/journeys/host_policy_test.ts.
  allow_workflow: { smallest: left, largest: left, refused: "nightly@sha256:5d0c" },
  allow_caller: { smallest: left, largest: left, refused: "somebody" },
} as const satisfies { readonly [Name in keyof typeof LISTED]?: Ends };

/** The two ends of a setting. */
export function endsOf({ key, kind: { range, words } }: SettingRow): Ends {
  if (range !== undefined) {
    const { min, max } = range;
    return {
      smallest: always(String(min)),
      largest: always(String(max)),
      refused: String(max + 1),
    };
  }
  if (words !== undefined) {
    return { smallest: always(words[0]), largest: always(words.at(-1)), refused: "no-such-word" };
  }
  const found = Object.entries<Ends>(OTHERS).find(([name]) => name === key)?.[1];
  if (found === undefined) throw new Error(`${key} has no row in the table of values`);
  return found;
}

/** A flag with its value as words of a command line. */
export function wordsOf({ flag, kind }: SettingRow, given: Given): string[] {
  if (given === undefined) return [];
  if (kind.placeholder === undefined) return given === "true" ? [`--${flag}`] : [];
  const values = typeof given === "string" ? [given] : given;
  return values.flatMap((value) => [`--${flag}`, value]);
}
