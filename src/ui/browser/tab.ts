// What the console says outside of its page: to a screen reader, in the title of the tab and in its icon.

import { signal } from "@preact/signals";

/** What a screen reader is to say now. */
export const announced = signal("");

/** Says a text to a screen reader; the same text again is said again. */
export function announce(text: string): void {
  announced.value = "";
  queueMicrotask(() => announced.value = text);
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

/** Names the tab after its page. @param state of the job that the page is about */
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
