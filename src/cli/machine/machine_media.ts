// The medium that a machine is to boot from, as somebody typed it. One word may be four things, told
// apart by their looks alone, so that the same word always means the same:
//
//   https://host/debian.iso    an address; its digest must be given
//   /media/debian.iso          a path on the agent's host; ./debian.iso is made absolute first
//   debian/13                  an artifact of the image index, DISTRO/RELEASE
//   debian.iso                 a name in one of the agent's media folders

import { resolve } from "@std/path";
import type { ArtifactRef, MediaRequest } from "../../domain/machine/media.ts";
import { nearest } from "../../domain/near_word.ts";
import { type Arguments, type Flag, usageError } from "../kit/arguments.ts";

/** The flags that name a medium; exactly one of them is given. */
export const MEDIA_FLAGS: readonly Flag[] = [
  { name: "iso", placeholder: "MEDIUM", help: "boot from this ISO: NAME, PATH or URL" },
  { name: "disk", placeholder: "MEDIUM", help: "boot from this raw disk image instead (kvm)" },
  {
    name: "artifact",
    placeholder: "DISTRO/RELEASE",
    help: "boot from a file of the image index, see below",
  },
  { name: "sha256", placeholder: "HEX", help: "what the medium must hash to; a URL needs one" },
  { name: "sha512", placeholder: "HEX", help: "the same with SHA-512" },
  { name: "boot", placeholder: "cd|disk", help: "what the medium is, when its name does not tell" },
];

/** What is said of media below the flags. */
export const MEDIA_NOTES: readonly string[] = [
  "A MEDIUM is a URL (https://host/debian.iso, with --sha256), a path on the agent's host\n" +
  "(/media/debian.iso, or ./debian.iso), DISTRO/RELEASE of the image index (debian/13), or the\n" +
  "name of a file in one of the agent's media folders (debian.iso).",
  "An artifact is DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]; RELEASE may be latest, lts\n" +
  "or dev. What is left out is chosen by the agent; see zonewright image list DISTRO/RELEASE.",
];

/** The medium and how it is attached; `boot` is left to the agent when nothing says it. */
export interface Media {
  readonly media: MediaRequest;
  readonly boot?: "cd" | "disk";
}

const SOURCES = ["iso", "disk", "artifact"] as const;

/** Reads the flags that name a medium. @throws {AgentError} `invalid_argument` */
export function mediaOf(args: Arguments, cwd: string): Media {
  const given = SOURCES.filter((name) => args.has(name));
  const [source] = given;
  if (source === undefined) {
    throw usageError('--iso MEDIUM is missing; --disk, --artifact or "media" in the file also do');
  }
  if (given.length > 1) {
    throw usageError(`${given.map((name) => `--${name}`).join(" and ")} name two media`);
  }
  const text = args.text(source) ?? "";
  const digest = digestOf(args);
  const media = source === "artifact" ? { artifact: artifactOf(text) } : placeOf(text, source, cwd);
  if ("url" in media) {
    if (digest === undefined) {
      throw usageError(`--${source} ${text} is an address: expected its --sha256 as well`);
    }
    return { media: { url: media.url, digest }, ...bootOf(args, source) };
  }
  return {
    media: { ...media, ...(digest === undefined ? {} : { digest }) },
    ...("artifact" in media ? bootOf(args, undefined) : bootOf(args, source)),
  };
}

/**
 * What the medium is, by --boot or by the flag that names it.
 * @throws {AgentError} `invalid_argument`
 */
export function bootOf(args: Arguments, source: "iso" | "disk" | "artifact" | undefined): {
  boot?: "cd" | "disk";
} {
  const boot = args.text("boot");
  if (boot === undefined) {
    return source === "iso" ? { boot: "cd" } : source === "disk" ? { boot: "disk" } : {};
  }
  if (boot !== "cd" && boot !== "disk") {
    throw usageError(`--boot ${JSON.stringify(boot)} is neither cd nor disk`);
  }
  return { boot };
}

/** @throws {AgentError} `invalid_argument` */
function placeOf(
  text: string,
  flag: string,
  cwd: string,
): { url: string } | { path: string } | { artifact: ArtifactRef } {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https") return { url: text };
  if (scheme !== undefined) {
    throw usageError(
      `--${flag} ${text} is no address of http or https; a file is named by its path`,
    );
  }
  if (text === "") throw usageError(`--${flag} is empty: expected a name, a path or a URL`);
  if (text.startsWith("/")) return { path: text };
  if (/^\.\.?\//.test(text)) return { path: resolve(cwd, text) };
  return text.includes("/") ? { artifact: artifactOf(text) } : { path: text };
}

function digestOf(args: Arguments): string | undefined {
  const sha256 = args.text("sha256");
  const sha512 = args.text("sha512");
  if (sha256 !== undefined && sha512 !== undefined) {
    throw usageError("--sha256 and --sha512 are both given: expected one of them");
  }
  if (sha256 !== undefined) return `sha256:${hexOf(sha256, "sha256", 64)}`;
  return sha512 === undefined ? undefined : `sha512:${hexOf(sha512, "sha512", 128)}`;
}

function hexOf(text: string, flag: string, digits: number): string {
  const hex = text.toLowerCase();
  if (hex.length !== digits || !/^[0-9a-f]+$/.test(hex)) {
    throw usageError(
      `--${flag} must be ${digits} hexadecimal digits, found ${text.length} characters`,
    );
  }
  return hex;
}

const CHOICES = ["variant", "arch", "format"] as const;

/** `DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]`. */
function artifactOf(text: string): ArtifactRef {
  const match = /^([^/:?]+)\/([^/:?]+)(?::([^/?]+))?(?:\?(.*))?$/.exec(text);
  const [, distro, release, build, query = ""] = match ?? [];
  if (distro === undefined || release === undefined) {
    throw usageError(
      `${JSON.stringify(text)} is not DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]`,
    );
  }
  const ref: ArtifactRef = { distro, release, ...(build === undefined ? {} : { build }) };
  for (const [name, value] of new URLSearchParams(query)) {
    const choice = CHOICES.find((one) => one === name);
    if (choice === undefined) {
      throw usageError(
        `${JSON.stringify(name)} names no part of an artifact${nearest(name, CHOICES)}`,
      );
    }
    ref[choice] = value;
  }
  return ref;
}
