// The file that `media add` brings, as somebody typed it. What a word means is told by its looks, as
// for the medium of a machine; see machine_media.ts.

import { resolve } from "@std/path";
import { CHECK_LEVELS } from "../domain/index/check_level.ts";
import type { JsonObject } from "../domain/json.ts";
import { MEDIA_COMPRESSIONS } from "../domain/machine/media_compression.ts";
import { nearest } from "../domain/near_word.ts";
import { type Arguments, type Flag, usageError } from "./kit/arguments.ts";
import type { Call } from "./kit/command.ts";

/** The flags of the wish. */
export const WISH_FLAGS: readonly Flag[] = [
  { name: "sha256", placeholder: "HEX", help: "what the file must hash to as it is downloaded" },
  { name: "sha512", placeholder: "HEX", help: "the same with SHA-512" },
  {
    name: "compression",
    placeholder: "WORD",
    words: MEDIA_COMPRESSIONS.slice(1),
    help: `of a URL: ${MEDIA_COMPRESSIONS.slice(1).join(", ")}, to be undone`,
  },
  {
    name: "check",
    placeholder: "LEVEL",
    words: CHECK_LEVELS,
    help: `what it must reach: ${CHECK_LEVELS.join(", ")}; else what the agent is set to`,
  },
  { name: "allow-unverified", help: "take it also when it does not reach that level" },
];

/** What is said of it below the flags. */
export const WISH_NOTES: readonly string[] = [
  "A MEDIUM is a URL (https://host/a.iso, with --sha256), a path on the agent's host (/media/a.iso,\n" +
  "or ./a.iso), DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F] of the image index, or the name\n" +
  "of a file in one of the agent's media folders (a.iso). A file of a folder stays where it is.",
];

/** Reads operand and flags. @throws {AgentError} `invalid_argument` */
export function mediumRequestOf({ args, terminal }: Call): JsonObject {
  const [text = ""] = args.operands;
  const digest = digestOf(args);
  const place = placeOf(text, terminal.cwd);
  const level = wordOf(args, "check", CHECK_LEVELS);
  const compression = wordOf(args, "compression", MEDIA_COMPRESSIONS);
  const allowed = args.has("allow-unverified");
  if ("path" in place && (level !== undefined || allowed)) {
    throw usageError(`${text} is a file of the agent's host: --check is for what is downloaded`);
  }
  if (!("url" in place) && compression !== undefined) {
    throw usageError("--compression is for a URL: the index tells it of its own files");
  }
  if ("url" in place && digest === undefined && !allowed) {
    throw usageError(`${text} is an address: expected its --sha256, or --allow-unverified`);
  }
  return {
    ...place,
    ...(digest === undefined ? {} : { digest }),
    ...(compression === undefined ? {} : { compression }),
    ...(level === undefined ? {} : { check: level }),
    ...(allowed ? { allow_unverified: true } : {}),
  };
}

function placeOf(text: string, cwd: string): JsonObject {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https") return { url: text };
  if (scheme !== undefined) throw usageError(`${text} is no address of http or https`);
  if (text === "") throw usageError("the medium is empty: expected a URL, a path or an artifact");
  if (text.startsWith("/")) return { path: text };
  if (/^\.\.?\//.test(text)) return { path: resolve(cwd, text) };
  return text.includes("/") ? { artifact: artifactOf(text) } : { path: text };
}

function digestOf(args: Arguments): string | undefined {
  const given = (["sha256", "sha512"] as const).filter((name) => args.has(name));
  const [name] = given;
  if (name === undefined) return undefined;
  if (given.length > 1) throw usageError("--sha256 and --sha512 are both given: expected one");
  const hex = (args.text(name) ?? "").toLowerCase();
  const digits = name === "sha256" ? 64 : 128;
  if (hex.length === digits && /^[0-9a-f]+$/.test(hex)) return `${name}:${hex}`;
  throw usageError(
    `--${name} must be ${digits} hexadecimal digits, found ${hex.length} characters`,
  );
}

function wordOf(args: Arguments, name: string, words: readonly string[]): string | undefined {
  const word = args.text(name);
  if (word === undefined || words.includes(word)) return word;
  throw usageError(`--${name} ${JSON.stringify(word)} is none of ${words.join(", ")}`);
}

const CHOICES = ["variant", "arch", "format"];

function artifactOf(text: string): JsonObject {
  const match = /^([^/:?]+)\/([^/:?]+)(?::([^/?]+))?(?:\?(.*))?$/.exec(text);
  const [, distro, release, build, query = ""] = match ?? [];
  if (distro === undefined || release === undefined) {
    throw usageError(
      `${JSON.stringify(text)} is not DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]`,
    );
  }
  const chosen = [...new URLSearchParams(query)];
  const other = chosen.find(([name]) => !CHOICES.includes(name));
  if (other !== undefined) {
    throw usageError(
      `${JSON.stringify(other[0])} names no part of an artifact${nearest(other[0], CHOICES)}`,
    );
  }
  return {
    distro,
    release,
    ...(build === undefined ? {} : { build }),
    ...Object.fromEntries(chosen),
  };
}
