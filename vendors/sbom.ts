// What a release is made of, as CycloneDX has it: the packages that main.ts reaches, with the digests
// of deno.lock, and the runtime that the binary carries, as the binary itself names it. The file for Node
// carries none.

/** One npm package of the binary. */
export interface Package {
  readonly name: string;
  readonly version: string;
  /** As npm's `integrity` writes it: `sha512-` and base64. */
  readonly integrity: string;
  /** SPDX expression, as its package.json has it. */
  readonly license: string;
}

/** What a bill of materials is about. */
export interface Subject {
  readonly version: string;
  readonly commit: string;
  readonly target: string;
  /** Lower-case hex, of the program. */
  readonly sha256: string;
  readonly carried?: CarriedRuntime;
  /** When it was made, as ISO 8601. */
  readonly madeAt: string;
}

/** Deno, V8 and SQLite of a binary, and how it names its runtime. */
export interface CarriedRuntime {
  readonly deno: string;
  readonly v8: string;
  readonly sqlite: string;
  readonly runtime: string;
  /** Lower-case hex, and what it was compared with; absent from source. */
  readonly runtime_sha256?: string;
  readonly runtime_compared?: string;
}

const LICENSE = "MPL-2.0";

/** A CycloneDX 1.5 document. The same subject gives the same text. */
export function billOfMaterials(subject: Subject, packages: readonly Package[]): string {
  const { version, sha256, madeAt, commit, target, carried } = subject;
  const ref = `pkg:generic/zonewright@${version}`;
  const runtime = carried === undefined ? [] : runtimeComponents(carried);
  const components = [...runtime, ...packages.map(packageComponent)];
  const document = {
    bomFormat: "CycloneDX",
    specVersion: "1.5",
    serialNumber: `urn:uuid:${uuidOf(sha256)}`,
    version: 1,
    metadata: {
      timestamp: madeAt,
      component: {
        type: "application",
        "bom-ref": ref,
        name: "zonewright",
        version,
        purl: ref,
        licenses: [{ license: { id: LICENSE } }],
        hashes: [{ alg: "SHA-256", content: sha256 }],
        properties: [
          { name: "zonewright:commit", value: commit },
          { name: "zonewright:target", value: target },
          ...(carried === undefined
            ? []
            : [{ name: "zonewright:runtime", value: carried.runtime }]),
          ...(carried?.runtime_compared === undefined
            ? []
            : [{ name: "zonewright:runtime_compared", value: carried.runtime_compared }]),
        ],
      },
    },
    components,
    dependencies: [{ ref, dependsOn: components.map((one) => one["bom-ref"]) }],
  };
  return `${JSON.stringify(document, null, 2)}\n`;
}

function packageComponent({ name, version, integrity, license }: Package) {
  const purl = `pkg:npm/${encodeURIComponent(name).replace("%2F", "/")}@${version}`;
  return {
    type: "library",
    "bom-ref": purl,
    name,
    version,
    purl,
    licenses: [/ /.test(license) ? { expression: license } : { license: { id: license } }],
    hashes: [{ alg: "SHA-512", content: hexOf(integrity) }],
  };
}

/** What is inside the runtime has no digest of its own. */
function runtimeComponents({ deno, v8, sqlite, runtime_sha256: content = "" }: CarriedRuntime) {
  const hashes = /^[0-9a-f]{64}$/.test(content) ? [{ alg: "SHA-256", content }] : [];
  return [
    { name: "deno", version: deno, licenses: [{ license: { id: "MIT" } }], hashes },
    { name: "v8", version: v8, licenses: [{ license: { id: "BSD-3-Clause" } }], hashes: [] },
    { name: "sqlite", version: sqlite, licenses: [{ license: { id: "blessing" } }], hashes: [] },
  ].map(({ hashes, ...one }) => {
    const purl = `pkg:generic/${one.name}@${one.version}`;
    const digests = hashes.length === 0 ? {} : { hashes };
    return { type: "framework", "bom-ref": purl, ...one, purl, ...digests };
  });
}

/** @throws {Error} for a digest that is not a SHA-512 */
function hexOf(integrity: string): string {
  const [algorithm, base64 = ""] = integrity.split("-", 2);
  const bytes = Uint8Array.from(atob(base64), (char) => char.charCodeAt(0));
  if (algorithm !== "sha512" || bytes.length !== 64) {
    throw new Error(`Cannot read the integrity ${JSON.stringify(integrity)}, expected a sha512`);
  }
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A uuid (RFC 9562, version 8) that is made of a digest: the same binary has the same. */
function uuidOf(sha256: string): string {
  const hex = `${sha256.slice(0, 12)}8${sha256.slice(13, 16)}8${sha256.slice(17, 32)}`;
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}
