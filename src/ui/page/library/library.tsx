// The library: files that machines may boot from, and files that are still arriving.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { type Call, cliOf, curlOf, mayChange, send } from "../../client/client.ts";
import {
  Banner,
  Button,
  Copy,
  Dialog,
  Empty,
  SearchField,
  searchText,
} from "../../part/controls.tsx";
import { Rows } from "../../part/rows.tsx";
import { Badge, bytesText, clock, DIGEST_CHARS, Progress, shortUuid } from "../../part/shown.tsx";
import { UploadBox, UploadCommands, UploadLines } from "../../part/upload.tsx";
import { announce, nameTab, setQuery } from "../../browser.ts";
import { isUnderWay, type LibraryFile, libraryPath, uploads } from "../../client/uploads.ts";
import {
  ARRIVING,
  checkCallOf,
  isBootable,
  type MediaLibrary,
  mediumPathOf,
  type OpenLibrary,
  openLibrary,
} from "./library_list.ts";

/** The page of files to boot from; openLibrary() reads them. */
export function LibraryPage(): JSX.Element {
  useEffect(() => nameTab("Library"), []);
  const list = useMemo(openLibrary, []);
  useEffect(() => () => list.close(), [list]);
  const arrived = uploads.value.filter((upload) => !isUnderWay(upload)).length;
  // An upload of bytes already known under another name causes no event.
  useEffect(() => {
    if (arrived > 0) list.again();
  }, [arrived]);
  const library = list.library.value;
  return (
    <>
      <h1>Library</h1>
      {list.error.value !== undefined && <Banner kind="bad" title={list.error.value} />}
      {library !== undefined && <Problems library={library} />}
      {library !== undefined && mayChange() && (
        <div class="upload-part">
          <UploadBox files={library.files} many />
          <UploadCommands />
        </div>
      )}
      <UploadLines />
      <Arrivals list={list} />
      <Checks list={list} />
      {library === undefined
        ? list.error.value === undefined && <p class="muted loading" role="status">Loading</p>
        : <Files list={list} library={library} />}
    </>
  );
}

function Problems({ library: { folders, truncated } }: { library: MediaLibrary }): JSX.Element {
  return (
    <>
      {folders.map(({ path, problem }) =>
        problem !== null && (
          <Banner key={path} kind="warn" title={`The folder ${path} is left out: ${problem}`} />
        )
      )}
      {truncated && <Banner kind="warn" title="Not all files are listed" />}
    </>
  );
}

/** Milliseconds after the last event about an arrival, after which it counts as ended. */
const ARRIVAL_MS_MAX = 30_000;

/** Downloads, and uploads of other callers. */
function Arrivals({ list }: { list: OpenLibrary }): JSX.Element | null {
  const own = new Set(uploads.value.filter(isUnderWay).map(({ name }) => name));
  const shown = list.arrivals.value.filter(({ name, seenMs }) =>
    !own.has(name) && clock.value - seenMs < ARRIVAL_MS_MAX
  );
  if (shown.length === 0) return null;
  return (
    <section class="upload-lines" aria-label="Transfers in progress">
      <ul>
        {shown.map(({ name, change, done, size }) => (
          <li key={name} class="upload-line">
            <span class="upload-name" title={name}>{name}</span>
            <Progress done={done} total={size ?? undefined} label={`${ARRIVING[change]} ${name}`} />
            <span class="upload-text number">
              {ARRIVING[change]}: {bytesText(done)}
              {size === null ? "" : ` of ${bytesText(size)}`}
            </span>
          </li>
        ))}
      </ul>
    </section>
  );
}

/** Files that are being hashed, or were since the page was opened. */
function Checks({ list }: { list: OpenLibrary }): JSX.Element | null {
  const checks = list.checks.value;
  if (checks.length === 0) return null;
  return (
    <section class="upload-lines" aria-label="Verified files">
      <ul>
        {checks.map(({ name, job_uuid, state, error }) => (
          <li key={job_uuid} class="upload-line">
            <span class="upload-name" title={name}>{name}</span>
            <Badge state={state} />
            <span class={error === null ? "upload-text" : "upload-text step-error wrap"}>
              {error ?? (state === "succeeded" ? "Read again and verified" : "Reading")}
            </span>
            <a href={`/ui/jobs/${job_uuid}`}>Job</a>
            <Button
              kind="quiet"
              label={`Dismiss ${name}`}
              onClick={() => list.dismiss(job_uuid)}
            >
              Hide
            </Button>
          </li>
        ))}
      </ul>
    </section>
  );
}

function Files({ list, library }: { list: OpenLibrary; library: MediaLibrary }): JSX.Element {
  const asked = useSignal<{ file: LibraryFile; action: FileAction } | undefined>(undefined);
  const search = searchText();
  if (library.files.length === 0) return <NoFiles />;
  const text = search.trim().toLowerCase();
  const rows = library.files.filter((file) => hasText(file, text));
  return (
    <>
      <form class="filter" role="search" onSubmit={(event) => event.preventDefault()}>
        <SearchField placeholder="Search name, kind, digest, folder" />
        {search !== "" && (
          <Button kind="quiet" onClick={() => setQuery({ search: null })}>Clear</Button>
        )}
        <CacheRoom library={library} />
      </form>
      {rows.length === 0
        ? (
          <Empty title="No files match this search">
            <p>
              <a href="/ui/library">Show all files</a>
            </p>
          </Empty>
        )
        : (
          <Rows
            label="Files"
            name={mayChange() ? "library-table library-table-actions" : "library-table"}
            columns={mayChange() ? COLUMNS : COLUMNS.filter(({ key }) => key !== "actions")}
            rows={rows}
            keyOf={({ place, path }) => `${place} ${path}`}
            cellsOf={(file) => cellsOf(file, (action) => asked.value = { file, action })}
            onEnd={() => {}}
          />
        )}
      <p class="rows-end" role="status">
        {rows.length.toLocaleString("en")} {rows.length === 1 ? "file" : "files"},{" "}
        {bytesText(rows.reduce((sum, { size }) => sum + size, 0))}
      </p>
      {asked.value !== undefined && (
        <FileDialog
          key={`${asked.value.action} ${asked.value.file.path}`}
          {...asked.value}
          list={list}
          onClose={() => asked.value = undefined}
        />
      )}
    </>
  );
}

function NoFiles(): JSX.Element {
  return (
    <Empty
      title="The library has no files"
      command={cliOf(["media", "upload", "installer.iso"])}
    >
      <p class="muted">
        {mayChange() ? "Drop one above, or upload it from a terminal:" : "From a terminal:"}
      </p>
    </Empty>
  );
}

function CacheRoom({ library: { cache } }: { library: MediaLibrary }): JSX.Element {
  const { bytes, bytes_max } = cache;
  const text = `Cache: ${bytesText(bytes)}${
    bytes_max === null ? "" : ` of ${bytesText(bytes_max)}`
  }`;
  return (
    <div class="cache-room muted">
      <span class="number">{text}</span>
      {bytes_max !== null && <Progress done={bytes} total={bytes_max} label={text} />}
    </div>
  );
}

function hasText({ name, kind, digest, path }: LibraryFile, text: string): boolean {
  return [name, kind, digest, path].some((one) => one?.toLowerCase().includes(text) ?? false);
}

const COLUMNS = [
  { key: "file", title: "File" },
  { key: "size", title: "Size" },
  { key: "kind", title: "Kind" },
  { key: "digest", title: "Digest" },
  { key: "where", title: "Where" },
  { key: "actions", title: <span class="sr-only">Actions</span> },
] as const;

function cellsOf(
  file: LibraryFile,
  onAsk: (action: FileAction) => void,
): Record<string, JSX.Element | string | null> {
  const { name, size, digest, used_by, path } = file;
  return {
    file: <strong title={name}>{name}</strong>,
    size: <span class="number" title={`${size.toLocaleString("en")} bytes`}>{bytesText(size)}
    </span>,
    kind: <Kind file={file} />,
    digest: digest === null
      ? <span class="muted">not computed</span>
      : (
        <Copy text={digest} label={`digest of ${name}`}>
          <code>{digest.replace("sha256:", "").slice(0, DIGEST_CHARS)}</code>
        </Copy>
      ),
    where: (
      <span class="muted" title={path}>
        {used_by.length > 0 && (
          <>
            used by {used_by.map((uuid) => (
              <a key={uuid} href={`/ui/jobs/${uuid}`}>
                <code>{shortUuid(uuid)}</code>
              </a>
            ))},{" "}
          </>
        )}
        {whereText(file)}
      </span>
    ),
    actions: <FileActions file={file} onAsk={onAsk} />,
  };
}

function Kind({ file: { kind, problem, boot_record } }: { file: LibraryFile }): JSX.Element {
  const text = kind === "iso" ? "ISO" : kind;
  if (problem !== null) {
    return <span class="kind-problem" title={problem}>{text}: no machine boots it</span>;
  }
  return boot_record === false
    ? <span class="kind-problem" title="No El Torito boot record">{text}, may not boot</span>
    : <span>{text}</span>;
}

function whereText({ place, folder }: LibraryFile): string {
  if (place === "cache") return "cache";
  return place === "upload" ? "uploads" : folder ?? "";
}

type FileAction = "verify" | "remove";

/**
 * The actions on a file; none for a read-only caller. The operator's own files are never removed.
 */
function FileActions(
  { file, onAsk }: { file: LibraryFile; onAsk: (action: FileAction) => void },
): JSX.Element | null {
  if (!mayChange()) return null;
  const { name, place, used_by } = file;
  return (
    <div class="file-actions">
      {isBootable(file) && (
        <a
          class="button button-plain"
          href={`/ui/new?${new URLSearchParams({ path: mediumPathOf(file) })}`}
          aria-label={`New machine from ${name}`}
        >
          New machine
        </a>
      )}
      <Button label={`Verify ${name}`} onClick={() => onAsk("verify")}>Verify…</Button>
      {place !== "folder" && (
        <Button
          kind="danger"
          label={used_by.length > 0 ? `${name} cannot be removed: a job uses it` : `Remove ${name}`}
          disabled={used_by.length > 0}
          onClick={() => onAsk("remove")}
        >
          Remove…
        </Button>
      )}
    </div>
  );
}

interface FileDialogProps {
  readonly file: LibraryFile;
  readonly action: FileAction;
  readonly list: OpenLibrary;
  readonly onClose: () => void;
}

function FileDialog({ file, action, list, onClose }: FileDialogProps): JSX.Element {
  const { name, digest, path, size } = file;
  if (action === "verify") {
    return (
      <Dialog
        title={`Verify ${name}?`}
        verb={`Verify ${name}`}
        curl={curlOf(checkCallOf(file))}
        cli={cliOf(digest === null ? ["media", "add", path] : ["media", "verify", digest])}
        onConfirm={() => list.check(file)}
        onClose={onClose}
      >
        <p class="muted">{verifyNote(file)}</p>
      </Dialog>
    );
  }
  const call = removalOf(file);
  return (
    <Dialog
      title={`Remove ${name}?`}
      verb={`Remove ${name}`}
      danger
      curl={curlOf(call)}
      cli={cliOf(["media", "rm", file.place === "cache" ? digest ?? name : name])}
      onConfirm={async () => {
        await send(call);
        announce(`${name} is removed`);
        list.again();
      }}
      onClose={onClose}
    >
      <p class="wrap">{path}</p>
      <p class="muted">{removalNote(file, size)}</p>
    </Dialog>
  );
}

function verifyNote({ digest, size, place }: LibraryFile): string {
  const read = `A job reads all ${bytesText(size)}`;
  if (digest === null) return `${read} and keeps the digest.`;
  return place === "cache"
    ? `${read} and compares the digest. A damaged file is removed, and downloaded again when it is needed.`
    : `${read} and compares the digest.`;
}

function removalNote({ place }: LibraryFile, size: number): string {
  const freed = `${bytesText(size)} become free.`;
  return place === "cache"
    ? `${freed} It is downloaded again when it is needed.`
    : `${freed} The agent has no other copy. Machines keep what is in their zones.`;
}

function removalOf({ place, digest, name }: LibraryFile): Call {
  return place === "cache" && digest !== null
    ? { method: "DELETE", path: `/agent/v1/media/${digest}` }
    : { method: "DELETE", path: libraryPath(name) };
}
