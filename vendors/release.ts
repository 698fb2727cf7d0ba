// Makes dist/release/ from a binary that was built: the binary under a name that tells version and
// target, the file for Node, manual and completions, what each program is made of, and the digests of all
// that. Manual and completions are the binary's own words. The same programs give the same files, with the
// same times.

import { fromFileUrl, join } from "@std/path";
import { billOfMaterials, type Package, type Subject } from "./sbom.ts";

const ROOT = fromFileUrl(new URL("..", import.meta.url));
const SHELLS = ["bash", "zsh", "fish"] as const;
const TEXT_MODE = 0o644;
const PROGRAM_MODE = 0o755;
/** The program, and the console that it carries. */
const PROGRAM = ["main.ts", "src/ui/main.tsx"] as const;
/** Files of the sources that go with every copy. */
const NOTICES = ["LICENSE", "CHANGELOG.md"] as const;

/** Where a release comes from and goes to. */
export interface ReleaseOptions {
  readonly binary: string;
  readonly nodeFile: string;
  /** The folder of the release, which is emptied first. */
  readonly folder: string;
  /** The time of every file; that of the commit unless given. */
  readonly madeAt: Date;
}

/** @returns the names of what was made @throws {Error} naming the program that failed */
export async function makeRelease(
  { binary, nodeFile, folder, madeAt }: ReleaseOptions,
): Promise<string[]> {
  await Deno.remove(folder, { recursive: true }).catch(ignoreMissing);
  await Deno.mkdir(folder, { recursive: true });
  const about = JSON.parse(await ask(binary, "version", "--json"));
  const stem = `zonewright-${about.version}`;
  const program = `${stem}-${about.target}`;
  const onNode = `${stem}.mjs`;
  const bytes = await Deno.readFile(binary);
  const nodeBytes = await Deno.readFile(nodeFile);
  refuseOther(new TextDecoder().decode(nodeBytes), about.commit);
  const { version, commit, target } = about;
  const dated = { version, commit, madeAt: madeAt.toISOString() };
  const ofBinary: Subject = { ...dated, target, sha256: await sha256(bytes), carried: about };
  const ofNode: Subject = { ...dated, target: "node", sha256: await sha256(nodeBytes) };
  const files = new Map<string, Uint8Array<ArrayBuffer>>([[program, bytes], [onNode, nodeBytes]]);
  const put = (name: string, text: string) => files.set(name, new TextEncoder().encode(text));
  put("zonewright.8", await ask(binary, "man"));
  for (const shell of SHELLS) {
    put(`zonewright.${shell}`, await ask(binary, "completion", shell));
  }
  put(`${stem}.cdx.json`, billOfMaterials(ofBinary, await packagesOfAll(PROGRAM)));
  const packages = await packagesOfAll([...PROGRAM, "vendors/node/install.ts"]);
  put(`${stem}.mjs.cdx.json`, billOfMaterials(ofNode, packages));
  for (const name of NOTICES) put(name, await Deno.readTextFile(join(ROOT, name)));
  const sums = await Promise.all(
    [...files].map(async ([name, content]) => `${await sha256(content)}  ${name}\n`),
  );
  put("SHA256SUMS", sums.join(""));
  for (const [name, content] of files) {
    const path = join(folder, name);
    await Deno.writeFile(path, content);
    await Deno.chmod(path, name === program || name === onNode ? PROGRAM_MODE : TEXT_MODE);
    await Deno.utime(path, madeAt, madeAt);
  }
  await Deno.utime(folder, madeAt, madeAt);
  return [...files.keys()];
}

/** @throws {Error} when the file for Node comes from other sources than the binary */
function refuseOther(nodeText: string, commit: string): void {
  // The binary says behind it whether the sources differed from the commit.
  const [hash = ""] = commit.split(" ");
  if (hash === "unknown" || nodeText.includes(hash)) return;
  throw new Error(`Cannot release: the file for Node was not built from commit ${hash}`);
}

async function packagesOfAll(entries: readonly string[]): Promise<Package[]> {
  const found = (await Promise.all(entries.map(packagesOf))).flat();
  const names = new Map(found.map((one) => [`${one.name}@${one.version}`, one]));
  return [...names.values()].sort((a, b) => a.name < b.name ? -1 : 1);
}

/** The npm packages that an entry reaches, those of dynamic imports included. */
export async function packagesOf(entry: string): Promise<Package[]> {
  const info = JSON.parse(
    await ask(Deno.execPath(), "info", "--json", join(ROOT, entry)),
  );
  const lock = JSON.parse(await Deno.readTextFile(join(ROOT, "deno.lock")));
  const reached = new Set<string>();
  const reach = (id: string) => {
    if (reached.has(id)) return;
    reached.add(id);
    info.npmPackages[id].dependencies.forEach(reach);
  };
  for (const { specifier } of info.modules) {
    const id = /^npm:\/((?:@[^/]+\/)?[^/@]+@[^/]+)/.exec(specifier)?.[1];
    // A package with peers is listed under their names too.
    const listed = Object.keys(info.npmPackages).find((one) =>
      one === id || one.startsWith(`${id}_`)
    );
    if (listed !== undefined) reach(listed);
  }
  return await Promise.all(
    [...reached].sort().map(async (id) => {
      const { name, version, localPath } = info.npmPackages[id];
      const { license } = JSON.parse(await Deno.readTextFile(join(localPath, "package.json")));
      if (typeof license !== "string") throw new Error(`Cannot list ${id}: it names no licence`);
      return { name, version, license, integrity: lock.npm[id].integrity };
    }),
  );
}

async function ask(program: string, ...args: string[]): Promise<string> {
  const { success, stdout, stderr } = await new Deno.Command(program, { args, cwd: ROOT }).output();
  const decoder = new TextDecoder();
  if (success) return decoder.decode(stdout);
  throw new Error(`Cannot run ${program} ${args.join(" ")}: ${decoder.decode(stderr).trim()}`);
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function ignoreMissing(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

/** SOURCE_DATE_EPOCH, else the time of the commit. @see https://reproducible-builds.org/specs/source-date-epoch/ */
async function timeOfSources(): Promise<Date> {
  const given = Deno.env.get("SOURCE_DATE_EPOCH") ??
    (await ask("git", "log", "-1", "--format=%ct")).trim();
  const seconds = Number(given);
  if (!/^\d+$/.test(given)) {
    throw new Error(`Cannot date the release: ${JSON.stringify(given)} is no number of seconds`);
  }
  return new Date(seconds * 1000);
}

if (import.meta.main) {
  const folder = join(ROOT, "dist/release");
  const binary = join(ROOT, "dist/zonewright");
  const nodeFile = join(ROOT, "dist/zonewright.mjs");
  const names = await makeRelease({ binary, nodeFile, folder, madeAt: await timeOfSources() });
  const about = JSON.parse(await ask(binary, "version", "--json"));
  const { commit, runtime, runtime_compared } = about;
  console.error(`release: dist/release, ${names.length} files, commit ${commit}`);
  if (runtime.startsWith("fallback ")) {
    console.error(`release: its runtime is ${runtime}, ${runtime_compared}`);
  }
  if (!/^[0-9a-f]{40}$/.test(commit)) {
    console.error("release: not to be published: the binary was not built from a clean commit");
  }
}
