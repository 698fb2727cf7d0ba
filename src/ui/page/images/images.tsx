// The image index: how fresh it is, and its distros with their releases.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { type Call, cliOf, curlOf, mayChange, send } from "../../client/client.ts";
import type { Schemas } from "../../client/schema.ts";
import { Banner, Button, Dialog, Empty, SearchField, searchText } from "../../part/controls.tsx";
import { bytesText, clock, isThere, Progress, Time } from "../../part/shown.tsx";
import { announce, nameTab } from "../../browser.ts";
import { type Distro, openIndexView } from "./index_view.ts";

/** The page of the index: how fresh it is, and what it contains. */
export function ImagesPage(): JSX.Element {
  useEffect(() => nameTab("Images"), []);
  const view = useMemo(openIndexView, []);
  useEffect(() => () => view.close(), [view]);
  const asks = useSignal(false);
  const status = view.status.value;
  const distros = view.distros.value;
  return (
    <>
      <div class="page-head">
        <h1>Images</h1>
        {mayChange() && status !== undefined && status.upstream !== null && (
          <Button
            disabled={status.syncing}
            onClick={() => asks.value = true}
          >
            {status.syncing ? "Syncing" : "Sync now…"}
          </Button>
        )}
      </div>
      {view.error.value !== undefined && <Banner kind="bad" title={view.error.value} />}
      {status !== undefined && <Sync status={status} />}
      {status !== undefined && distros?.length === 0 && <NoIndex status={status} />}
      {distros === undefined && view.error.value === undefined && (
        <p class="muted loading" role="status">Loading</p>
      )}
      {distros !== undefined && distros.length > 0 && <Distros distros={distros} />}
      {asks.value && <SyncDialog onStarted={view.syncing} onClose={() => asks.value = false} />}
    </>
  );
}

function Sync({ status }: { status: Schemas["IndexStatus"] }): JSX.Element {
  const { upstream, last_sync, compared_at, documents, syncing, progress } = status;
  const problems = last_sync?.problems ?? [];
  return (
    <>
      <dl class="facts">
        <div>
          <dt>Upstream</dt>
          <dd class="wrap">{upstream ?? "none"}</dd>
        </div>
        <div>
          <dt>Last compared</dt>
          <dd>{compared_at === null ? "never" : <Time at={compared_at} />}</dd>
        </div>
        <div>
          <dt>Documents</dt>
          <dd class="number">{documents.toLocaleString("en")}</dd>
        </div>
        {last_sync !== null && (
          <div>
            <dt>Last sync</dt>
            <dd>{last_sync.outcome}, {changesText(last_sync)}</dd>
          </div>
        )}
        {syncing && (
          <div>
            <dt>Syncing now</dt>
            <dd class="number">
              {progress === null ? "Starting" : <SyncProgress {...progress} />}
            </dd>
          </div>
        )}
      </dl>
      {problems.length > 0 && (
        <Banner
          kind={last_sync?.outcome === "failed" ? "bad" : "warn"}
          title={last_sync?.outcome === "failed"
            ? "The last sync failed"
            : `The last sync left ${problems.length} documents unchanged`}
        >
          <ul class="problems">
            {problems.slice(0, PROBLEMS_SHOWN).map(({ document, message }) => (
              <li key={document + message}>
                <code>{document}</code> {message}
              </li>
            ))}
          </ul>
          {problems.length > PROBLEMS_SHOWN && (
            <p>And {problems.length - PROBLEMS_SHOWN} more: zonewright image status</p>
          )}
        </Banner>
      )}
    </>
  );
}

const PHASES: Readonly<Record<Schemas["IndexProgress"]["phase"], string>> = {
  list: "reading the list of distros",
  documents: "reading documents",
  store: "storing the changes",
};

function SyncProgress(
  { phase, documents, total, bytes }: Schemas["IndexProgress"],
): JSX.Element {
  const done = `${documents.toLocaleString("en")} of ${total.toLocaleString("en")}`;
  return (
    <>
      {PHASES[phase]}, {done}, {bytesText(bytes)}
      <Progress
        done={documents}
        total={total === 0 ? undefined : total}
        label={`Documents of the sync: ${done}`}
      />
    </>
  );
}

const PROBLEMS_SHOWN = 20;

function changesText({ added, changed, removed }: Schemas["IndexSync"]): string {
  const words = Object.entries({ added, changed, removed })
    .filter(([, count]) => count > 0)
    .map(([word, count]) => `${count.toLocaleString("en")} ${word}`);
  return words.length === 0 ? "nothing new" : words.join(", ");
}

function NoIndex({ status }: { status: Schemas["IndexStatus"] }): JSX.Element {
  return status.upstream === null
    ? (
      <Empty
        title="No upstream is configured"
        command="zonewright config set index https://images.example.org"
      >
        <p class="muted">Set the address of an image index on the agent's host:</p>
      </Empty>
    )
    : (
      <Empty title="The index is empty" command={cliOf(["image", "sync", "--wait"])}>
        <p class="muted">Sync it above, or from a terminal:</p>
      </Empty>
    );
}

function SyncDialog(
  { onStarted, onClose }: { onStarted: () => void; onClose: () => void },
): JSX.Element {
  const call: Call = { method: "POST", path: "/agent/v1/index/sync", body: {} };
  return (
    <Dialog
      title="Sync the image index?"
      verb="Sync now"
      curl={curlOf(call)}
      cli={cliOf(["image", "sync"])}
      onConfirm={async () => {
        await send(call);
        announce("A sync is under way");
        onStarted();
      }}
      onClose={onClose}
    >
      <p class="muted">The agent asks the upstream what has changed. Images are not downloaded.</p>
    </Dialog>
  );
}

function Distros({ distros }: { distros: readonly Distro[] }): JSX.Element {
  const search = searchText();
  const words = search.toLowerCase().split(" ").filter((word) => word !== "");
  const shown = distros.map((distro) => ({
    ...distro,
    releases: distro.releases.filter((release) => {
      const text = `${distro.id} ${distro.name} ${release.id} ${release.title} ${release.aliases}`;
      return words.every((word) => text.toLowerCase().includes(word));
    }),
  })).filter(({ releases }) => releases.length > 0);
  return (
    <>
      <form class="filter" role="search" onSubmit={(event) => event.preventDefault()}>
        <SearchField placeholder="Search distro, release, alias" />
      </form>
      {shown.length === 0 && (
        <Empty title="No releases match">
          <p>
            <a href="/ui/images">Show all releases</a>
          </p>
        </Empty>
      )}
      <div class="distros">
        {shown.map((distro) => <DistroCard key={distro.id} distro={distro} />)}
      </div>
    </>
  );
}

function DistroCard({ distro: { id, name, releases } }: { distro: Distro }): JSX.Element {
  return (
    <section class="card distro" aria-label={name ?? id}>
      <h2>{name ?? id}</h2>
      <ul>
        {releases.map((release) => (
          <li key={release.id}>
            <a href={`/ui/images/${encodeURIComponent(id)}/${encodeURIComponent(release.id)}`}>
              {release.title ?? release.id}
            </a>
            <Aliases aliases={release.aliases} />
            <EndOfLife date={release.eol_date} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** The aliases of a release. */
export function Aliases(
  { aliases = [] }: { aliases?: readonly string[] | undefined },
): JSX.Element {
  return <>{aliases.map((alias) => <span key={alias} class="tag">{alias}</span>)}</>;
}

/** When support of a release ends or ended. @param date `YYYY-MM-DD` */
export function EndOfLife({ date }: { date: string | null | undefined }): JSX.Element | null {
  if (!isThere(date)) return null;
  const over = Date.parse(date) < clock.peek();
  return <span class={over ? "eol eol-over" : "eol"}>{over ? "ended" : "ends"} {date}</span>;
}
