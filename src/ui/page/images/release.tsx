// A release of the index: its builds, newest first, with their artifacts.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import { cliOf } from "../../client/curl.ts";
import { Button } from "../../part/controls.tsx";
import { Banner, Empty } from "../../part/message.tsx";
import { isThere } from "../../part/shown.tsx";
import { nameTab } from "../../browser/tab.ts";
import type { PageProps } from "../../browser/route.ts";
import { ArtifactCard } from "./artifact.tsx";
import { Aliases, EndOfLife } from "./images.tsx";
import { type Image, openImageList, openIndexView } from "./index_view.ts";

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
