// Every setting in force, with where it comes from. The address holds the filter.

import type { JSX } from "preact";
import type { Answers } from "../../client/schema.ts";
import { cliOf } from "../../client/curl.ts";
import { Command } from "../../part/controls.tsx";
import { Banner } from "../../part/message.tsx";
import { place, setQuery } from "../../browser/route.ts";

type Config = Answers["GET /agent/v1/config"];

/** The settings; those that somebody has set are marked. */
export function Settings({ config: { settings, waiting } }: { config: Config }): JSX.Element {
  const { query } = place.value;
  const search = query.get("search") ?? "";
  const all = query.get("settings") === "all";
  const words = search.toLowerCase();
  const shown = settings.filter(({ name, meaning, text, origin }) =>
    (all || words !== "" || origin !== "default") &&
    `${name} ${meaning} ${text}`.toLowerCase().includes(words)
  );
  return (
    <section class="system-part" aria-label="Configuration">
      <h2>Configuration</h2>
      {waiting.length > 0 && (
        <Banner kind="warn" title={`These wait for a restart: ${waiting.join(", ")}`} />
      )}
      <form class="filter" role="search" onSubmit={(event) => event.preventDefault()}>
        <label class="filter-search">
          <span class="sr-only">Search settings</span>
          <input
            type="search"
            placeholder="Search name, meaning, value"
            value={search}
            onInput={(event) => setQuery({ search: event.currentTarget.value })}
          />
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={all}
            onChange={(event) => setQuery({ settings: event.currentTarget.checked ? "all" : null })}
          />
          <span>Defaults too</span>
        </label>
      </form>
      {shown.length === 0
        ? (
          <p class="muted">
            {words === "" ? "Everything is as by default." : "No setting fits."}
          </p>
        )
        : (
          <ul class="settings">
            {shown.map((setting) => <SettingLine key={setting.name} setting={setting} />)}
          </ul>
        )}
      <p class="muted">
        {shown.length} of {settings.length}{" "}
        settings; a star marks those that are read again on SIGHUP.
      </p>
      <Command text={cliOf(["config", "show", "--running"])} label="command" />
    </section>
  );
}

function SettingLine({ setting }: { setting: Config["settings"][number] }): JSX.Element {
  const { name, text, origin, source, meaning, reloads } = setting;
  return (
    <li>
      <code class="wrap">{name}{reloads && "*"}</code>
      <code class="wrap setting-value">{text ?? "–"}</code>
      <span class={origin === "default" ? "muted" : "setting-set"} title={source ?? undefined}>
        {origin === "default" ? "default" : source ?? origin}
      </span>
      <span class="muted">{meaning}</span>
    </li>
  );
}
