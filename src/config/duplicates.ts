// Keys and tables that stand in a TOML file twice. The parser takes the last of two, and the operator
// reads the first; TOML says that such a file is no good.

/** A statement of a file that says again what was said before. */
export interface Duplicate {
  /** `slots`, or `[limits]` with its brackets. */
  readonly name: string;
  /** Lines of both, from 1. */
  readonly line: number;
  readonly first: number;
}

/** What is skipped as a whole: texts of both kinds, with three quotes or one, and comments. */
const TEXT_OR_COMMENT =
  /"""(?:\\[\s\S]|[^\\])*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'[^'\n]*'|#[^\n]*/g;
const TABLE = /^\[([^[\]]+)\]$/;
const BARE_NAME = /^[A-Za-z0-9_-]+$/;

/** The keys of one table, and the tables, that stand twice. Text that is no TOML is the parser's. */
export function duplicatesOf(text: string): Duplicate[] {
  const seen = new Map<string, number>();
  const found: Duplicate[] = [];
  let table = "";
  const note = (full: string, name: string, line: number) => {
    const first = seen.get(full);
    if (first === undefined) seen.set(full, line);
    else found.push({ name, line, first });
  };
  for (const { code, line } of statements(text)) {
    const header = TABLE.exec(code)?.[1];
    if (header !== undefined) {
      table = nameOf(header);
      note(`[${table}]`, `[${table}]`, line);
      continue;
    }
    // A list of tables may go on: each begins anew.
    if (code.startsWith("[[")) table = `[[${line}]]`;
    const at = code.indexOf("=");
    if (at <= 0 || code.startsWith("[")) continue;
    const name = nameOf(code.slice(0, at));
    note(JSON.stringify([table, name]), name, line);
  }
  return found;
}

/** A name without the quotes that it may be written in, each part of a dotted one. */
function nameOf(text: string): string {
  return text.split(".").map((part) => {
    const bare = part.trim();
    const inner = /^(["'])(.*)\1$/.exec(bare)?.[2] ?? bare;
    return BARE_NAME.test(inner) ? inner : bare;
  }).join(".");
}

/** The statements of a file with their lines. What stands in quotes behind a key is left out. */
function statements(text: string): { code: string; line: number }[] {
  // Each text keeps its line breaks, so that lines count, and a key in quotes keeps its letters.
  const plain = text.replace(TEXT_OR_COMMENT, (part) => {
    if (part.startsWith("#")) return "";
    return /^["'][\w-]+["']$/.test(part) ? part : `""${part.replace(/[^\n]/g, "")}`;
  });
  const found: { code: string; line: number }[] = [];
  let depth = 0;
  for (const [at, whole] of plain.split("\n").entries()) {
    const code = whole.trim();
    if (depth === 0 && code !== "") found.push({ code, line: at + 1 });
    if (depth === 0 && TABLE.test(code)) continue;
    // A list over several lines holds no statements.
    for (const letter of code) depth += "[{".includes(letter) ? 1 : "]}".includes(letter) ? -1 : 0;
    depth = Math.max(depth, 0);
  }
  return found;
}
