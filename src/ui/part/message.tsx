// Messages: banners and empty states.

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

/** An empty list: why it is empty, and what to do next, with the command. */
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
