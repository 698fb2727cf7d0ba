// The live log of a job: with times, a filter by text or level, and a switch that follows its end.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Button } from "../../part/controls.tsx";
import { exactText, timeOfDay, valueText } from "../../part/shown.tsx";
import type { LogLine, OpenJobView } from "./job_view.ts";

const LEVELS = ["debug", "info", "warn", "error"] as const;
/** Pixels from the end within which the log follows new lines. */
const NEAR_END_PX = 40;

/** The log; new lines come into view while `Follow` is on. */
export function Log({ view }: { view: OpenJobView }): JSX.Element {
  const text = useSignal("");
  const level = useSignal<typeof LEVELS[number]>("debug");
  const follows = useSignal(true);
  const box = useRef<HTMLDivElement>(null);
  const part = view.log.value;
  const lines = (part?.lines ?? []).filter((line) =>
    LEVELS.indexOf(line.level) >= LEVELS.indexOf(level.value) && hasText(line, text.value)
  );
  const last = lines.at(-1)?.sequence;
  const scrolled = useEnd(box, follows, last);
  return (
    <>
      <form class="filter" onSubmit={(event) => event.preventDefault()}>
        <label class="filter-search">
          <span class="sr-only">Filter the log</span>
          <input
            type="search"
            placeholder="Filter"
            value={text}
            onInput={(event) => text.value = event.currentTarget.value}
          />
        </label>
        <label>
          <span>Level</span>
          <select
            value={level}
            onChange={(event) => level.value = LEVELS[event.currentTarget.selectedIndex] ?? "debug"}
          >
            {LEVELS.map((one) => <option key={one} value={one}>{one}</option>)}
          </select>
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={follows.value}
            onChange={(event) => follows.value = event.currentTarget.checked}
          />
          <span>Follow</span>
        </label>
      </form>
      <div class="log" role="log" aria-label="Log" tabIndex={0} ref={box} onScroll={scrolled}>
        {part !== undefined && part.before !== null && (
          <Button kind="quiet" onClick={view.earlier}>Show earlier lines</Button>
        )}
        {lines.map((line) => <Line key={line.sequence} line={line} />)}
        {part !== undefined && lines.length === 0 && (
          <p class="muted">{part.lines.length === 0 ? "Nothing logged yet" : "No lines match"}</p>
        )}
      </div>
    </>
  );
}

/** Keeps a box at its end while it follows. @returns what to do when it has scrolled */
function useEnd(
  box: { readonly current: HTMLElement | null },
  follows: { value: boolean },
  last: number | undefined,
): (event: Scroll) => void {
  const top = useRef(0);
  // Whether the user has scrolled since the box got its present size.
  const touched = useRef(false);
  const toEnd = () => {
    if (follows.value && box.current !== null) box.current.scrollTop = box.current.scrollHeight;
  };
  useEffect(toEnd, [last, follows.value]);
  // In a window of another size, lines break elsewhere and the end moves.
  useEffect(() => {
    const { current } = box;
    if (current === null) return;
    const observer = new ResizeObserver(() => {
      touched.current = false;
      toEnd();
    });
    observer.observe(current);
    const touch = () => void (touched.current = true);
    for (const kind of TOUCHES) current.addEventListener(kind, touch, { passive: true });
    return () => {
      observer.disconnect();
      for (const kind of TOUCHES) current.removeEventListener(kind, touch);
    };
  }, []);
  return ({ currentTarget }) => {
    const { scrollHeight, scrollTop, clientHeight } = currentTarget;
    const atEnd = scrollHeight - scrollTop - clientHeight < NEAR_END_PX;
    // Only a user scrolls away from the end. The browser also moves the box after a change of the window's size,
    // which the page may not know of yet.
    if (atEnd) follows.value = true;
    else if (touched.current && scrollTop < top.current) follows.value = false;
    top.current = scrollTop;
  };
}

/** Events of the ways in which a user scrolls. */
const TOUCHES = ["wheel", "touchmove", "keydown", "pointerdown"] as const;

type Scroll = Event & { readonly currentTarget: HTMLElement };

function hasText(line: LogLine, text: string): boolean {
  if (text === "") return true;
  const { message, task, fields, progress } = line;
  const all = [message, task, fields, progress].map((one) =>
    typeof one === "string" ? one : one === null ? "" : JSON.stringify(one)
  );
  return all.join(" ").toLowerCase().includes(text.toLowerCase());
}

function Line({ line }: { line: LogLine }): JSX.Element {
  const { time, level, task, message, progress, fields } = line;
  // For a failed attempt, the timeline shows the rest.
  const rest = fields === null || "wait_seconds" in fields ? "" : fieldsText(fields);
  return (
    <div class={`log-line log-${level}`}>
      <time dateTime={time} title={exactText(time)}>{timeOfDay(time)}</time>
      <span class="log-level">{level}</span>
      <span class="log-task">{task}</span>
      <span class="log-text">
        {fields !== null && "zonewright_calls" in fields
          ? "calls:"
          : message ?? progressText(progress)} {rest !== "" && <span class="muted">{rest}</span>}
      </span>
    </div>
  );
}

/** The fields of a line besides its message; capability calls as numbers. */
function fieldsText(fields: Readonly<Record<string, unknown>>): string {
  const { zonewright_call: call, zonewright_calls: calls, ...others } = fields;
  const words = Object.entries(others).length === 0 ? [] : [JSON.stringify(others)];
  if (isObject(call) && isObject(call.args)) {
    words.push(...Object.entries(call.args).map(([name, value]) => `${name}=${valueText(value)}`));
  }
  if (isObject(calls)) {
    for (const [name, of] of Object.entries(calls)) {
      if (isObject(of)) words.push(`${name} ${of.count} in ${of.ms} ms`);
    }
  }
  return words.join(", ");
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null;
}

/** Progress as a text: `copy 412 of 631 MB`. */
export function progressText(progress: Readonly<Record<string, unknown>> | null): string {
  if (progress === null) return "";
  const { phase, done, total } = progress;
  const of = typeof total === "number" ? ` of ${megabytes(total)}` : "";
  const bytes = typeof done === "number" ? `${megabytes(done)}${of}` : "";
  return [typeof phase === "string" ? phase : "progress", bytes].join(" ").trim();
}

function megabytes(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(bytes < 10_000_000 ? 1 : 0)} MB`;
}
