// `zonewright image`: the mirror of the image index. `image find` searches every artifact of it; `image list` with
// filters is the same search, limited to what it names.

import { AgentError } from "../../domain/error.ts";
import { isJsonObject, type JsonObject } from "../../domain/json.ts";
import { numberIn, objectsAt, readObject, textCell, textIn } from "../client/answer.ts";
import type { Command, CommandEnd, Invocation, Noun } from "../command/command.ts";
import { indexPairs, noteEmptyIndex, problemLines, SYNC } from "./sync.ts";
import { nearest } from "../../domain/near_word.ts";
import { type Arguments, cannot, type Flag, usageError } from "../command/arguments.ts";
import { limitOf } from "../job/selection.ts";
import type { Printer } from "../output/printer.ts";
import { type ItemColumn, sizeOrDash } from "../output/table.ts";
import type { Client, Sent } from "../client/client.ts";

const FIND_LIMIT = 100;
const PAGE_MAX = 1000;
const WORDS_MAX = 8;

/** Filters with a value, named as in the HTTP interface. */
const WORD_FLAGS: readonly Flag[] = [
  { name: "arch", placeholder: "ARCH", help: "only this architecture, such as x86_64, aarch64" },
  { name: "format", placeholder: "FORMAT", help: "only this disk format, such as qcow2, raw" },
  { name: "variant", placeholder: "NAME", help: "only this variant" },
  {
    name: "compression",
    placeholder: "NAME",
    help: "only with this compression, or none",
  },
  { name: "datasource", placeholder: "NAME", help: "only with this datasource, such as nocloud" },
  {
    name: "firmware",
    placeholder: "NAME",
    words: ["bios", "uefi"],
    help: "only with this firmware: bios or uefi",
  },
];
const SWITCH_FLAGS: readonly Flag[] = [
  { name: "newest", help: "only the first build of each release" },
  { name: "default", help: "only the default variant" },
  { name: "archived", help: "only what is left in the vendor's archive" },
];
const LIMIT_FLAG: Flag = {
  name: "limit",
  placeholder: "N",
  help: `at most this many [${FIND_LIMIT}]`,
};

/** The filters of a search besides the place in the tree. */
const FILTER_FLAGS: readonly Flag[] = [...WORD_FLAGS, ...SWITCH_FLAGS, LIMIT_FLAG];

const PLACE_FLAGS: readonly Flag[] = [
  { name: "distro", placeholder: "DISTRO", help: "only this distro" },
  { name: "release", placeholder: "RELEASE", help: "only this release: alias or id" },
  { name: "build", placeholder: "BUILD", help: "only this build" },
];

function hasFilter(args: Arguments): boolean {
  return FILTER_FLAGS.some(({ name }) => args.given.has(name));
}

/** The query for the filters of a command line. */
function filterQuery(args: Arguments): URLSearchParams {
  const query = new URLSearchParams();
  for (const { name } of [...PLACE_FLAGS, ...WORD_FLAGS]) {
    const value = args.text(name);
    if (value === "") throw usageError(`--${name} is empty, expected a value`);
    if (value !== undefined) query.set(name, value);
  }
  for (const { name } of SWITCH_FLAGS) {
    if (args.has(name)) query.set(name === "default" ? "default_variant" : name, "true");
  }
  return query;
}

const FIND: Command = {
  summary: "search every file of the index",
  operands: "[WORD...]",
  operandsMax: WORDS_MAX,
  examples: [
    ["image find debian cloud", "files whose names contain both words"],
    [
      "image find --release latest --arch x86_64 --newest --default",
      "the default image of the newest release of each distro",
    ],
    ["image find --datasource nocloud --firmware uefi --json", "for scripts"],
  ],
  flags: [...PLACE_FLAGS, ...FILTER_FLAGS],
  shared: "agent",
  run: async (call) => {
    const query = filterQuery(call.args);
    if (call.args.operands.length > 0) query.set("q", call.args.operands.join(" "));
    return await findImages(call, query);
  },
};

async function findImages(call: Invocation, query: URLSearchParams): Promise<void> {
  const { args, client, printer } = call;
  const limit = limitOf(args) ?? FIND_LIMIT;
  const images: JsonObject[] = [];
  let count = 0;
  let next: string | undefined;
  do {
    query.set("limit", String(Math.min(limit - images.length, PAGE_MAX)));
    if (next !== undefined) query.set("after", next);
    const sent = await client.send({ method: "GET", path: `/agent/v1/images?${query}` });
    const page = readObject(sent.body, "the images");
    images.push(...objectsAt(page, "images"));
    count = Number(sent.headers.get("x-count"));
    next = textIn(page, "next");
  } while (next !== undefined && images.length < limit);
  if (printer.json) printer.document({ images, next: next ?? null });
  else imageTable(printer, images);
  const more = count - images.length;
  if (more > 0) printer.note(`${more} more are not shown; see --limit`);
  if (images.length === 0 && !await noteEmptyIndex(call)) await noteNoImages(call, query);
}

/** One file of the index, with the build that it is of. */
interface ShownFile {
  readonly build: JsonObject;
  readonly artifact: JsonObject;
}

const ARTIFACT_COLUMNS: readonly ItemColumn<ShownFile>[] = [
  { head: "BUILD", flexible: true, cell: ({ build }) => textIn(build, "build") ?? "" },
  { head: "VARIANT", flexible: true, cell: ({ artifact }) => textCell("variant")(artifact) },
  { head: "ARCH", cell: ({ artifact }) => textCell("arch")(artifact) },
  { head: "FORMAT", cell: ({ artifact }) => textCell("format")(artifact) },
  { head: "PACKED", wide: true, cell: ({ artifact }) => textCell("compression")(artifact) },
  { head: "SIZE", right: true, cell: ({ artifact }) => sizeOrDash(numberIn(artifact, "size")) },
];

function imageTable(printer: Printer, images: readonly JsonObject[]): void {
  printer.table(
    [
      { head: "DISTRO", cell: ({ build }) => textIn(build, "distro") ?? "" },
      { head: "RELEASE", cell: ({ build }) => textIn(build, "release") ?? "" },
      ...ARTIFACT_COLUMNS,
    ],
    images.map((build) => ({
      build,
      artifact: isJsonObject(build.artifact) ? build.artifact : {},
    })),
  );
}

/** Says that nothing was found, and whether that is because no distro has the typed name. */
async function noteNoImages(
  { client, printer }: Invocation,
  query: URLSearchParams,
): Promise<void> {
  const wanted = query.get("distro");
  if (wanted !== null) {
    const list = readObject(await client.get("/v1/index.json"), "the distros");
    const ids = objectsAt(list, "distros").flatMap((distro) => textIn(distro, "id") ?? []);
    if (!ids.includes(wanted)) {
      printer.note(`no distro has the id ${JSON.stringify(wanted)}${nearest(wanted, ids)}`);
      return;
    }
  }
  if (printer.json) return;
  printer.note("no file of the index matches");
  printer.note("hint: zonewright image list  shows the distros");
}

/** Aliases, which have files of their own; any other word is a release. @see document 1, Alias */
const ALIASES = ["latest", "lts", "dev"];

interface TreePlace {
  readonly distro?: string;
  readonly release?: string;
}

function placeOf(operand: string | undefined): TreePlace {
  if (operand === undefined) return {};
  const [distro = "", release, more] = operand.split("/");
  if (distro === "" || release === "" || more !== undefined) {
    throw cannot(`find ${JSON.stringify(operand)}, expected DISTRO or DISTRO/RELEASE`);
  }
  return { distro, ...(release === undefined ? {} : { release }) };
}

function pathOf({ distro, release }: TreePlace): string {
  if (distro === undefined) return "/v1/index.json";
  const base = `/v1/distros/${encodeURIComponent(distro)}`;
  if (release === undefined) return `${base}/index.json`;
  return ALIASES.includes(release)
    ? `${base}/aliases/${release}.json`
    : `${base}/releases/${encodeURIComponent(release)}/index.json`;
}

async function read(client: Client, wanted: TreePlace): Promise<Sent> {
  try {
    return await client.send({ method: "GET", path: pathOf(wanted) });
  } catch (error) {
    // The agent names the missing document.
    const missing = error instanceof AgentError && error.about?.kind === "artifact";
    if (!missing || wanted.distro === undefined) throw error;
    const { distro, release } = wanted;
    const what = release === undefined
      ? `distro ${JSON.stringify(distro)}: the index has none of that id`
      : `release ${JSON.stringify(release)} of ${distro}: the index has none of that id or alias`;
    const { about } = error;
    throw new AgentError("not_found", `Cannot find ${what}`, { cause: error, about });
  }
}

const LIST: Command = {
  summary: "list distros, the releases of one, or the files of a release",
  operands: "[DISTRO[/RELEASE]]",
  examples: [
    ["image list", "every distro"],
    ["image list debian", "its releases, newest first"],
    ["image list debian/latest", "the files of a release, by name or alias"],
    [
      "image list debian/latest --arch aarch64",
      "those of one architecture; filters as in image find",
    ],
  ],
  flags: FILTER_FLAGS,
  shared: "agent",
  async run(call): Promise<CommandEnd> {
    const { args, client, printer } = call;
    const wanted = placeOf(args.operands[0]);
    if (hasFilter(args)) {
      const query = filterQuery(args);
      for (const [name, value] of Object.entries(wanted)) query.set(name, value);
      return await findImages(call, query);
    }
    const sent = await read(client, wanted);
    const document = readObject(sent.body, "the index");
    if (printer.json) printer.document(document);
    else if (wanted.distro === undefined) distroTable(printer, document);
    else if (wanted.release === undefined) releaseTable(printer, document);
    else printer.table(ARTIFACT_COLUMNS, filesOf(document));
  },
};

function distroTable(printer: Printer, document: JsonObject): void {
  printer.table([
    { head: "DISTRO", cell: textCell("id") },
    { head: "NAME", flexible: true, cell: textCell("name") },
    { head: "FAMILY", cell: textCell("os_family") },
  ], objectsAt(document, "distros"));
}

function releaseTable(printer: Printer, document: JsonObject): void {
  printer.table([
    { head: "RELEASE", cell: textCell("id") },
    { head: "TITLE", flexible: true, cell: textCell("title") },
    {
      head: "ALIASES",
      cell: ({ aliases }) => Array.isArray(aliases) ? aliases.join(", ") : "",
    },
    { head: "END OF LIFE", cell: textCell("eol_date") },
  ], objectsAt(document, "releases"));
}

function filesOf(document: JsonObject): ShownFile[] {
  return objectsAt(document, "builds").flatMap((build) =>
    objectsAt(build, "artifacts").map((artifact) => ({ build, artifact }))
  );
}

const SHOW: Command = {
  summary: "show the addresses and digests of a release's files",
  operands: "DISTRO/RELEASE",
  examples: [["image show omnios/latest", "addresses and digests"]],
  flags: [],
  shared: "agent",
  async run({ args, client, printer }) {
    const wanted = placeOf(args.operands[0]);
    if (wanted.release === undefined) {
      throw cannot(`show ${JSON.stringify(args.operands[0])}, expected DISTRO/RELEASE`);
    }
    const sent = await read(client, wanted);
    const document = readObject(sent.body, "the release");
    if (printer.json) return printer.document(document);
    const release = textIn(document, "release") ?? wanted.release;
    printer.data(`${textIn(document, "distro") ?? wanted.distro} ${release}`);
    for (const file of filesOf(document)) showFile(printer, file);
  },
};

function showFile(printer: Printer, { build, artifact }: ShownFile): void {
  const integrity = isJsonObject(artifact.integrity) ? artifact.integrity : {};
  const words = ["variant", "arch", "format", "compression"].flatMap((key) =>
    textIn(artifact, key) ?? []
  );
  printer.data("");
  printer.pairs([
    ["build", textIn(build, "build") ?? "-"],
    ["file", words.join(" ")],
    ["size", sizeOrDash(numberIn(artifact, "size"))],
    ...objectsAt(artifact, "locations").map((location) =>
      [textIn(location, "kind") ?? "url", textIn(location, "url") ?? "-"] as const
    ),
    ...objectsAt(integrity, "digests").map((digest) =>
      [
        textIn(digest, "algorithm") ?? "-",
        textIn(digest, "value") ?? "-",
      ] as const
    ),
  ]);
}

const STATUS: Command = {
  summary: "show the age of the mirror and the problems of the last sync",
  examples: [["image status", "upstream, documents, last sync"]],
  flags: [],
  shared: "agent",
  async run({ client, printer, terminal }) {
    const sent = await client.send({ method: "GET", path: "/agent/v1/index" });
    const index = readObject(sent.body, "the index");
    if (printer.json) printer.document(index);
    else printer.pairs(indexPairs(index, terminal.nowMs()));
    if (isJsonObject(index.last_sync)) {
      for (const line of problemLines(index.last_sync)) printer.note(`zonewright: ${line}`);
    }
  },
};

/** The commands about the image index. @see document 1 */
export const IMAGE: Noun = {
  kind: "verbs",
  summary: "search and sync the mirror of the image index",
  verbs: { find: FIND, list: LIST, show: SHOW, status: STATUS, sync: SYNC },
};
