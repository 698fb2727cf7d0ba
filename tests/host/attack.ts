// Somebody who owns the tree of a zone and keeps changing it, as fast as a process can: the name of
// the medium and, unless the test says otherwise, the root of the zone itself become a file, links to what is
// outside, a FIFO, a hard link, a folder. Run as a program: <folder> <zonepath> <what>; it ends, and
// leaves the root in its place, when <folder>/stop is there.

const [folder = "", zonepath = "", what = "all"] = Deno.args;
const root = `${zonepath}/root`;
const name = "install.iso";

/** Does what can be done at this moment. */
function attempt(run: () => void): void {
  try {
    run();
  } catch {
    // Somebody else has the name just now, or nobody has it.
  }
}

function clear(path: string): void {
  attempt(() => Deno.removeSync(path));
}

function attackName(within: string): void {
  const path = `${within}/${name}`;
  const plants = [
    () => Deno.symlinkSync(`${folder}/canaries/canary`, path),
    () => Deno.symlinkSync(`${folder}/canaries`, path),
    () => Deno.symlinkSync(`${folder}/canaries/dangling`, path),
    () => Deno.linkSync(`${folder}/fifo`, path),
    () => Deno.linkSync(`${folder}/canaries/canary`, path),
    () => Deno.mkdirSync(path),
    () => Deno.writeTextFileSync(path, "planted", { createNew: true }),
  ];
  for (const plant of plants) {
    attempt(plant);
    clear(path);
  }
}

function attackRoot(): void {
  const aside = `${zonepath}/aside`;
  const plants = [
    () => Deno.symlinkSync(`${folder}/canaries`, root),
    () => Deno.linkSync(`${folder}/fifo`, root),
    () => Deno.mkdirSync(root),
  ];
  for (const plant of plants) {
    Deno.renameSync(root, aside);
    attempt(plant);
    clear(root);
    // What was placed in the folder that was the root just now is lost with it, and with reason.
    attempt(() => Deno.removeSync(root, { recursive: true }));
    Deno.renameSync(aside, root);
  }
}

function isStopped(): boolean {
  try {
    Deno.lstatSync(`${folder}/stop`);
    return true;
  } catch {
    return false;
  }
}

const asleep = new Int32Array(new SharedArrayBuffer(4));
let round = 0;
while (!isStopped()) {
  attackName(root);
  round += 1;
  if (what === "all" && round % 8 === 0) attackRoot();
  // Now and then the tree is left alone, so that some copies come to their last steps.
  if (round % 4 === 0) Atomics.wait(asleep, 0, 0, round % 16);
}
clear(`${root}/${name}`);
