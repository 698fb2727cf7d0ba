// The frame of every page: the menu, the signed-in caller, and whether the page is live; and the list of all pages.

import type { ComponentType, JSX } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import {
  loadSession,
  mayChange,
  session,
  sessionEnded,
  signIn,
  signOut,
  wordsOf,
} from "../client/client.ts";
import { connection, follow, refusedWords } from "../client/events.ts";
import { Banner, Button, Command, Empty } from "../part/controls.tsx";
import { clock } from "../part/shown.tsx";
import { addressOf, announced, nameTab, type PageProps, place } from "../browser.ts";
import { HostsPage } from "./hosts/hosts.tsx";
import { ImagesPage } from "./images/images.tsx";
import { ReleasePage } from "./images/release.tsx";
import { JobPage } from "./job/job.tsx";
import { JobsPage } from "./jobs/jobs.tsx";
import { LibraryPage } from "./library/library.tsx";
import { MachinePage } from "./machine/machine.tsx";
import { MachinesPage } from "./machines/machines.tsx";
import { NewMachinePage } from "./new/new.tsx";
import { OverviewPage } from "./overview/overview.tsx";
import { SystemPage } from "./system/system.tsx";
import { WorkflowPage } from "./workflows/workflow.tsx";
import { WorkflowsPage } from "./workflows/workflows.tsx";

/** The frame of every page, or the sign-in while there is no session. */
export function App(): JSX.Element {
  const who = session.value;
  useEffect(() => whenOver(who?.expires_at ?? null), [who?.expires_at]);
  if (who === undefined) return <Opening />;
  if (who.scope === null) return <SignIn />;
  return (
    <div class="shell">
      <a class="skip" href="#page">Skip to content</a>
      <Navigation />
      <main id="page" tabIndex={-1}>
        <Page />
      </main>
      <div class="sr-only" role="status" aria-live="polite">{announced}</div>
    </div>
  );
}

/** Milliseconds until the agent is asked again, if its clock is behind the browser's. */
const ASK_AGAIN_MS = 60_000;

/** When the session should have ended, asks the agent who is signed in: the page may be making no other request. */
function whenOver(expiresAt: string | null): (() => void) | undefined {
  if (expiresAt === null) return undefined;
  const ms = Math.max(Date.parse(expiresAt) - clock.peek(), ASK_AGAIN_MS);
  const timer = setTimeout(() => loadSession().catch(() => {}), ms);
  return () => clearTimeout(timer);
}

function Page(): JSX.Element {
  const { path } = place.value;
  const found = pageOf(path);
  if (found === undefined) return <Missing path={path} />;
  // A page for another job starts with fresh state.
  return <found.page.Page key={path} params={found.params} />;
}

function Missing({ path }: { path: string }): JSX.Element {
  useEffect(() => nameTab("Not found"), []);
  // Keeps a stream open, so that the frame shows whether the agent answers.
  useEffect(() => follow("kind=host", { load: () => {} }), []);
  return (
    <>
      <h1>Not found</h1>
      <Empty title={`There is no page ${addressOf(path)}`}>
        <p>
          <a href="/ui">Go to the overview</a>
        </p>
      </Empty>
    </>
  );
}

/** Shown until the agent has said who is signed in. */
function Opening(): JSX.Element {
  useEffect(() => {
    const timer = setInterval(() => {
      if (session.value === undefined) loadSession().catch(() => {});
    }, RETRY_MS);
    return () => clearInterval(timer);
  }, []);
  return <p class="opening" role="status">Connecting to the agent</p>;
}

const RETRY_MS = 2_000;

function Navigation(): JSX.Element {
  const { path } = place.value;
  const pages = useRef<HTMLElement>(null);
  // In a narrow window the menu scrolls: bring the current page into view.
  useEffect(() => {
    const current = pages.current?.querySelector("[aria-current]");
    current?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }, [path]);
  return (
    <header class="side">
      <a class="brand" href="/ui">
        <Mark />zonewright
      </a>
      <nav aria-label="Pages" ref={pages}>
        {PAGES.filter(({ inMenu, changes }) => inMenu && (!changes || mayChange())).map((page) => (
          <a
            key={page.path}
            href={addressOf(page.path)}
            class="nav-link"
            aria-current={isWithin(path, page.path) ? "page" : undefined}
          >
            {page.title}
          </a>
        ))}
      </nav>
      <div class="side-end">
        <Connection />
        <Who />
      </div>
    </header>
  );
}

function isWithin(path: string, page: string): boolean {
  return page === "/" ? path === "/" : path === page || path.startsWith(`${page}/`);
}

function Mark(): JSX.Element {
  return (
    <svg viewBox="0 0 32 32" width="22" height="22" aria-hidden="true" class="mark">
      <rect width="32" height="32" rx="7" />
      <path d="M9 9h14L9 23h14" />
    </svg>
  );
}

/** A word beside the colour: colour must not be the only sign. */
function Connection(): JSX.Element {
  const state = connection.value;
  if (state === "refused") {
    return (
      <p class="connection connection-refused" role="status">not live: {refusedWords.value}</p>
    );
  }
  // Any click wakes the page, so this one needs no handler.
  return (
    <p class={`connection connection-${state}`} role="status">
      {state === "paused" ? "paused; click to continue" : state}
    </p>
  );
}

function Who(): JSX.Element {
  const { caller = null, scope = null, csrf = null } = session.value ?? {};
  const name = caller?.replace(/^token:/, "") ?? "";
  return (
    <div class="who">
      <span title={`Scope: ${scope}`}>{scope === "read" ? `${name}, read only` : name}</span>
      {csrf !== null && <Button kind="quiet" onClick={() => void signOut()}>Sign out</Button>}
    </div>
  );
}

/**
 * The sign-in form, where the agent requires a token; afterwards the page of the address is shown.
 */
function SignIn(): JSX.Element {
  const [token, setToken] = useState("");
  const [error, setError] = useState<string>();
  const [busy, setBusy] = useState(false);
  const input = useRef<HTMLInputElement>(null);
  useEffect(() => {
    nameTab("Sign in");
    // The attribute autofocus works only when a document is opened, not when a session ends later.
    input.current?.focus();
  }, []);
  const submit = async (event: Event) => {
    event.preventDefault();
    setBusy(true);
    setError(undefined);
    try {
      await signIn(token.trim());
    } catch (failure) {
      setError(wordsOf(failure));
      setBusy(false);
    }
  };
  return (
    <main class="sign-in">
      <Mark />
      <h1>Sign in to zonewright</h1>
      {sessionEnded.value && <Ended />}
      <p class="muted">
        This agent requires a token. The browser keeps a cookie for 12 hours, or until the agent
        restarts; the token is not kept.
      </p>
      <form onSubmit={submit}>
        <label>
          Token
          <input
            ref={input}
            type="password"
            autocomplete="current-password"
            spellcheck={false}
            required
            value={token}
            onInput={(event) => setToken(event.currentTarget.value)}
          />
        </label>
        {error !== undefined && (
          <div role="alert">
            <Banner kind="bad" title={error} />
          </div>
        )}
        <Button kind="primary" type="submit" disabled={busy}>Sign in</Button>
      </form>
      <NoToken />
    </main>
  );
}

function NoToken(): JSX.Element {
  return (
    <details class="terminal">
      <summary>I have no token</summary>
      <p class="muted">
        Make one on the agent's host. With <code>--scope read</code>{" "}
        the console shows everything and changes nothing.
      </p>
      <Command text="zonewright token create --name NAME --scope admin" label="command" />
    </details>
  );
}

function Ended(): JSX.Element {
  return (
    <div role="alert">
      <Banner kind="info" title="Your session has ended">
        Its 12 hours are over, the agent has restarted, or the token was revoked. Sign in to return
        to the page you were on.
      </Banner>
    </div>
  );
}

/** One page: its address and its component. */
interface PageEntry {
  /** Below `/ui`; a variable part begins with a colon. */
  readonly path: string;
  readonly title: string;
  readonly inMenu: boolean;
  /** Whether the page only changes things, so that a reader does not need it. */
  readonly changes?: true;
  readonly Page: ComponentType<PageProps>;
}

/** All pages, in the order of the menu. A new page is added here only. */
const PAGES: readonly PageEntry[] = [
  { path: "/", title: "Overview", inMenu: true, Page: OverviewPage },
  { path: "/jobs", title: "Jobs", inMenu: true, Page: JobsPage },
  { path: "/jobs/:uuid", title: "Job", inMenu: false, Page: JobPage },
  { path: "/machines", title: "Machines", inMenu: true, Page: MachinesPage },
  { path: "/machines/:uuid", title: "Machine", inMenu: false, Page: MachinePage },
  { path: "/new", title: "New machine", inMenu: true, changes: true, Page: NewMachinePage },
  { path: "/library", title: "Library", inMenu: true, Page: LibraryPage },
  { path: "/images", title: "Images", inMenu: true, Page: ImagesPage },
  { path: "/images/:distro/:release", title: "Release", inMenu: false, Page: ReleasePage },
  { path: "/workflows", title: "Workflows", inMenu: true, Page: WorkflowsPage },
  { path: "/workflows/:uuid", title: "Workflow", inMenu: false, Page: WorkflowPage },
  { path: "/hosts", title: "Hosts", inMenu: true, Page: HostsPage },
  { path: "/system", title: "System", inMenu: true, Page: SystemPage },
];

/** The page of a path, and the values of its variable parts. */
function pageOf(
  path: string,
): { readonly page: PageEntry; readonly params: PageProps["params"] } | undefined {
  for (const page of PAGES) {
    const params = matched(page.path.split("/"), path.split("/"));
    if (params !== undefined) return { page, params };
  }
  return undefined;
}

function matched(
  pattern: readonly string[],
  parts: readonly string[],
): Record<string, string> | undefined {
  if (pattern.length !== parts.length) return undefined;
  const params: Record<string, string> = {};
  for (const [at, word] of pattern.entries()) {
    const part = parts[at] ?? "";
    if (word.startsWith(":")) params[word.slice(1)] = decodeURIComponent(part);
    else if (word !== part) return undefined;
  }
  return params;
}
