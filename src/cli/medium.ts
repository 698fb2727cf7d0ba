// Parses a medium on the command line of `machine create` and `media add`. Its form alone decides which of
// four things it names, so that a word always means the same:
//
//   https://host/debian.iso    an address; its digest must be given
//   /media/debian.iso          a path on the agent's host; ./debian.iso is made absolute first
//   debian/13                  an artifact of the image index, DISTRO/RELEASE
//   debian.iso                 a name in one of the agent's media folders

import { resolve } from "@std/path";
import { nearest } from "../domain/near_word.ts";
import type { ArtifactRef } from "../domain/machine/media.ts";
import { type Arguments, cannot, type Flag, usageError } from "./command/arguments.ts";

/** Where a medium comes from, as the HTTP interface takes it. */
type TypedMedium = { url: string } | { path: string } | { artifact: ArtifactRef };

/**
 * Reads a medium.
 * @param what how messages name it, such as `--iso debian.iso`
 * @throws {AgentError} `invalid_argument`
 */
export function typedMedium(text: string, what: string, cwd: string): TypedMedium {
  const scheme = /^([a-z][a-z0-9+.-]*):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https") return { url: text };
  if (scheme !== undefined) {
    throw cannot(`use ${what}: expected an http or https URL, or the path of a file`);
  }
  if (text === "") throw cannot(`use ${what}: it is empty: expected a name, a path or a URL`);
  if (text.startsWith("/")) return { path: text };
  if (/^\.\.?\//.test(text)) return { path: resolve(cwd, text) };
  return text.includes("/") ? { artifact: typedArtifact(text) } : { path: text };
}

/** The flag beside `--sha256`, whose help says what it is the digest of. */
export const SHA512_FLAG: Flag = {
  name: "sha512",
  placeholder: "HEX",
  help: "expected SHA-512 digest instead",
};

/** The digest that `--sha256` or `--sha512` gives. @throws {AgentError} `invalid_argument` */
export function typedDigest(args: Arguments): string | undefined {
  const given = (["sha256", "sha512"] as const).filter((name) => args.has(name));
  const [name] = given;
  if (name === undefined) return undefined;
  if (given.length > 1) {
    throw usageError("--sha256 and --sha512 are both given: expected one of them");
  }
  const hex = (args.text(name) ?? "").toLowerCase();
  const digits = name === "sha256" ? 64 : 128;
  if (hex.length === digits && /^[0-9a-f]*$/.test(hex)) return `${name}:${hex}`;
  throw cannot(
    `use this --${name}: found ${hex.length} characters: expected ${digits} hexadecimal digits`,
  );
}

const CHOICES = ["variant", "arch", "format"] as const;

/**
 * Reads `DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]`.
 * @throws {AgentError} `invalid_argument`
 */
export function typedArtifact(text: string): ArtifactRef {
  const match = /^([^/:?]+)\/([^/:?]+)(?::([^/?]+))?(?:\?(.*))?$/.exec(text);
  const [, distro, release, build, query = ""] = match ?? [];
  if (distro === undefined || release === undefined) {
    throw cannot(
      `find ${JSON.stringify(text)}: expected DISTRO/RELEASE[:BUILD][?variant=V&arch=A&format=F]`,
    );
  }
  const ref: ArtifactRef = { distro, release, ...(build === undefined ? {} : { build }) };
  for (const [name, value] of new URLSearchParams(query)) {
    const choice = CHOICES.find((one) => one === name);
    if (choice === undefined) {
      throw cannot(
        `choose an artifact by ${JSON.stringify(name)}: expected ${CHOICES.join(", ")}` +
          nearest(name, CHOICES),
      );
    }
    ref[choice] = value;
  }
  return ref;
}
