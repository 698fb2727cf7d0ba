// What a machine boots from: a file of the library, an image of the index, an address, or a file that is uploaded
// here.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef } from "preact/hooks";
import { cliOf, read, wordsOf } from "../../client/client.ts";
import type { Schemas } from "../../client/schema.ts";
import { Banner, Command } from "../../part/controls.tsx";
import { bytesText } from "../../part/shown.tsx";
import { UploadBox, UploadLines } from "../../part/upload.tsx";
import { isUnderWay, type Upload } from "../../client/uploads.ts";
import { artifactNameOf } from "../images/index_view.ts";
import {
  isBootable,
  mediumPathOf,
  type OpenLibrary,
  openLibrary,
} from "../library/library_list.ts";
import { type Draft, fieldText, type JsonObject, objectsAt, valueAt } from "./draft.ts";
import { ChoiceField, type FormContext, idOf, TextField } from "./field.tsx";

/** The ways to name a medium. */
type Way = "library" | "upload" | "index" | "url";

const WAYS: Readonly<Record<Way, string>> = {
  library: "From the library",
  upload: "Upload a file",
  index: "From the index",
  url: "From a URL",
};

/** The way that a request uses; undefined while it names no medium. */
function wayOf(media: unknown): Way | undefined {
  if (valueAt(media, ["artifact"]) !== undefined) return "index";
  if (valueAt(media, ["url"]) !== undefined) return "url";
  return valueAt(media, ["path"]) === undefined ? undefined : "library";
}

/** The medium of a request. */
export function MediumFields({ form }: { form: FormContext }): JSX.Element {
  const { draft } = form;
  const media = valueAt(draft.request.value, ["media"]);
  const chosen = useSignal<Way>("library");
  // Switching to another way and back keeps the medium.
  const before = useRef<Partial<Record<Way, unknown>>>({});
  const list = useMemo(openLibrary, []);
  useEffect(() => () => list.close(), [list]);
  const named = wayOf(media);
  const way = chosen.value === "upload" ? "upload" : named ?? chosen.value;
  const choose = (next: Way) => {
    if (named !== undefined) before.current[named] = media;
    chosen.value = next;
    if (next === "upload" || next === named) return;
    const kept = before.current[next];
    draft.set(["media"], kept ?? (next === "url" ? { url: "", digest: "" } : undefined));
  };
  const uploaded = (name: string) => {
    chosen.value = "library";
    draft.set(["media"], { path: name });
  };
  const error = form.errors.get("media");
  return (
    <fieldset id={idOf("media")} tabIndex={-1}>
      <legend>Medium</legend>
      <div class="choices" role="radiogroup" aria-label="Where the medium comes from">
        {Object.entries(WAYS).map(([key, text]) => (
          <label key={key} class="check">
            <input
              type="radio"
              name="way"
              checked={way === key}
              // The keys are those of the ways.
              onChange={() => choose(key as Way)}
            />
            <span>{text}</span>
          </label>
        ))}
      </div>
      {way === "library" && <LibraryMedium form={form} list={list} />}
      {way === "upload" && <UploadMedium list={list} onArrived={uploaded} />}
      {way === "index" && <IndexMedium draft={draft} />}
      {way === "url" && <UrlMedium form={form} />}
      {error !== undefined && <p class="field-error">{error}</p>}
      <ChoiceField
        form={form}
        path={["boot"]}
        label="Attached as"
        words={["cd", "disk"]}
        none="CD or disk, as its name says"
      />
    </fieldset>
  );
}

function LibraryMedium({ form, list }: { form: FormContext; list: OpenLibrary }): JSX.Element {
  const { draft } = form;
  const library = list.library.value;
  const path = fieldText(valueAt(draft.request.value, ["media", "path"]));
  if (list.error.value !== undefined) return <Banner kind="bad" title={list.error.value} />;
  if (library === undefined) return <p class="muted" role="status">Loading</p>;
  const files = library.files.filter(isBootable).toSorted(newestFirst);
  if (files.length === 0 && path === "") {
    return (
      <div>
        <p class="muted">The library has no bootable file. Upload one here, or:</p>
        <Command text={cliOf(["media", "upload", "installer.iso"])} label="command" />
      </div>
    );
  }
  const known = files.some((file) => mediumPathOf(file) === path);
  const error = form.errors.get("media.path");
  const id = idOf("media.path");
  return (
    <div class="field">
      <label for={id}>File</label>
      <select
        id={id}
        value={path}
        aria-invalid={error !== undefined}
        aria-describedby={error === undefined ? undefined : `${id}-error`}
        onChange={({ currentTarget: { value } }) =>
          draft.set(["media"], value === "" ? undefined : { path: value })}
      >
        {path === "" && <option value="">Choose a file</option>}
        {path !== "" && !known && <option value={path}>{path} (not in the library)</option>}
        {files.map((file) => (
          <option key={file.path} value={mediumPathOf(file)}>
            {mediumPathOf(file)}, {bytesText(file.size)}
          </option>
        ))}
      </select>
      {error !== undefined && <p id={`${id}-error`} class="field-error">{error}</p>}
    </div>
  );
}

function newestFirst(
  a: Pick<Schemas["LibraryFile"], "modified_at">,
  b: Pick<Schemas["LibraryFile"], "modified_at">,
): number {
  return (b.modified_at ?? "").localeCompare(a.modified_at ?? "");
}

function UploadMedium(
  { list, onArrived }: { list: OpenLibrary; onArrived: (name: string) => void },
): JSX.Element {
  const upload = useSignal<Upload | undefined>(undefined);
  const state = upload.value?.state.value;
  useEffect(() => {
    if (state?.kind === "done") onArrived(state.file.name);
  }, [state?.kind]);
  return (
    <div class="upload-part">
      {(upload.value === undefined || !isUnderWay(upload.value)) && (
        <UploadBox
          files={list.library.value?.files ?? []}
          many={false}
          onStart={(begun) => upload.value = begun}
        />
      )}
      <UploadLines />
    </div>
  );
}

/** Bootable images, newest first. */
type BootImages = readonly Schemas["ImagePage"]["images"][number][];

const FORMATS = ["iso", "img", "raw"] as const;
/** Images of one format that are read; the page of images has a search for the others. */
const IMAGES_PER_FORMAT = 1_000;

async function readImages(signal: AbortSignal): Promise<BootImages> {
  const pages = await Promise.all(FORMATS.map((format) => {
    const query = `newest=true&arch=x86_64&format=${format}&limit=${IMAGES_PER_FORMAT}`;
    return read("GET /agent/v1/images", `/agent/v1/images?${query}`, signal);
  }));
  return pages.flatMap(({ images }) => images)
    .toSorted((a, b) => (b.published_at ?? "").localeCompare(a.published_at ?? ""));
}

function IndexMedium({ draft }: { draft: Draft }): JSX.Element {
  const images = useSignal<BootImages | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  const search = useSignal("");
  useEffect(() => {
    const closing = new AbortController();
    readImages(closing.signal).then(
      (found) => images.value = found,
      (failure) => {
        if (!closing.signal.aborted) error.value = wordsOf(failure);
      },
    );
    return () => closing.abort();
  }, []);
  if (error.value !== undefined) return <Banner kind="bad" title={error.value} />;
  if (images.value === undefined) return <p class="muted" role="status">Loading</p>;
  if (images.value.length === 0) {
    return (
      <div>
        <p class="muted">The index has no bootable image. Bring it up to date:</p>
        <Command text={cliOf(["image", "sync", "--wait"])} label="command" />
      </div>
    );
  }
  return <ImageChoice draft={draft} images={images.value} search={search} />;
}

function ImageChoice(
  { draft, images, search }: {
    draft: Draft;
    images: BootImages;
    search: { value: string };
  },
): JSX.Element {
  const artifact = valueAt(draft.request.value, ["media", "artifact"]);
  const text = search.value.trim().toLowerCase();
  const at = images.findIndex((image) => isNamed(artifact, image));
  const found = [...images.entries()].filter(([place, image]) =>
    place === at || imageText(image).toLowerCase().includes(text)
  );
  const other = artifact !== undefined && at === -1;
  const id = idOf("media.artifact");
  return (
    <div class="image-choice">
      <div class="field">
        <label for={`${id}-search`}>Search</label>
        <input
          id={`${id}-search`}
          type="search"
          placeholder="debian 13"
          value={search.value}
          onInput={({ currentTarget }) => search.value = currentTarget.value}
        />
      </div>
      <div class="field">
        <label for={id}>Image, newest first</label>
        <select
          id={id}
          value={other ? "other" : String(at)}
          onChange={({ currentTarget: { value } }) => {
            const image = images[Number(value)];
            if (image !== undefined) draft.set(["media"], { artifact: artifactNameOf(image) });
          }}
        >
          {other && <option value="other">{Object.values(artifact ?? {}).join(" ")}</option>}
          {artifact === undefined && <option value="-1">Choose one of {found.length}</option>}
          {found.map(([place, image]) => (
            <option key={place} value={String(place)}>{imageText(image)}</option>
          ))}
        </select>
      </div>
    </div>
  );
}

/** Whether the artifact of a request is this image; the request may name the release by an alias. */
function isNamed(artifact: unknown, image: BootImages[number]): boolean {
  const [named] = objectsAt([artifact], []);
  if (named === undefined) return false;
  const wanted: JsonObject = artifactNameOf(image);
  return Object.entries(named).every(([name, value]) =>
    wanted[name] === value || (name === "release" && image.aliases.some((alias) => alias === value))
  );
}

/** Characters of a day: `2026-11-02`. */
const DAY_CHARS = 10;

function imageText(image: BootImages[number]): string {
  const { distro, release, aliases, build, artifact, published_at } = image;
  const names = aliases.length === 0 ? "" : ` (${aliases.join(", ")})`;
  const size = artifact.size ?? null;
  const facts = [
    build,
    artifact.variant,
    artifact.format,
    size === null ? null : bytesText(size),
    published_at?.slice(0, DAY_CHARS),
  ];
  const known = facts.filter((fact) => fact !== null && fact !== undefined && fact !== "");
  return `${distro} ${release}${names}, ${known.join(", ")}`;
}

function UrlMedium({ form }: { form: FormContext }): JSX.Element {
  return (
    <>
      <TextField
        form={form}
        path={["media", "url"]}
        label="URL"
        placeholder="https://images.example.com/installer.iso"
      />
      <TextField
        form={form}
        path={["media", "digest"]}
        label="Digest"
        placeholder="sha256:…"
        hint="The vendor publishes it beside the file. A file that differs is refused."
      />
      <ChoiceField
        form={form}
        path={["media", "compression"]}
        label="Compressed with"
        words={["gzip", "xz", "zstd", "bzip2"]}
        none="not compressed"
      />
    </>
  );
}
