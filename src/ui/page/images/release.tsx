// A release of the index: its builds, newest first, with their artifacts.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { cliOf, curlOf } from "../../client/curl.ts";
import { Button, Copy } from "../../part/controls.tsx";
import { Banner, Empty } from "../../part/message.tsx";
import { Badge, bytesText, DIGEST_CHARS, isThere, Progress } from "../../part/shown.tsx";
import { announce, nameTab } from "../../browser/tab.ts";
import type { PageProps } from "../../browser/route.ts";
import { Aliases, EndOfLife } from "./images.tsx";
import {
  artifactNameOf,
  artifactText,
  checkOf,
  type Image,
  isBootable,
  machineLinkOf,
  openImageList,
  openIndexView,
} from "./index_view.ts";
import { useSignal } from "@preact/signals";
import { type Call, mayChange, send } from "../../client/client.ts";
import { follow } from "../../client/events.ts";
import type { Schemas } from "../../client/schema.ts";
import { Dialog } from "../../part/dialog.tsx";
import { progressText } from "../job/log.tsx";

/** Characters of a date, whatever time of day the vendor has written behind it. */
const DATE_CHARS = 10;

/** The builds of a release. */
export function ReleasePage({ params }: PageProps): JSX.Element {
  const { distro = "", release = "" } = params;
  const list = useMemo(() => openImageList({ distro, release }), []);
  const index = useMemo(openIndexView, []);
  useEffect(() => () => {
    list.close();
    index.close();
  }, []);
  const found = index.distros.value?.find(({ id }) => id === distro);
  const about = found?.releases.find(({ id, aliases }) =>
    id === release || aliases?.includes(release)
  );
  const title = about?.title ?? `${found?.name ?? distro} ${release}`;
  useEffect(() => nameTab(title), [title]);
  const images = list.images.value;
  const error = list.error.value ?? index.error.value;
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
      {images !== undefined && <Builds images={images} />}
      {list.more.value && <Button onClick={list.further}>Show older builds</Button>}
    </>
  );
}

function Builds({ images }: { images: readonly Image[] }): JSX.Element {
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
                <ArtifactCard key={JSON.stringify(image.artifact)} image={image} />
              ))}
            </ul>
          </section>
        );
      })}
    </>
  );
}

// One artifact: what it is, its digest, how far it can be verified, and what can be done with it.

/** How far a download is verified, in words. */
const CHECKS: Readonly<Record<string, string>> = {
  none: "no digest is known",
  index: "checked by the digest of the index",
  vendor: "checked by the vendor's checksum document",
  signature: "checked by the vendor's signature, with a key of the host",
};

/** An artifact with its actions. */
function ArtifactCard({ image }: { image: Image }): JSX.Element {
  const asks = useSignal(false);
  const job = useSignal<string | undefined>(undefined);
  const { arch, format, compression, variant, size, firmware = [], integrity } = image.artifact;
  const digest = integrity?.digests?.at(-1);
  const check = checkOf(image);
  return (
    <li class="card artifact">
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
          <Copy text={image.url} label="address">
            copy address
          </Copy>
        )}
      </p>
      {mayChange() && (
        <div class="actions">
          {isBootable(image) && (
            <a class="button button-primary" href={machineLinkOf(image)}>Make a machine of it</a>
          )}
          <Button disabled={job.value !== undefined} onClick={() => asks.value = true}>
            Download…
          </Button>
        </div>
      )}
      {job.value !== undefined && <Download uuid={job.value} onEnd={() => job.value = undefined} />}
      {asks.value && (
        <DownloadDialog
          image={image}
          onStarted={(uuid) => job.value = uuid}
          onClose={() => asks.value = false}
        />
      )}
    </li>
  );
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
      title={`Download ${artifactText(artifact)}?`}
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
        A job fetches it into the cache of this host and verifies it: {CHECKS[checkOf(image)]}.
      </p>
    </Dialog>
  );
}

/** How far a download is. It stays in sight when it has ended, until another begins. */
function Download({ uuid, onEnd }: { uuid: string; onEnd: () => void }): JSX.Element {
  const job = useSignal<Schemas["JobSummary"] | undefined>(undefined);
  const progress = useSignal<Schemas["LogLine"]["progress"]>(null);
  useEffect(() =>
    // From its first event on: the job is younger than the stream may be.
    follow(`job=${uuid}&kind=job,log&last_event_id=0`, {
      load: () => {},
      job: (event) => {
        if (event.job !== null) job.value = event.job;
      },
      log: ({ line }) => {
        if (isThere(line?.progress)) progress.value = line.progress;
      },
    }), [uuid]);
  const state = job.value?.state ?? "queued";
  const { done, total } = progress.value ?? {};
  return (
    <div class="download" role="status">
      <p>
        <Badge state={state} /> <a href={`/ui/jobs/${uuid}`}>the job</a>{" "}
        <span class="muted number">{state === "running" && progressText(progress.value)}</span>
        {isThere(job.value?.error) && <span class="step-error wrap">{job.value.error}</span>}
      </p>
      {!isThere(job.value?.finished_at)
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
