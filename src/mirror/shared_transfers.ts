// Work that several callers share, such as a sync or a download. Each caller may give up on its own; the work
// ends early only when all have.

import { abortReason } from "./web/time_limits.ts";

/** One caller of shared work. Its signal ends its own wait, and the work if it was the last caller. */
interface Share<P> {
  readonly signal?: AbortSignal;
  readonly onProgress?: (progress: P) => void;
}

/** Work under way, by key. */
export interface SharedTransfers<T, P> {
  readonly size: number;
  has(key: string): boolean;
  /** Joins the work of this key, or starts it. Rejects with `aborted` when it is canceled. */
  join(
    key: string,
    share: Share<P>,
    begin: (signal: AbortSignal, report: (progress: P) => void) => Promise<T>,
  ): Promise<T>;
}

interface Work<T, P> {
  readonly result: Promise<T>;
  readonly controller: AbortController;
  readonly shares: Set<Share<P>>;
}

/** A key is forgotten when its work ends: results are not cached. */
export function openSharedTransfers<T, P>(): SharedTransfers<T, P> {
  const works = new Map<string, Work<T, P>>();
  const start = (
    key: string,
    begin: (signal: AbortSignal, report: (progress: P) => void) => Promise<T>,
  ): Work<T, P> => {
    const controller = new AbortController();
    const shares = new Set<Share<P>>();
    const report = (progress: P) => {
      for (const share of shares) share.onProgress?.(progress);
    };
    const work = { controller, shares, result: begin(controller.signal, report) };
    works.set(key, work);
    const end = () => {
      if (works.get(key) === work) works.delete(key);
    };
    work.result.then(end, end);
    return work;
  };
  return {
    get size() {
      return works.size;
    },
    has: (key) => works.has(key),
    async join(key, share, begin) {
      if (share.signal?.aborted) throw abortReason(`wait for ${key}`, share.signal);
      let work = works.get(key);
      // Work that every caller has given up on is still ending; new work under its key waits for that.
      while (work?.controller.signal.aborted) {
        await work.result.catch(() => {});
        work = works.get(key);
      }
      work ??= start(key, begin);
      return await shared(work, key, share);
    },
  };
}

function shared<T, P>(work: Work<T, P>, key: string, share: Share<P>): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<T>();
  const giveUp = () => {
    work.shares.delete(share);
    const error = abortReason(`wait for ${key}`, share.signal);
    if (work.shares.size > 0) return reject(error);
    work.controller.abort(error);
    // The last caller waits until the work has really ended.
    work.result.then(() => reject(error), () => reject(error));
  };
  work.shares.add(share);
  share.signal?.addEventListener("abort", giveUp, { once: true });
  const done = () => {
    work.shares.delete(share);
    share.signal?.removeEventListener("abort", giveUp);
  };
  work.result.then(
    (value) => {
      done();
      resolve(value);
    },
    (error) => {
      done();
      reject(error);
    },
  );
  return promise;
}
