// The search over the artifacts of the image index. The three tables are joined in key order, which is the
// order of the tree: nothing is sorted, and reading stops when the page is full. A given distro or release
// limits what is read; other filters check the narrow rows that remain. One statement serves every filter,
// so that callers cannot fill the memory with prepared statements.

import type { BindValue } from "@db/sqlite";
import type { JsonObject } from "../../../domain/json.ts";
import {
  type ImageFilter,
  type ImagePage,
  type ImagePlace,
  type ListedImage,
  SEARCH_WORDS_MAX,
} from "../../local_store.ts";
import type { Connection } from "../connection.ts";

const TABLES = `index_distros AS d
  CROSS JOIN index_releases AS r ON r.distro = d.distro
  CROSS JOIN index_artifacts AS a ON a.distro = r.distro AND a.release = r.release`;

/** A filter that is null matches everything. */
const FITS = `(?1 IS NULL OR d.distro = ?1)
  AND (?2 IS NULL OR r.release = coalesce(
        (SELECT x.release FROM index_aliases AS x WHERE x.distro = r.distro AND x.alias = ?2), ?2))
  AND (?3 IS NULL OR a.archived = ?3)
  AND (?4 IS NULL OR (a.archived = 0 AND a.build_place = 0) = ?4)
  AND (?5 IS NULL OR a.default_variant = ?5)
  AND (?6 IS NULL OR a.build = ?6)
  AND (?7 IS NULL OR a.arch = ?7)
  AND (?8 IS NULL OR a.format = ?8)
  AND (?9 IS NULL OR a.variant = ?9)
  AND (?10 IS NULL OR a.compression = ?10)
  -- A text with its quotes stands in the JSON of a list only where it is one of the list.
  AND (?11 IS NULL OR instr(a.datasources, ?11) > 0)
  AND (?12 IS NULL OR instr(a.firmware, ?12) > 0)
  ${
  Array.from({ length: SEARCH_WORDS_MAX }, (_, number) => `?${number + 13}`).map((word) =>
    `AND (${word} IS NULL OR instr(a.words, ${word}) OR instr(r.words, ${word})
      OR instr(d.words, ${word}))`
  ).join("\n  ")
}`;
/** Number of the last question mark in it. */
const FITS_BOUND = 12 + SEARCH_WORDS_MAX;
const BEFORE_ALL: ImagePlace = [-1, 0, 0, 0, 0];

interface ImageRow {
  readonly distro: string;
  readonly release: string;
  readonly aliases: string;
  readonly build: string;
  readonly point_release: string | null;
  readonly published_at: string | null;
  readonly archived: number;
  readonly url: string | null;
  readonly artifact: string;
  readonly distro_place: number;
  readonly release_place: number;
  readonly build_place: number;
  readonly place: number;
}

/** In the order of the tree. */
export function searchImages(
  db: Connection,
  filter: ImageFilter,
  { limit, after = BEFORE_ALL }: ImagePage,
): ListedImage[] {
  const place = after.map((_, number) => `?${FITS_BOUND + 1 + number}`);
  return db.rows<ImageRow>(
    `SELECT a.distro, a.release, r.aliases, a.build, t.point_release, t.published_at, a.archived,
            t.url, t.artifact, d.place AS distro_place, r.place AS release_place, a.build_place,
            a.place
       FROM ${TABLES}
      CROSS JOIN index_artifact_texts AS t ON t.artifact_id = a.id
      WHERE d.place >= ${place[0]}
        AND (d.place, r.place, a.archived, a.build_place, a.place) > (${place.join(", ")})
        AND ${FITS}
      ORDER BY d.place, r.place, a.archived, a.build_place, a.place
      LIMIT ?${FITS_BOUND + 1 + place.length}`,
    ...bound(filter),
    ...after,
    limit,
  ).map(imageFromRow);
}

/** How many artifacts of the index match, on all pages. */
export function countImages(db: Connection, filter: ImageFilter): number {
  const row = db.row<{ artifacts: number }>(
    `SELECT count(*) AS artifacts FROM ${TABLES} WHERE ${FITS}`,
    ...bound(filter),
  );
  return row?.artifacts ?? 0;
}

/** The values bound to the filter, in order. */
function bound(filter: ImageFilter): BindValue[] {
  const flag = (on: boolean | undefined) => on === undefined ? null : Number(on);
  const listed = (word: string | undefined) => word === undefined ? null : JSON.stringify(word);
  const { words = [] } = filter;
  return [
    filter.distro ?? null,
    filter.release ?? null,
    flag(filter.archived),
    flag(filter.newest),
    flag(filter.default_variant),
    filter.build ?? null,
    filter.arch ?? null,
    filter.format ?? null,
    filter.variant ?? null,
    filter.compression ?? null,
    listed(filter.datasource),
    listed(filter.firmware),
    ...Array.from(
      { length: SEARCH_WORDS_MAX },
      (_, number) => words[number]?.toLowerCase() ?? null,
    ),
  ];
}

function imageFromRow(row: ImageRow): ListedImage {
  const { distro, release, build, point_release, published_at, url } = row;
  const { distro_place, release_place, archived, build_place, place } = row;
  return {
    distro,
    release,
    // Both texts were made by this store.
    aliases: JSON.parse(row.aliases) as string[],
    build,
    point_release,
    published_at,
    archived: archived === 1,
    url,
    artifact: JSON.parse(row.artifact) as JsonObject,
    place: [distro_place, release_place, archived, build_place, place],
  };
}
