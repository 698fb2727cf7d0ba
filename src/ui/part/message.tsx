// What the console says: banners and empty states.

import type { ComponentChildren, JSX } from "preact";
import { Command } from "./controls.tsx";

/** How a banner looks, by what it says. */
export type BannerKind = "bad" | "warn" | "info" | "good";

/** A strip that says one thing before all others. */
export function Banner(
  { kind, title, children }: { kind: BannerKind; title: string; children?: ComponentChildren },
): JSX.Element {
  return (
    <section class={`banner banner-${kind}`} aria-label={title}>
      <strong class="banner-title">{title}</strong>
      {children !== undefined && <div class="banner-text">{children}</div>}
    </section>
  );
}

/** Says why a list is empty and what comes next, with the command to type. */
export function Empty(
  { title, command, children }: { title: string; command?: string; children?: ComponentChildren },
): JSX.Element {
  return (
    <div class="empty">
      <p class="empty-title">{title}</p>
      {children}
      {command !== undefined && <Command text={command} label="command" />}
    </div>
  );
}
