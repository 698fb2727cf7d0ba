// The events of files on their way. However fast bytes come, and however many requests bring them, one
// file is reported at its start, every few seconds, and at its end.

import { type EventPayload, ownText, PROGRESS_EVENT_MS } from "../../domain/event.ts";

/** What is reported of a file. */
export type MediaEvent = Omit<EventPayload<"media">, "time">;

/** How far a file is. */
interface Transferred {
  /** Tells one transfer from another. */
  readonly key: string;
  /** Of the file. */
  readonly name: string;
  /** Bytes that have come. */
  readonly done: number;
  /** Bytes of the whole; null where nobody has said. */
  readonly size: number | null;
}

/** The downloads or the uploads under way, as they are reported. */
export interface TransferEvents {
  /** Some bytes have come, or the first ones are about to. */
  moved(file: Transferred): void;
  /**
   * Nothing more comes. A transfer that was not reported has no end either.
   * @param error why no file came of it; null when one did
   */
  ended(file: Transferred, error: string | null): void;
  /** The same for one whose numbers are those that were reported last. */
  lost(key: string, error: string): void;
}

/** @param tell takes the events; it does not throw */
export function openTransferEvents(
  kind: "download" | "upload",
  tell: (event: MediaEvent) => void,
  monotonicMs: () => number = () => performance.now(),
): TransferEvents {
  /** What was reported last of each transfer, and when; `open` until its end was. */
  const latest = new Map<
    string,
    { readonly file: Transferred; readonly atMs: number; open: boolean }
  >();
  const changes = ({ download: "downloading", upload: "uploading" } as const)[kind];
  const shown = ({ name, done, size }: Transferred) => ({
    name: ownText(name),
    sha256: null,
    size,
    done,
  });
  /** What ended long ago no longer holds back a new start. */
  const forgetOld = (nowMs: number) => {
    for (const [key, { atMs, open }] of latest) {
      if (!open && nowMs - atMs >= PROGRESS_EVENT_MS) latest.delete(key);
    }
  };
  const ended = (file: Transferred, error: string | null) => {
    const before = latest.get(file.key);
    if (before === undefined || !before.open) return;
    before.open = false;
    const words = error === null ? null : ownText(error);
    tell({ change: `${kind}_ended`, ...shown(file), error: words });
  };
  return {
    moved(file) {
      const nowMs = monotonicMs();
      const before = latest.get(file.key);
      if (before !== undefined && nowMs - before.atMs < PROGRESS_EVENT_MS) return;
      forgetOld(nowMs);
      latest.set(file.key, { file, atMs: nowMs, open: true });
      tell({ change: changes, ...shown(file), error: null });
    },
    ended,
    lost(key, error) {
      const before = latest.get(key);
      if (before !== undefined) ended(before.file, error);
    },
  };
}
