// Texts that somebody may send to forge a line of a log, to end a string, a statement or an element
// early, or to break their reader: made by rule, always the same.

/** What texts are built around: one kind of trouble each. */
const SEEDS: readonly string[] = [
  '"}\n{"level":"info","msg":"forged","ts":"2026-01-01T00:00:00.000Z"}\n',
  "\r\nforged: line\r\n\r\n<script>alert(1)</script>",
  "\u0000\u0001\u0007\b\t\v\f\u001b[2J\u001b]0;title\u0007\u007f\u0085\u009b31m",
  "\u2028\u2029\u200b\u202e\u2066\ufeff\ufffe\uffff",
  '\\u0000\\n\\\\\\"\\x1b%0a%00%0d%2e%2e%2f',
  "'; DROP TABLE jobs; --\"; SELECT * FROM workflows WHERE '%' LIKE '_",
  "</script><img src=x onerror=alert(1)>&lt;\"'`${1+1}{{7*7}}",
  "../../../../etc/passwd\u0000.json",
  "%s%n%d%x $(reboot) `reboot` | reboot; reboot && reboot",
  "__proto__ constructor toString hasOwnProperty",
  "\ud800 alone \udc00 and \ud83d\ude00 together",
  "a\u0301\u0301\u0301\u0301 \u0631\u0644\u0645 \u{1f469}\u200d\u{1f467} \u{10ffff}",
  '{"a":[1,{"b":null}]} [] null true 1e999 -0 NaN',
  "x".repeat(300) + "\n",
  "# HELP zonewright_forged x\nzonewright_forged 1\n",
];

/** So many texts, each different. */
export function hostileTexts(count: number): string[] {
  return Array.from({ length: count }, (_, n) => {
    const first = SEEDS[n % SEEDS.length] ?? "";
    const second = SEEDS[Math.floor(n / SEEDS.length) % SEEDS.length] ?? "";
    const cut = n % 2 === 0 ? first + second : second.slice(0, 1 + n % 17) + first;
    return `${n}${cut}${String.fromCharCode(n % 0x100)}`;
  });
}
