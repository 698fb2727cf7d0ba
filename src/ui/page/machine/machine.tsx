// One machine: its properties, its current job, its screen, and the jobs about it.

import type { JSX } from "preact";
import { useEffect, useMemo } from "preact/hooks";
import type { Schemas } from "../../client/schema.ts";
import { Banner, Button } from "../../part/controls.tsx";
import { Disks, mibText, Nics } from "../../part/device.tsx";
import { HostFact } from "../../part/hosts.tsx";
import { JobLines, MachineBadge, REASONS, Time, Uuid } from "../../part/shown.tsx";
import { nameTab, type PageProps, useStateAnnounced } from "../../browser.ts";
import { Actions, nameOf } from "./actions.tsx";
import { Console } from "./console.tsx";
import { currentJob, type MachineView, openMachineView, targetOf } from "./machine_view.ts";

/** The page of a machine, updated live. */
export function MachinePage({ params: { uuid = "" } }: PageProps): JSX.Element {
  const view = useMemo(() => openMachineView(uuid), [uuid]);
  useEffect(() => () => view.close(), [view]);
  const machine = view.machine.value;
  const error = view.error.value;
  const jobs = view.jobs.value;
  useEffect(
    () => nameTab(machine === undefined ? "Machine" : `${machine.state}: ${nameOf(machine)}`),
    [machine?.state, machine?.alias],
  );
  useStateAnnounced(machine === undefined ? "" : nameOf(machine), machine?.state);
  const job = currentJob(jobs);
  const gone = view.deleted.value || (machine?.state === "absent" && job === undefined);
  return (
    <>
      <p class="crumbs">
        <a href="/ui/machines">Machines</a>
      </p>
      {machine === undefined ? <h1>Machine</h1> : (
        <div class="page-head">
          <h1>
            {nameOf(machine)} <MachineBadge state={gone ? "gone" : machine.state} />
          </h1>
          {!gone && <Actions machine={machine} busy={job !== undefined} />}
        </div>
      )}
      {error !== undefined && (
        <Banner kind="bad" title={error}>
          <Button onClick={() => void view.again()}>Try again</Button>
        </Banner>
      )}
      {error === undefined && machine === undefined && (
        <p class="muted loading" role="status">Loading</p>
      )}
      {gone && <Banner kind="warn" title="The host no longer has this machine" />}
      {job !== undefined && <AtWork job={job} />}
      {machine !== undefined && <Facts machine={machine} />}
      {machine !== undefined && !gone && <Console machine={machine} look={view.again} />}
      {machine !== undefined && <Devices machine={machine} />}
      {jobs !== undefined && jobs.length > 0 && <Jobs uuid={uuid} jobs={jobs} />}
    </>
  );
}

/** The job that holds the machine: until it ends, no other action is accepted. */
function AtWork({ job }: { job: Schemas["JobSummary"] }): JSX.Element {
  const step = job.task?.name ?? REASONS[job.reason ?? ""] ?? "not started";
  return (
    <Banner
      kind="info"
      title={`${job.name}: ${step}, ${job.tasks_done} of ${job.tasks_total} tasks`}
    >
      <a href={`/ui/jobs/${job.uuid}`}>Watch the job</a>
    </Banner>
  );
}

function Facts({ machine }: { machine: MachineView }): JSX.Element {
  const { uuid, brand, ram, vcpus, medium, media, created_at } = machine;
  return (
    <dl class="facts">
      <div>
        <dt>Machine</dt>
        <dd>
          <Uuid uuid={uuid} of="this machine" />
        </dd>
      </div>
      <HostFact of={machine} />
      <div>
        <dt>Brand</dt>
        <dd>{brand ?? "unknown"}</dd>
      </div>
      <div>
        <dt>Size</dt>
        <dd class="number">
          {ram === null ? "?" : mibText(ram)}, {vcpus ?? "?"} {vcpus === 1 ? "vcpu" : "vcpus"}
        </dd>
      </div>
      {created_at !== null && (
        <div>
          <dt>Created</dt>
          <dd>
            <Time at={created_at} />
          </dd>
        </div>
      )}
      <div>
        <dt>Medium in the zone</dt>
        <dd class="wrap">{medium ?? "none"}</dd>
      </div>
      {media !== null && (
        <div>
          <dt>Created from</dt>
          <dd class="wrap">{mediaText(media)}</dd>
        </div>
      )}
    </dl>
  );
}

function Devices({ machine: { disks, nics } }: { machine: MachineView }): JSX.Element {
  return (
    <div class="device-parts">
      <section class="card" aria-label="Disks">
        <h2>Disks</h2>
        <Disks disks={disks} />
      </section>
      <section class="card" aria-label="Nics">
        <h2>Nics</h2>
        <Nics nics={nics} />
      </section>
    </div>
  );
}

function mediaText(media: Schemas["Media"]): string {
  if ("artifact" in media) return Object.values(media.artifact).join(" ");
  return "url" in media ? media.url : String(media.path);
}

function Jobs(
  { uuid, jobs }: { uuid: string; jobs: readonly Schemas["JobSummary"][] },
): JSX.Element {
  return (
    <section class="machine-jobs" aria-label="Jobs of this machine">
      <h2>Latest jobs</h2>
      <JobLines jobs={jobs} />
      <p>
        <a href={`/ui/jobs?target=${targetOf(uuid)}`}>All jobs of this machine</a>
      </p>
    </section>
  );
}
