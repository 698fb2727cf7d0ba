// What can be done about a file of the library. The operator's own files are never removed.

import type { JSX } from "preact";
import { type Call, cliOf, curlOf, mayChange, send } from "../../client/client.ts";
import { Button } from "../../part/controls.tsx";
import { Dialog } from "../../part/dialog.tsx";
import { bytesText } from "../../part/shown.tsx";
import { announce } from "../../browser.ts";
import { type LibraryFile, libraryPath } from "../../client/uploads.ts";
import { checkCallOf, isBootable, mediumPathOf, type OpenLibrary } from "./library_list.ts";

/** Actions that are confirmed in a dialog first. */
export type FileAction = "verify" | "remove";

/** The actions of a file; none for a caller who may only read. */
export function FileActions(
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
          aria-label={`New machine of ${name}`}
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

/** The question before something is done to a file. */
export function FileDialog({ file, action, list, onClose }: FileDialogProps): JSX.Element {
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
