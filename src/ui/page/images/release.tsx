// A release of the index: its builds, newest first, with their artifacts.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { Banner, Button, Copy, Dialog, Empty } from "../../part/controls.tsx";
import { Badge, bytesText, DIGEST_CHARS, isThere, Progress } from "../../part/shown.tsx";
import { announce, nameTab, type PageProps } from "../../browser.ts";
import { Aliases, EndOfLife } from "./images.tsx";
import {
  artifactNameOf,
  artifactText,
  checkOf,
  type Download,
  type Image,
  isBootable,
  machineLinkOf,
  openRelease,
} from "./index_view.ts";
import { useSignal } from "@preact/signals";
import { type Call, cliOf, curlOf, mayChange, send } from "../../client/client.ts";
import type { Schemas } from "../../client/schema.ts";
import { progressText } from "../job/log.tsx";

type OpenRelease = ReturnType<typeof openRelease>;

/** Characters of a date; vendors may append a time of day. */
const DATE_CHARS = 10;

/** The builds of a release. */
export function ReleasePage({ params }: PageProps): JSX.Element {
  const { distro = "", release = "" } = params;
  const view = useMemo(() => openRelease(distro, release), []);
  useEffect(() => () => view.close(), []);
  const found = view.about.value;
  const about = found?.releases.find(({ id, aliases }) =>
    id === release || aliases?.includes(release)
  );
  const title = about?.title ?? `${found?.name ?? distro} ${release}`;
  useEffect(() => nameTab(title), [title]);
  const images = view.images.value;
  const error = view.error.value;
  return (
    <>
      <p class="crumbs">
        <a href="/ui/images">Images</a>
      </p>
      <h1 class="release-head">
        {title}
        <Aliases aliases={about?.aliases} />
        <EndOfLife date={about?.eol_date} />
      </h1>
      {error !== undefined && <Banner kind="bad" title={error} />}
      {images === undefined && error === undefined && (
        <p class="muted loading" role="status">Loading</p>
      )}
      {images?.length === 0 && (
        <Empty title="The index has no such release" command={cliOf(["image", "sync", "--wait"])}>
          <p class="muted">
            <a href="/ui/images">Show all releases</a>, or bring the index up to date:
          </p>
        </Empty>
      )}
      {images !== undefined && <Builds images={images} view={view} />}
      {view.more.value && <Button onClick={view.further}>Show older builds</Button>}
    </>
  );
}

interface BuildsProps {
  readonly images: readonly Image[];
  readonly view: OpenRelease;
}

function Builds({ images, view }: BuildsProps): JSX.Element {
  const builds = [...Map.groupBy(images, ({ build }) => build)];
  return (
    <>
      {builds.map(([build, artifacts]) => {
        const { point_release, published_at, archived } = artifacts[0] as Image;
        return (
          <section key={build} class="build" aria-label={`Build ${build}`}>
            <h2>
              {build}
              <span class="muted">
                {[
                  isThere(point_release) && point_release !== build ? point_release : null,
                  published_at === null ? null : `published ${published_at.slice(0, DATE_CHARS)}`,
                  archived ? "only in the vendor's archive" : null,
                ].filter((text) => text !== null).join(", ")}
              </span>
            </h2>
            <ul class="artifacts">
              {artifacts.map((image) => (
                <ArtifactCard key={JSON.stringify(image.artifact)} image={image} view={view} />
              ))}
            </ul>
          </section>
        );
      })}
    </>
  );
}

/** How far a download is verified, in words. */
const CHECKS: Readonly<Record<string, string>> = {
  none: "It cannot be verified: no digest is known.",
  index: "It is checked against the digest in the index.",
  vendor: "It is checked against the vendor's checksum file.",
  signature: "It is checked against the vendor's signature with a key on the host.",
};

/** One artifact: what it is, its digest, how far it can be verified, and the actions on it. */
function ArtifactCard({ image, view }: { image: Image; view: OpenRelease }): JSX.Element {
  const asks = useSignal(false);
  const job = useSignal<string | undefined>(undefined);
  return (
    <li class="card artifact">
      <ArtifactFacts image={image} />
      {mayChange() && (
        <div class="actions">
          {isBootable(image) && (
            <a class="button button-primary" href={machineLinkOf(image)}>
              New machine from this image
            </a>
          )}
          <Button disabled={job.value !== undefined} onClick={() => asks.value = true}>
            Download…
          </Button>
        </div>
      )}
      {job.value !== undefined && (
        <DownloadLine
          uuid={job.value}
          job={view.downloads.value.get(job.value)}
          onEnd={() => job.value = undefined}
        />
      )}
      {asks.value && (
        <DownloadDialog
          image={image}
          onStarted={(uuid) => {
            job.value = uuid;
            view.begin(uuid);
          }}
          onClose={() => asks.value = false}
        />
      )}
    </li>
  );
}

function ArtifactFacts({ image }: { image: Image }): JSX.Element {
  const { arch, format, compression, variant, size, firmware = [], integrity } = image.artifact;
  const digest = integrity?.digests?.at(-1);
  const check = checkOf(image);
  return (
    <>
      <p class="artifact-name">
        <strong>{[variant, format].filter(isThere).join(" ")}</strong>
        {image.artifact.default_variant === true && <span class="tag">default</span>}
        <span class="muted">
          {[
            arch,
            compression === "none" ? null : compression,
            isThere(size) ? bytesText(size) : null,
            firmware.length === 0 ? null : firmware.join(" and "),
          ].filter((word) => word !== null).join(", ")}
        </span>
      </p>
      <p class="artifact-check">
        {digest !== undefined && (
          <Copy text={`${digest.algorithm}:${digest.value}`} label="digest">
            <code>{digest.algorithm}:{digest.value.slice(0, DIGEST_CHARS)}…</code>
          </Copy>
        )}
        <span class={check === "none" ? "check-none" : "muted"} title={CHECKS[check]}>
          {check === "none" ? "not verifiable" : `check: ${check}`}
        </span>
        {image.url !== null && (
          <Copy text={image.url} label="URL">
            Copy URL
          </Copy>
        )}
      </p>
    </>
  );
}

/** The title of an artifact's card. */
function titleOf({ distro, release, artifact: { variant, format } }: Image): string {
  return [distro, release, variant, format].filter(isThere).join(" ");
}

interface DownloadDialogProps {
  readonly image: Image;
  readonly onStarted: (uuid: string) => void;
  readonly onClose: () => void;
}

function DownloadDialog({ image, onStarted, onClose }: DownloadDialogProps): JSX.Element {
  const artifact = artifactNameOf(image);
  const call: Call = { method: "POST", path: "/agent/v1/media", body: { artifact } };
  const { size } = image.artifact;
  return (
    <Dialog
      title={`Download ${titleOf(image)}?`}
      verb={isThere(size) ? `Download ${bytesText(size)}` : "Download"}
      curl={curlOf(call)}
      cli={cliOf(["media", "add", artifactText(artifact), "--follow"])}
      onConfirm={async () => {
        const { job_uuid } = await send(call) as Schemas["MediumStarted"];
        announce("A job downloads it");
        onStarted(job_uuid);
      }}
      onClose={onClose}
    >
      <p class="muted">
        A job downloads it into the cache of this host. {CHECKS[checkOf(image)]}
      </p>
    </Dialog>
  );
}

interface DownloadLineProps {
  readonly uuid: string;
  /** Undefined until it was read. */
  readonly job: Download | undefined;
  readonly onEnd: () => void;
}

/** The progress of a download. It stays visible after the end, until it is closed. */
function DownloadLine({ uuid, job, onEnd }: DownloadLineProps): JSX.Element {
  const { state, progress, error, finished_at } = job ??
    { state: "queued", progress: null, error: null, finished_at: null } as const;
  const { done, total } = progress ?? {};
  return (
    <div class="download" role="status">
      <p>
        <Badge state={state} /> <a href={`/ui/jobs/${uuid}`}>Job</a>{" "}
        <span class="muted number">{state === "running" && progressText(progress)}</span>
        {state === "succeeded" && (
          <>
            It is in the cache of the <a href="/ui/library">library</a>.
          </>
        )}
        {error !== null && <span class="step-error wrap">{error}</span>}
      </p>
      {finished_at === null
        ? (
          <Progress
            done={Number(done ?? 0)}
            total={typeof total === "number" ? total : undefined}
            label="Download"
          />
        )
        : <Button kind="quiet" onClick={onEnd}>Close</Button>}
    </div>
  );
}
