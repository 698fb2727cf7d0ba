// What was published for checking artifacts that have left the index. The most recent are kept.

import type { IndexPin, IndexPinChanges } from "../../store.ts";
import type { Connection } from "../connection.ts";

/** Pins that are kept; the known trees lose a few hundred artifacts in a month. */
const PINS_MAX = 100_000;

export function selectPins(db: Connection, distro: string, release: string): IndexPin[] {
  return db.rows<IndexPin>(
    "SELECT distro, release, artifact, pin FROM index_pins WHERE distro = ? AND release = ?",
    distro,
    release,
  );
}

export function changePins(db: Connection, { put, remove }: IndexPinChanges): void {
  for (const { distro, release, artifact } of remove) {
    db.run(
      "DELETE FROM index_pins WHERE distro = ? AND release = ? AND artifact = ?",
      distro,
      release,
      artifact,
    );
  }
  for (const { distro, release, artifact, pin } of put) {
    db.run(
      `INSERT INTO index_pins (distro, release, artifact, pin) VALUES (?, ?, ?, ?)
       ON CONFLICT (distro, release, artifact) DO UPDATE SET pin = excluded.pin`,
      distro,
      release,
      artifact,
      pin,
    );
  }
  if (put.length > 0) {
    db.run("DELETE FROM index_pins WHERE id <= (SELECT max(id) FROM index_pins) - ?", PINS_MAX);
  }
}
