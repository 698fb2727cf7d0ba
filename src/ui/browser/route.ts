// The router: the path and query of the address bar. A link contains everything that a page needs.

import { signal } from "@preact/signals";

/** The part of the address below `/ui`. */
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

/** Goes to another page. @param path below `/ui`, with its query and the part that is meant */
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

/** The path of a page as a link has it. */
export function addressOf(path: string): string {
  return path === "/" ? "/ui" : `/ui${path}`;
}

/** Changes keys of the query; `null` takes one away. */
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
    // To a part of the page the browser goes by itself.
    if (isHere && link.hash !== "") return;
    event.preventDefault();
    go(link.pathname.slice("/ui".length) + link.search + link.hash || "/");
  });
}
