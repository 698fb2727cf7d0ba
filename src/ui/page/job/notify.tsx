// A notification of the browser when a job has ended or waits. The browser is asked for it by a click only.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { useEffect } from "preact/hooks";
import { Button } from "../../part/controls.tsx";
import { announce } from "../../browser/tab.ts";
import type { JobView } from "./job_view.ts";

/** Whether the job has ended or waits for somebody. */
function isSettled({ state, finished_at }: JobView): boolean {
  return finished_at !== null || state === "waiting";
}

/** The button for an unfinished job; absent when the browser has no notifications. */
export function Notify({ job }: { job: JobView }): JSX.Element | null {
  const wanted = useSignal(false);
  const refused = useSignal(false);
  const settled = isSettled(job);
  useEffect(() => {
    if (!settled || !wanted.value) return;
    wanted.value = false;
    const notification = new Notification(`${job.state}: ${job.name}`, {
      body: job.error ?? "",
      tag: job.uuid,
    });
    notification.addEventListener("click", () => globalThis.focus());
  }, [settled]);
  if (settled || !("Notification" in globalThis)) return null;
  const ask = async () => {
    const answer = await Notification.requestPermission();
    wanted.value = answer === "granted";
    refused.value = answer === "denied";
    if (wanted.value) announce("The browser will notify you");
  };
  return (
    <Button disabled={wanted.value || refused.value} onClick={ask}>
      {wanted.value ? "You will be notified" : refused.value ? "The browser refuses" : "Notify me"}
    </Button>
  );
}
