// JavaScript and JSON with their words in colours.

import type { JSX } from "preact";

/** Comments, texts, numbers, and words, in the order in which they are tried. */
const TOKEN =
  /(\/\/[^\n]*|\/\*[\s\S]*?\*\/)|("(?:[^"\\\n]|\\.)*"(?=\s*:))|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'|`(?:[^`\\]|\\.)*`)|\b(\d[\w.]*)\b|\b(async|await|break|case|catch|class|const|continue|default|delete|do|else|false|finally|for|function|if|in|instanceof|let|new|null|of|return|switch|this|throw|true|try|typeof|undefined|var|void|while|yield)\b/g;
const KINDS = ["comment", "key", "text", "number", "keyword"] as const;
/** Characters beyond which a text stays plain. */
const COLOURED_CHARS_MAX = 200_000;

/** A source, to be read and copied. @param label what it is, for a screen reader */
export function Source({ text, label }: { text: string; label: string }): JSX.Element {
  return (
    <pre class="source" tabIndex={0} role="region" aria-label={label}>
      <code>{text.length > COLOURED_CHARS_MAX ? text : coloured(text)}</code>
    </pre>
  );
}

function coloured(text: string): readonly (string | JSX.Element)[] {
  const parts: (string | JSX.Element)[] = [];
  let end = 0;
  for (const match of text.matchAll(TOKEN)) {
    const kind = KINDS[match.slice(1).findIndex((group) => group !== undefined)];
    parts.push(text.slice(end, match.index));
    parts.push(<span class={`token-${kind}`}>{match[0]}</span>);
    end = match.index + match[0].length;
  }
  parts.push(text.slice(end));
  return parts;
}

/** A value as JSON, to be read and copied. */
export function Json({ value, label }: { value: unknown; label: string }): JSX.Element {
  return <Source text={JSON.stringify(value, null, 2) ?? "null"} label={label} />;
}
