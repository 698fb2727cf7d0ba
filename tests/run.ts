// Runs every test and closes with what a newcomer wants to know: which tests were left out because
// a program is missing, by name, and how many passed and failed.

const decoder = new TextDecoder();
const command = new Deno.Command(Deno.execPath(), {
  args: ["test", "--quiet", "--cached-only", "--parallel", "-A", "--reporter=junit", "tests/"],
  stdout: "piped",
  stderr: "inherit",
});

/** One test of the report. */
interface Case {
  readonly name: string;
  readonly place: string;
  readonly outcome: "passed" | "failed" | "skipped";
  readonly detail: string;
}

function casesOf(report: string): Case[] {
  const cases = report.matchAll(
    /<testcase name="([^"]*)" classname="([^"]*)"[^>]*?(?:\/>|>(.*?)<\/testcase>)/gs,
  );
  return Array.from(cases, ([, name = "", place = "", inner = ""]) => ({
    name: plain(name),
    place: plain(place),
    outcome: /<(failure|error)/.test(inner)
      ? "failed"
      : inner.includes("<skipped")
      ? "skipped"
      : "passed",
    detail: plain(inner.replaceAll(/<[^>]*>/g, "")).trim(),
  }));
}

function plain(text: string): string {
  const entities: Record<string, string> = { lt: "<", gt: ">", quot: '"', apos: "'", amp: "&" };
  return text.replaceAll(/&(lt|gt|quot|apos|amp);/g, (_, name: string) => entities[name] ?? "")
    .replaceAll(/&#(\d+);/g, (_, code: string) => String.fromCodePoint(Number(code)));
}

const began = performance.now();
const { code, stdout } = await command.output();
const cases = casesOf(decoder.decode(stdout));
const of = (outcome: Case["outcome"]) => cases.filter((test) => test.outcome === outcome);

for (const { place, name, detail } of of("failed")) {
  console.log(`FAILED ${place}: ${name}\n${detail}\n`);
}
for (const { name } of of("skipped")) console.log(`skipped: ${name}`);
const seconds = ((performance.now() - began) / 1000).toFixed(1);
console.log(`${cases.length} tests in ${seconds} s`);
// A run that ends without a report (a crash of the runner itself) has failed, whatever it counted.
const failed = code !== 0 && of("failed").length === 0 ? 1 : of("failed").length;
console.log(`${of("passed").length} passed, ${failed} failed, ${of("skipped").length} skipped`);
Deno.exit(failed > 0 ? 1 : 0);
