// Uploads: a place to drop or choose files, and the progress of each.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { type Call, cliOf, curlOf, mayChange } from "../client/client.ts";
import {
  BOOT_ENDINGS,
  clearUploads,
  isUnderWay,
  type LibraryFile,
  libraryPath,
  startUpload,
  type Upload,
  uploadName,
  uploadProblem,
  uploads,
} from "../client/uploads.ts";
import { Banner, Button, Dialog, Terminal } from "./controls.tsx";
import { bytesText, Progress, spanText } from "./shown.tsx";

interface UploadBoxProps {
  /** Files whose names are already used. */
  readonly files: readonly Pick<LibraryFile, "name" | "place">[];
  /** Whether several files may be given at once. */
  readonly many: boolean;
  /** Called for each upload that was begun. */
  readonly onStart?: (upload: Upload) => void;
}

/** Accepts files for the library; nothing for a read-only caller. */
export function UploadBox({ files, many, onStart }: UploadBoxProps): JSX.Element | null {
  const problems = useSignal<readonly string[]>([]);
  const taken = useSignal<readonly File[]>([]);
  if (!mayChange()) return null;
  const begin = (file: File, replace: boolean) => {
    const upload = startUpload(file, replace);
    onStart?.(upload);
  };
  const take = (given: readonly File[]) => {
    const found = many ? given : given.slice(0, 1);
    problems.value = found.flatMap((file) => problemOf(file, files) ?? []);
    const right = found.filter((file) => problemOf(file, files) === undefined);
    taken.value = right.filter((file) => isTaken(file, files));
    for (const file of right) if (!isTaken(file, files)) begin(file, false);
  };
  const [asked] = taken.value;
  return (
    <>
      <Drop many={many} onFiles={take} />
      {problems.value.length > 0 && (
        <div role="alert">
          {problems.value.map((problem) => <Banner key={problem} kind="bad" title={problem} />)}
        </div>
      )}
      {asked !== undefined && (
        <ReplaceDialog
          key={asked.name}
          file={asked}
          onConfirm={() => begin(asked, true)}
          onClose={() => taken.value = taken.value.slice(1)}
        />
      )}
    </>
  );
}

/** Where files are dropped, or chosen with the keyboard. */
function Drop(
  { many, onFiles }: { many: boolean; onFiles: (files: readonly File[]) => void },
): JSX.Element {
  const over = useSignal(false);
  return (
    <label
      class={over.value ? "drop drop-over" : "drop"}
      onDragOver={(event) => {
        event.preventDefault();
        over.value = true;
      }}
      onDragLeave={() => over.value = false}
      onDrop={(event) => {
        event.preventDefault();
        over.value = false;
        onFiles([...event.dataTransfer?.files ?? []]);
      }}
    >
      <input
        type="file"
        class="sr-only"
        multiple={many}
        accept={BOOT_ENDINGS.join(",")}
        onChange={({ currentTarget }) => {
          onFiles([...currentTarget.files ?? []]);
          // Allows the same file to be chosen again.
          currentTarget.value = "";
        }}
      />
      <span class="button button-plain">{many ? "Upload files" : "Upload a file"}</span>
      <span class="muted">or drop {many ? "them" : "it"} here: .iso, .img, .raw</span>
    </label>
  );
}

function isTaken(file: File, files: UploadBoxProps["files"]): boolean {
  return files.some(({ name, place }) => place === "upload" && name === uploadName(file));
}

function problemOf(file: File, files: UploadBoxProps["files"]): string | undefined {
  const name = uploadName(file);
  if (uploads.value.some((upload) => upload.name === name && isUnderWay(upload))) {
    return `${name} is on its way already`;
  }
  const own = files.some((one) => one.place === "folder" && one.name === name);
  return own
    ? `${name} is in a media folder of the operator: give the file another name`
    : uploadProblem(file);
}

interface ReplaceDialogProps {
  readonly file: File;
  readonly onConfirm: () => void;
  readonly onClose: () => void;
}

function ReplaceDialog({ file, onConfirm, onClose }: ReplaceDialogProps): JSX.Element {
  const name = uploadName(file);
  return (
    <Dialog
      title={`Replace ${name}?`}
      verb={`Replace ${name}`}
      danger
      curl={uploadCurl(file.name, `${libraryPath(name)}?replace=true`)}
      cli={cliOf(["media", "upload", file.name, "--replace"])}
      onConfirm={() => Promise.resolve(onConfirm())}
      onClose={onClose}
    >
      <p class="muted">
        The library already has a file of this name. It is kept until the new one is complete.
      </p>
    </Dialog>
  );
}

/** The upload of a file as a curl command. */
function uploadCurl(file: string, path: Call["path"]): string {
  return curlOf({ method: "PUT", path, file });
}

/** How to upload from a terminal. */
export function UploadCommands(): JSX.Element {
  return (
    <Terminal
      cli={cliOf(["media", "upload", "installer.iso"])}
      curl={uploadCurl("installer.iso", libraryPath("installer.iso"))}
    />
  );
}

/** The uploads since the page was opened; nothing without any. */
export function UploadLines(): JSX.Element | null {
  const all = uploads.value;
  if (all.length === 0) return null;
  return (
    <section class="upload-lines" aria-label="Uploads">
      <ul>{all.map((upload) => <UploadLine key={upload.name} upload={upload} />)}</ul>
      {!all.some(isUnderWay) && <Button kind="quiet" onClick={clearUploads}>Clear the list</Button>}
    </section>
  );
}

/** One upload with the actions on it. */
function UploadLine({ upload }: { upload: Upload }): JSX.Element {
  const state = upload.state.value;
  const sent = state.kind === "sending" || state.kind === "cut" ? state.sent : 0;
  return (
    <li class={`upload-line upload-${state.kind}`}>
      <span class="upload-name" title={upload.name}>{upload.name}</span>
      {isUnderWay(upload) && (
        <Progress
          done={sent}
          total={state.kind === "checking" ? undefined : upload.total}
          label={`Upload of ${upload.name}`}
        />
      )}
      <span class="upload-text wrap number">{textOf(upload)}</span>
      {isUnderWay(upload) && (
        <Button kind="quiet" label={`Cancel the upload of ${upload.name}`} onClick={upload.cancel}>
          Cancel
        </Button>
      )}
    </li>
  );
}

function textOf({ total, state: { value: state } }: Upload): string {
  switch (state.kind) {
    case "queued":
      return `${bytesText(total)}, waits for the one before`;
    case "sending": {
      const { sent, bytesPerSecond } = state;
      const how = bytesPerSecond === 0
        ? ""
        : `, ${spanText((total - sent) / bytesPerSecond)} to go at ${bytesText(bytesPerSecond)}/s`;
      return `${bytesText(sent)} of ${bytesText(total)}${how}`;
    }
    case "checking":
      return `${bytesText(total)} sent; the agent computes the digest`;
    case "cut":
      return `${state.why} at ${bytesText(state.sent)} of ${
        bytesText(total)
      }. It continues automatically`;
    case "done":
      return `Uploaded, ${bytesText(total)}`;
    case "failed":
      return state.why;
    case "canceled":
      return "Canceled";
  }
}
