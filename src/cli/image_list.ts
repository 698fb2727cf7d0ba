// `zonewright image list` and `image show`: distros, releases, builds and their files.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { numberIn, objectsIn, readObject, textIn } from "./kit/answer.ts";
import { usageError } from "./kit/arguments.ts";
import type { Client, Sent } from "./kit/client.ts";
import type { Command } from "./kit/command.ts";
import { EXIT } from "./kit/exit_code.ts";
import { FILTER_FLAGS, filterQuery, findImages, hasFilter } from "./image_find.ts";
import type { Printer } from "./kit/printer.ts";
import { sizeText } from "./kit/table.ts";
import { printable } from "./kit/terminal.ts";

/** Aliases have files of their own; every other word is a release. @see document 1, Alias */
const ALIASES = ["latest", "lts", "dev"];

interface Wanted {
  readonly distro?: string;
  readonly release?: string;
}

function wantedOf(operand: string | undefined): Wanted {
  if (operand === undefined) return {};
  const [distro = "", release, more] = operand.split("/");
  if (distro === "" || release === "" || more !== undefined) {
    throw usageError(`${JSON.stringify(operand)} is not DISTRO or DISTRO/RELEASE`);
  }
  return { distro, ...(release === undefined ? {} : { release }) };
}

function pathOf({ distro, release }: Wanted): string {
  if (distro === undefined) return "/v1/index.json";
  const base = `/v1/distros/${encodeURIComponent(distro)}`;
  if (release === undefined) return `${base}/index.json`;
  return ALIASES.includes(release)
    ? `${base}/aliases/${release}.json`
    : `${base}/releases/${encodeURIComponent(release)}/index.json`;
}

async function read(client: Client, wanted: Wanted): Promise<Sent> {
  return await client.send({ method: "GET", path: pathOf(wanted) });
}

/** `zonewright image list`. */
export const LIST: Command = {
  summary: "list distros, the releases of one, or the files of a release",
  operands: "[DISTRO[/RELEASE]]",
  operandsMin: 0,
  operandsMax: 1,
  examples: [
    ["image list", "every distro"],
    ["image list debian", "its releases, newest first"],
    ["image list debian/latest", "the files of a release, by name or alias"],
    ["image list debian/latest --arch aarch64", "those of one architecture, see image find"],
  ],
  flags: FILTER_FLAGS,
  shared: "agent",
  async run(call) {
    const { args, client, printer } = call;
    const wanted = wantedOf(args.operands[0]);
    if (hasFilter(args)) {
      const query = filterQuery(args);
      for (const [name, value] of Object.entries(wanted)) query.set(name, value);
      return await findImages(call, query);
    }
    const sent = await read(client, wanted);
    if (sent.kind === "printed") return EXIT.ok;
    const document = readObject(sent.body, "the index");
    if (printer.json) printer.document(document);
    else if (wanted.distro === undefined) distroTable(printer, document);
    else if (wanted.release === undefined) releaseTable(printer, document);
    else fileTable(printer, document);
    return EXIT.ok;
  },
};

function distroTable(printer: Printer, document: JsonObject): void {
  printer.table(
    [{ head: "DISTRO" }, { head: "NAME", flexible: true }, { head: "FAMILY" }],
    objectsIn(document, "distros").map((distro) => [
      textIn(distro, "id") ?? "",
      textIn(distro, "name") ?? "-",
      textIn(distro, "os_family") ?? "-",
    ]),
  );
}

function releaseTable(printer: Printer, document: JsonObject): void {
  printer.table(
    [
      { head: "RELEASE" },
      { head: "TITLE", flexible: true },
      { head: "ALIASES" },
      { head: "END OF LIFE" },
    ],
    objectsIn(document, "releases").map((release) => [
      textIn(release, "id") ?? "",
      textIn(release, "title") ?? "-",
      Array.isArray(release.aliases) ? release.aliases.join(", ") : "",
      textIn(release, "eol_date") ?? "-",
    ]),
  );
}

function fileTable(printer: Printer, document: JsonObject): void {
  printer.table(
    [
      { head: "BUILD", flexible: true },
      { head: "VARIANT", flexible: true },
      { head: "ARCH" },
      { head: "FORMAT" },
      { head: "PACKED" },
      { head: "SIZE", right: true },
    ],
    objectsIn(document, "builds").flatMap((build) =>
      objectsIn(build, "artifacts").map((artifact) => [
        textIn(build, "build") ?? "",
        textIn(artifact, "variant") ?? "-",
        textIn(artifact, "arch") ?? "-",
        textIn(artifact, "format") ?? "-",
        textIn(artifact, "compression") ?? "-",
        sizeText(numberIn(artifact, "size")),
      ])
    ),
  );
}

/** `zonewright image show`. */
export const SHOW: Command = {
  summary: "show where the files of a release are and what they hash to",
  operands: "DISTRO/RELEASE",
  operandsMin: 1,
  operandsMax: 1,
  examples: [["image show omnios/latest", "addresses and digests"]],
  flags: [],
  shared: "agent",
  async run({ args, client, printer }) {
    const wanted = wantedOf(args.operands[0]);
    if (wanted.release === undefined) {
      throw usageError(`${JSON.stringify(args.operands[0])} is not DISTRO/RELEASE`);
    }
    const sent = await read(client, wanted);
    if (sent.kind === "printed") return EXIT.ok;
    const document = readObject(sent.body, "the release");
    if (printer.json) printer.document(document);
    else {
      const release = textIn(document, "release") ?? wanted.release;
      printer.data(printable(`${textIn(document, "distro") ?? wanted.distro} ${release}`));
      for (const build of objectsIn(document, "builds")) {
        for (const artifact of objectsIn(build, "artifacts")) showFile(printer, build, artifact);
      }
    }
    return EXIT.ok;
  },
};

function showFile(printer: Printer, build: JsonObject, artifact: JsonObject): void {
  const integrity = isJsonObject(artifact.integrity) ? artifact.integrity : {};
  const words = ["variant", "arch", "format", "compression"].flatMap((key) =>
    textIn(artifact, key) ?? []
  );
  printer.data("");
  printer.pairs([
    ["build", printable(textIn(build, "build") ?? "-")],
    ["file", printable(words.join(" "))],
    ["size", sizeText(numberIn(artifact, "size"))],
    ...objectsIn(artifact, "locations").map((location) =>
      [textIn(location, "kind") ?? "url", printable(textIn(location, "url") ?? "-")] as const
    ),
    ...objectsIn(integrity, "digests").map((digest) =>
      [
        printable(textIn(digest, "algorithm") ?? "-"),
        printable(textIn(digest, "value") ?? "-"),
      ] as const
    ),
  ]);
}
