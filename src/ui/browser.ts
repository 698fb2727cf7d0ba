// What the console uses of its browser: the address bar, whose path and query contain everything that a page needs,
// announcements for screen readers, and the title and icon of the tab.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

interface Place {
  /** Without `/ui` and a slash at the end: `/jobs`, and `/` for the overview. */
  readonly path: string;
  readonly query: URLSearchParams;
}

/** The variable parts of an address, by name. */
export interface PageProps {
  readonly params: Readonly<Record<string, string>>;
}

/** The page and the parameters that the address bar shows. */
export const place = signal<Place>(placeOf(location));

function placeOf({ pathname, search }: Pick<Location, "pathname" | "search">): Place {
  const path = pathname.replace(/^\/ui/, "").replace(/\/$/, "");
  return { path: path === "" ? "/" : path, query: new URLSearchParams(search) };
}

/** Goes to another page. @param path below `/ui`, with its query and anchor */
export function go(path: string, how: "push" | "replace" = "push"): void {
  const url = new URL(addressOf(path), location.origin);
  if (how === "push") history.pushState(null, "", url);
  else history.replaceState(null, "", url);
  const before = place.value.path;
  place.value = placeOf(url);
  // A new filter changes only the query, so the scroll position stays.
  if (before === place.value.path) return;
  scrollTo(0, 0);
  document.getElementById("page")?.focus({ preventScroll: true });
}

/** The address of a page, for a link. */
export function addressOf(path: string): string {
  return path === "/" ? "/ui" : `/ui${path}`;
}

/** Changes keys of the query; `null` removes a key. */
export function setQuery(changes: Readonly<Record<string, string | null>>): void {
  const query = new URLSearchParams(place.value.query);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") query.delete(name);
    else query.set(name, value);
  }
  const text = query.toString();
  go(place.value.path + (text === "" ? "" : `?${text}`), "replace");
}

/** Follows the address bar, and handles clicks on links between pages. */
export function startRouting(): void {
  addEventListener("popstate", () => place.value = placeOf(location));
  document.addEventListener("click", (event) => {
    const link = event.target instanceof Element ? event.target.closest("a") : null;
    const plain = event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey &&
      !event.altKey && !event.defaultPrevented;
    if (link === null || !plain || link.target !== "" || link.origin !== location.origin) return;
    if (link.pathname !== "/ui" && !link.pathname.startsWith("/ui/")) return;
    const isHere = link.pathname === location.pathname && link.search === location.search;
    // The browser itself scrolls to a part of the page.
    if (isHere && link.hash !== "") return;
    event.preventDefault();
    go(link.pathname.slice("/ui".length) + link.search + link.hash || "/");
  });
}

/** The text that a screen reader announces. */
export const announced = signal("");

/** Announces a text; a repeated text is announced again. */
export function announce(text: string): void {
  announced.value = "";
  queueMicrotask(() => announced.value = text);
}

/** Announces a thing's state when it changes, but not when it is first shown. */
export function useStateAnnounced(name: string, state: string | undefined): void {
  const before = useRef(state);
  useEffect(() => {
    if (before.current !== undefined && state !== undefined && before.current !== state) {
      announce(`${name}: ${state}`);
    }
    before.current = state;
  }, [state]);
}

/** Colours of the icon by a job's state; they stand on light and dark tabs alike. */
const ICON_COLOURS: Readonly<Record<string, string>> = {
  queued: "#8a93a0",
  running: "#2f7cf6",
  waiting: "#d98a04",
  succeeded: "#1e9e5a",
  failed: "#dc3a3a",
  canceled: "#8a93a0",
};
const ICON_COLOUR = "#0f8f8a";

/** Sets the title of the tab. @param state of the job that the page shows, for the icon */
export function nameTab(title: string, state?: string): void {
  document.title = `${title} · zonewright`;
  const colour = ICON_COLOURS[state ?? ""] ?? ICON_COLOUR;
  const icon = state === undefined
    ? `<path d="M8 8h16l-12 16h12" fill="none" stroke="#fff" stroke-width="4" stroke-linejoin="round"/>`
    : "";
  const image = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">` +
    `<rect width="32" height="32" rx="${
      state === undefined ? 7 : 16
    }" fill="${colour}"/>${icon}</svg>`;
  const link = document.querySelector<HTMLLinkElement>('link[rel="icon"]');
  if (link !== null) link.href = `data:image/svg+xml,${encodeURIComponent(image)}`;
}
