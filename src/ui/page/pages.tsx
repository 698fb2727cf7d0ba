// The pages that there are. A page is added here, and nowhere else: its address, its place in the menu, and
// what draws it.

import type { ComponentType } from "preact";
import type { PageProps } from "../browser.ts";
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

/** Where a page is found, and what draws it. */
interface PageEntry {
  /** Below `/ui`; a part that varies begins with a colon. */
  readonly path: string;
  readonly title: string;
  readonly inMenu: boolean;
  /** Whether it only changes something: a reader does not need it. */
  readonly changes?: true;
  readonly Page: ComponentType<PageProps>;
}

/** In the order of the menu. */
export const PAGES: readonly PageEntry[] = [
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

/** The page of a path, and what varies in its address. */
export function pageOf(
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
