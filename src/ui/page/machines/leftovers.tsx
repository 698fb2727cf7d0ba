// What failed jobs left on their hosts, above the list of machines; nothing if there is nothing left.

import { signal, useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { announce, place } from "../../browser.ts";
import { type Call, cliOf, curlOf, mayChange, read, send, wordsOf } from "../../client/client.ts";
import type { Schemas } from "../../client/schema.ts";
import { Button, Dialog } from "../../part/controls.tsx";
import { HostName, isOfHost, useHosts } from "../../part/hosts.tsx";
import { clock, shortUuid, Time, Uuid } from "../../part/shown.tsx";

type Leftover = Schemas["Leftover"];

/** Milliseconds until a failed read is repeated. */
const LEFTOVERS_READ_MS = 15_000;

/** The list of leftovers; the page says when to read it. */
export function openLeftoverList() {
  const left = signal<readonly Leftover[]>([]);
  const error = signal<string | undefined>(undefined);
  let reading = new AbortController();
  const load = async () => {
    reading.abort();
    const { signal: mine } = reading = new AbortController();
    try {
      left.value = await read("GET /agent/v1/leftovers", "/agent/v1/leftovers", mine);
      error.value = undefined;
    } catch (failure) {
      if (!mine.aborted) error.value = wordsOf(failure);
    }
  };
  const timer = setInterval(() => {
    if (!document.hidden && error.peek() !== undefined) void load();
  }, LEFTOVERS_READ_MS);
  return {
    left,
    error,
    load: () => void load(),
    close: () => {
      clearInterval(timer);
      reading.abort();
    },
  };
}

type LeftoverList = ReturnType<typeof openLeftoverList>;

/** Leftovers shown at first. */
const SHOWN_AT_ONCE = 5;
/** The anchor by which links lead to this section. */
const ANCHOR = "leftovers";

interface LeftoversProps {
  readonly list: LeftoverList;
  /** The machines known so far. A leftover may be one of them, or only its disks. */
  readonly machines: readonly Pick<Schemas["Machine"], "uuid" | "alias" | "host_uuid">[];
}

/** The section, with the actions on each leftover. */
export function Leftovers({ list, machines }: LeftoversProps): JSX.Element | null {
  // Reads the hosts for their states, even while no machine is listed.
  useHosts();
  const asked = useSignal<Leftover | undefined>(undefined);
  const all = useSignal(false);
  const host = place.value.query.get("host");
  const found = list.left.value.filter((leftover) => isOfHost(leftover, host));
  const title = useTitle(found.length > 0);
  const shown = all.value ? found : found.slice(0, SHOWN_AT_ONCE);
  return (
    <>
      {found.length > 0 && (
        <section class="leftovers" id={ANCHOR} aria-labelledby="leftovers-title">
          <h2 id="leftovers-title" ref={title} tabIndex={-1}>Left behind by failed jobs</h2>
          <p class="muted">The agent keeps trying to remove it until nothing is left.</p>
          <ul>
            {shown.map((leftover) => (
              <LeftoverLine
                key={`${leftover.uuid} ${leftover.host_uuid}`}
                leftover={leftover}
                alias={aliasOf(leftover, machines)}
                onDrop={() => asked.value = leftover}
              />
            ))}
          </ul>
          {shown.length < found.length && (
            <Button kind="quiet" onClick={() => all.value = true}>
              Show all {found.length.toLocaleString("en")}
            </Button>
          )}
        </section>
      )}
      {asked.value !== undefined && (
        <DropDialog
          leftover={asked.value}
          onDone={list.load}
          onClose={() => asked.value = undefined}
        />
      )}
    </>
  );
}

/** Focuses the section's title once it is there, if a link led to it. */
function useTitle(isThere: boolean) {
  const title = useRef<HTMLHeadingElement>(null);
  const reached = useRef(false);
  useEffect(() => {
    if (!isThere || reached.current || location.hash !== `#${ANCHOR}`) return;
    reached.current = true;
    title.current?.focus();
  }, [isThere]);
  return title;
}

/** The name of a machine that is still in the list; undefined if it is not. */
function aliasOf(
  { uuid, host_uuid }: Leftover,
  machines: LeftoversProps["machines"],
): string | null | undefined {
  return machines.find((one) => one.uuid === uuid && one.host_uuid === host_uuid)?.alias;
}

interface LeftoverLineProps {
  readonly leftover: Leftover;
  /** Null for a machine without a name; undefined when it is not listed. */
  readonly alias: string | null | undefined;
  readonly onDrop: () => void;
}

function LeftoverLine({ leftover, alias, onDrop }: LeftoverLineProps): JSX.Element {
  const { uuid, job_uuid, job_execution, claimed_at, error } = leftover;
  return (
    <li>
      <span class="leftover-name">
        {alias !== undefined && (
          <a class="job-link" href={`/ui/machines/${uuid}`}>{alias ?? "unnamed"}</a>
        )}
        <Uuid uuid={uuid} of="what is left" />
      </span>
      <span>
        on <HostName of={leftover} />
      </span>
      <span class="muted">
        created <Time at={claimed_at} /> by{" "}
        <a href={`/ui/jobs/${job_uuid}`}>job {shortUuid(job_uuid)}</a>, which{" "}
        {job_execution === "canceled" ? "was canceled" : "failed"}
      </span>
      <span class="muted">
        <Attempts of={leftover} />
      </span>
      {mayChange() && (
        <Button kind="danger" label={`Drop ${alias ?? shortUuid(uuid)}`} onClick={onDrop}>
          Drop…
        </Button>
      )}
      {error !== null && <p class="step-error cut-late" title={error}>{error}</p>}
    </li>
  );
}

function Attempts({ of: { tries, next_try_at } }: { of: Leftover }): JSX.Element {
  const made = tries === 0
    ? "no attempt yet"
    : `${tries.toLocaleString("en")} ${tries === 1 ? "attempt" : "attempts"}`;
  // Before the first check the time is unknown, but it will be soon.
  if (next_try_at === null || Date.parse(next_try_at) <= clock.value) return <>{made}, next due</>;
  return (
    <>
      {made}, next <Time at={next_try_at} />
    </>
  );
}

interface DropDialogProps {
  readonly leftover: Leftover;
  readonly onDone: () => void;
  readonly onClose: () => void;
}

function DropDialog(
  { leftover: { uuid, host, host_uuid }, onDone, onClose }: DropDialogProps,
): JSX.Element {
  // Several hosts may have a leftover of one uuid.
  const query = host_uuid === null ? "" : `?host=${host_uuid}`;
  const call: Call = { method: "DELETE", path: `/agent/v1/leftovers/${uuid}${query}` };
  const of = host_uuid === null ? [] : ["--host", host_uuid];
  return (
    <Dialog
      title={`Drop leftover ${shortUuid(uuid)}?`}
      verb={`Drop leftover ${shortUuid(uuid)}`}
      danger
      curl={curlOf(call)}
      cli={cliOf(["machine", "leftovers", "--drop", uuid, ...of, "--yes"])}
      onConfirm={async () => {
        await send(call);
        announce("The leftover is dropped");
        onDone();
      }}
      onClose={onClose}
    >
      <p class="muted">
        No further attempt is made to remove it, and {host}{" "}
        keeps what it has. This is for a host that is gone, or for what should stay.
      </p>
    </Dialog>
  );
}
