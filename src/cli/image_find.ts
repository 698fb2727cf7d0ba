// `zonewright image find`: a search over every artifact of the index. `image list` with filters is
// the same search, below what it names.

import { isJsonObject, type JsonObject } from "../domain/json.ts";
import { nearest } from "../domain/near_word.ts";
import { numberIn, objectsIn, readObject, textIn } from "./kit/answer.ts";
import { type Arguments, type Flag, usageError } from "./kit/arguments.ts";
import type { Call, Command } from "./kit/command.ts";
import { EXIT, type ExitCode } from "./kit/exit_code.ts";
import { limitOf } from "./job/job_filter.ts";
import type { Printer } from "./kit/printer.ts";
import { sizeText } from "./kit/table.ts";

/** Artifacts that are shown unless more are asked for. */
const FIND_LIMIT = 100;
/** Artifacts that one request answers at the most. */
const PAGE_MAX = 1000;
/** Words of a search. */
const WORDS_MAX = 8;

/** Filters with a value; their names are those of the HTTP interface. */
const WORD_FLAGS: readonly Flag[] = [
  { name: "arch", placeholder: "ARCH", help: "only this architecture, such as x86_64, aarch64" },
  { name: "format", placeholder: "FORMAT", help: "only this disk format, such as qcow2, raw" },
  { name: "variant", placeholder: "NAME", help: "only this variant" },
  {
    name: "compression",
    placeholder: "NAME",
    help: "only with this compression; none for without",
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
  { name: "default", help: "only what is taken where no variant is named" },
  { name: "archived", help: "only what survives in the vendor's vault" },
];
const LIMIT_FLAG: Flag = {
  name: "limit",
  placeholder: "N",
  help: `at most so many; ${FIND_LIMIT} when left out`,
};

/** The filters of a search below a place of the tree. */
export const FILTER_FLAGS: readonly Flag[] = [...WORD_FLAGS, ...SWITCH_FLAGS, LIMIT_FLAG];

const PLACE_FLAGS: readonly Flag[] = [
  { name: "distro", placeholder: "DISTRO", help: "only this distro" },
  { name: "release", placeholder: "RELEASE", help: "only this release: alias or id" },
  { name: "build", placeholder: "BUILD", help: "only this build" },
];

/** Whether any filter is given. */
export function hasFilter(args: Arguments): boolean {
  return FILTER_FLAGS.some(({ name }) => args.given.has(name));
}

/** The query that the filters of a command line stand for. */
export function filterQuery(args: Arguments): URLSearchParams {
  const query = new URLSearchParams();
  for (const { name } of [...PLACE_FLAGS, ...WORD_FLAGS]) {
    const value = args.text(name);
    if (value === "") throw usageError(`--${name} wants a value`);
    if (value !== undefined) query.set(name, value);
  }
  for (const { name } of SWITCH_FLAGS) {
    if (args.has(name)) query.set(name === "default" ? "default_variant" : name, "true");
  }
  return query;
}

/** `zonewright image find`. */
export const FIND: Command = {
  summary: "search every file of the index",
  operands: "[WORD...]",
  operandsMin: 0,
  operandsMax: WORDS_MAX,
  examples: [
    ["image find debian cloud", "whose names hold both words"],
    [
      "image find --release latest --arch x86_64 --newest --default",
      "what clients take of the newest release of each distro",
    ],
    ["image find --datasource nocloud --firmware uefi --json", "for another program"],
  ],
  flags: [...PLACE_FLAGS, ...FILTER_FLAGS],
  shared: "agent",
  run: async (call) => {
    const query = filterQuery(call.args);
    if (call.args.operands.length > 0) query.set("q", call.args.operands.join(" "));
    return await findImages(call, query);
  },
};

/** Searches, and shows what was found. */
export async function findImages(call: Call, query: URLSearchParams): Promise<ExitCode> {
  const { args, client, printer } = call;
  const limit = limitOf(args) ?? FIND_LIMIT;
  const images: JsonObject[] = [];
  let count = 0;
  let next: string | undefined;
  do {
    query.set("limit", String(Math.min(limit - images.length, PAGE_MAX)));
    if (next !== undefined) query.set("after", next);
    const sent = await client.send({ method: "GET", path: `/agent/v1/images?${query}` });
    if (sent.kind === "printed") return EXIT.ok;
    const page = readObject(sent.body, "the images");
    images.push(...objectsIn(page, "images"));
    count = Number(sent.headers.get("x-count"));
    next = textIn(page, "next");
  } while (next !== undefined && images.length < limit);
  if (printer.json) printer.document({ images, next: next ?? null });
  else imageTable(printer, images);
  const more = count - images.length;
  if (more > 0) printer.note(`${more} more are not shown, see --limit`);
  if (images.length === 0) await noteUnknownDistro(call, query);
  return EXIT.ok;
}

function imageTable(printer: Printer, images: readonly JsonObject[]): void {
  printer.table(
    [
      { head: "DISTRO" },
      { head: "RELEASE" },
      { head: "BUILD", flexible: true },
      { head: "VARIANT", flexible: true },
      { head: "ARCH" },
      { head: "FORMAT" },
      { head: "PACKED" },
      { head: "SIZE", right: true },
    ],
    images.map((image) => {
      const artifact = isJsonObject(image.artifact) ? image.artifact : {};
      return [
        textIn(image, "distro") ?? "",
        textIn(image, "release") ?? "",
        textIn(image, "build") ?? "",
        textIn(artifact, "variant") ?? "-",
        textIn(artifact, "arch") ?? "-",
        textIn(artifact, "format") ?? "-",
        textIn(artifact, "compression") ?? "-",
        sizeText(numberIn(artifact, "size")),
      ];
    }),
  );
}

/** Where nothing fits: says so when it is because no distro has the name that was typed. */
async function noteUnknownDistro({ client, printer }: Call, query: URLSearchParams): Promise<void> {
  const wanted = query.get("distro");
  if (wanted === null) return;
  const list = readObject(await client.get("/v1/index.json"), "the distros");
  const ids = objectsIn(list, "distros").flatMap((distro) => textIn(distro, "id") ?? []);
  if (ids.includes(wanted)) return;
  printer.note(`no distro has the id ${JSON.stringify(wanted)}${nearest(wanted, ids)}`);
}
