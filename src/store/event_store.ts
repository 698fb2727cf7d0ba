// The interface of the events of the store: what GET /agent/v1/events reads.

import type { EventKind, OwnEvent, StoredEvent } from "../domain/event.ts";
import type { JobUuid, MachineUuid } from "../domain/id.ts";

/** The newest events, kept however fast events arrive. */
export const EVENTS_KEPT = 100_000;
/** Longest log line sent with its event, bytes; the log itself may hold longer ones. */
export const EVENT_LINE_BYTES_MAX = 64 * 1024;

/** The range of the kept events; 0 and 0 before the first event. */
export interface EventBounds {
  /** `seq` of the oldest. */
  readonly first: number;
  /** `seq` of the newest. */
  readonly last: number;
}

/** Selects events; an event must match every given key. */
export interface EventFilter {
  readonly job?: readonly JobUuid[] | undefined;
  readonly machine?: readonly MachineUuid[] | undefined;
  readonly kind?: readonly EventKind[] | undefined;
}

/** Some events, in their order. */
export interface EventPage {
  /** Without events about subjects that were removed since, and events that do not match. */
  readonly events: readonly StoredEvent[];
  /** The page covers events up to this `seq`; the requested `seq` when it is empty. */
  readonly last: number;
  readonly more: boolean;
  /** False when events between the requested `seq` and this page were removed. */
  readonly joins: boolean;
}

/**
 * The log of events, in one order. An event about a job is written in the same transaction as the change
 * it reports. Each write also removes a few of the oldest events.
 */
export interface EventStore {
  /** Adds an event that no change of a row implies. */
  append(event: OwnEvent): Promise<void>;
  bounds(): Promise<EventBounds>;
  /**
   * A page of the events after `seq`. Events of given jobs are found by an index; for given kinds or machines
   * a bounded number of rows is read, however many events are kept.
   * @param limit of events that are given
   */
  after(seq: number, limit: number, filter?: EventFilter): Promise<EventPage>;
  /** Calls back after every commit, whatever it wrote. @returns ends that */
  follow(committed: () => void): () => void;
}
