// Events about uploads and downloads. Each file is reported at its start, every few seconds, and at its end,
// no matter how many requests it takes.

import { type EventPayload, ownText, PROGRESS_EVENT_MS } from "../../domain/event.ts";

/** The payload of these events. */
export type MediaEvent = Omit<EventPayload<"media">, "time">;

interface Transferred {
  readonly key: string;
  readonly name: string;
  /** How many bytes have arrived. */
  readonly done: number;
  /** Bytes of the complete file; null when unknown. */
  readonly size: number | null;
}

/** Reports the transfers of one kind. */
export interface TransferEvents {
  /** Called before the first bytes, and as more arrive. */
  moved(file: Transferred): void;
  /**
   * Called at the end. If the start was not reported, neither is the end.
   * @param error why it failed; null for success
   */
  ended(file: Transferred, error: string | null): void;
  /** Ends a transfer with the progress reported last. */
  lost(key: string, error: string): void;
}

/** @param emit receives the events; it does not throw */
export function openTransferEvents(
  kind: "download" | "upload",
  emit: (event: MediaEvent) => void,
): TransferEvents {
  /** The last report of each transfer, and its time; `open` until its end is reported. */
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
  /** Drops transfers that ended long ago, so that the next one of that name is reported at once. */
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
    emit({ change: `${kind}_ended`, ...shown(file), error: words });
  };
  return {
    moved(file) {
      const nowMs = performance.now();
      const before = latest.get(file.key);
      if (before !== undefined && nowMs - before.atMs < PROGRESS_EVENT_MS) return;
      forgetOld(nowMs);
      latest.set(file.key, { file, atMs: nowMs, open: true });
      emit({ change: changes, ...shown(file), error: null });
    },
    ended,
    lost(key, error) {
      const before = latest.get(key);
      if (before !== undefined) ended(before.file, error);
    },
  };
}
