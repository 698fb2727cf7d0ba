// The doctor's findings, on request only: it starts programs and reads the whole database.

import { useSignal } from "@preact/signals";
import type { JSX } from "preact";
import { type Call, read, wordsOf } from "../../client/client.ts";
import { cliOf, curlOf } from "../../client/curl.ts";
import type { Answers } from "../../client/schema.ts";
import { Button, Copy } from "../../part/controls.tsx";
import { Terminal } from "../../part/dialog.tsx";
import { Banner } from "../../part/message.tsx";
import { Time } from "../../part/shown.tsx";
import { announce } from "../../browser/tab.ts";

/** On the agent's host: a running agent is asked to repair nothing. */
const FIX_COMMAND = "zonewright doctor --fix";

const CALL: Call = { method: "GET", path: "/agent/v1/doctor" };

type Findings = Answers["GET /agent/v1/doctor"];

/** How a finding looks, and its place in the list: what is broken comes first. */
const OUTCOMES = [
  { outcome: "fail", state: "failed" },
  { outcome: "warn", state: "waiting" },
  { outcome: "ok", state: "succeeded" },
  { outcome: "skipped", state: "canceled" },
] as const;

/** The button, and what was found. */
export function Doctor(): JSX.Element {
  const findings = useSignal<Findings | undefined>(undefined);
  const error = useSignal<string | undefined>(undefined);
  const busy = useSignal(false);
  const examine = async () => {
    busy.value = true;
    error.value = undefined;
    try {
      findings.value = await read("GET /agent/v1/doctor", "/agent/v1/doctor");
      announce("The doctor is done");
    } catch (failure) {
      error.value = wordsOf(failure);
    }
    busy.value = false;
  };
  return (
    <section class="system-part" aria-label="Doctor">
      <div class="page-head">
        <h2>Doctor</h2>
        <Button disabled={busy.value} onClick={examine}>
          {busy.value ? "Examining" : "Examine the host"}
        </Button>
      </div>
      {error.value !== undefined && <Banner kind="bad" title={error.value} />}
      {findings.value === undefined
        ? (
          <p class="muted">
            It examines everything that the agent needs, and changes nothing. With a repair of what
            it can:{" "}
            <Copy text={FIX_COMMAND} label="command">
              <code>{FIX_COMMAND}</code>
            </Copy>
          </p>
        )
        : <Checks findings={findings.value} />}
      {/* Without an address the command examines the host that it is typed on. */}
      <Terminal cli={cliOf(["doctor"], location.origin, true)} curl={curlOf(CALL)} />
    </section>
  );
}

function Checks({ findings: { examined_at, checks } }: { findings: Findings }): JSX.Element {
  const place = (outcome: string) => OUTCOMES.findIndex((one) => one.outcome === outcome);
  const inOrder = checks.toSorted((a, b) => place(a.outcome) - place(b.outcome));
  return (
    <>
      <p class="muted">
        Examined <Time at={examined_at} />
      </p>
      <ul class="checks">
        {inOrder.map(({ name, outcome, detail, fix }) => (
          <li key={name}>
            <span class={`badge state-${OUTCOMES[place(outcome)]?.state ?? "queued"}`}>
              {outcome}
            </span>
            <strong>{name}</strong>
            <span class="wrap">
              <span class="muted">{detail}</span>
              {fix !== undefined && <span class="check-fix">Fix: {fix}</span>}
            </span>
          </li>
        ))}
      </ul>
    </>
  );
}
