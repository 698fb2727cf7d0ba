// Announcements for screen readers, and the title and icon of the tab.

import { signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

/** The text that a screen reader announces. */
export const announced = signal("");

/** Announces a text; a repeated text is announced again. */
export function announce(text: string): void {
  announced.value = "";
  queueMicrotask(() => announced.value = text);
}

/** Announces the state of a thing when it changes, and not when it is first shown. */
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
