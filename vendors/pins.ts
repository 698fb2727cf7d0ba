// What is taken from outside besides the npm packages of deno.lock, pinned by version and digest.
// vendors/README.md says why each is there.

/** A package whose tarball must have this SHA-512 (base64, as npm's `integrity` writes it). */
export interface PinnedPackage {
  readonly name: string;
  readonly version: string;
  readonly sha512: string;
  /** The file of the package that is used. */
  readonly file: string;
}

/** The compiler that goes with the fallback runtime; later ones cannot append to it. */
export const FALLBACK_COMPILER: PinnedPackage = {
  name: "@deno/linux-x64-glibc",
  version: "2.8.3",
  sha512:
    "73K6NpAFfGyEJ84nSSPECKilO1+gaEnNU90p/ebluWJBUFJ3HfpUgRxjG6hNXhVLuGDmp0u+2C00Cz6lbW4X+A==",
  file: "package/deno",
};

/**
 * Two unrelated executables made by `deno compile`. Without the section that the compiler appended,
 * both are the same file: the plain runtime.
 */
export const FALLBACK_RUNTIME_SOURCES: readonly PinnedPackage[] = [
  {
    name: "@mcp-stress/linux-x64",
    version: "0.2.1",
    sha512:
      "mBnQXZQ6Cm+Yw5P31/7xYeQSw80IXQ5appuAGrAKGkgAYzgCWswQ8hVU4jTPMnGR5XoUujZWvXTRkLTT3wSt/w==",
    file: "package/bin/mcp-stress",
  },
  {
    name: "@dgellow/rfc-linux-x64",
    version: "0.0.6",
    sha512:
      "KhBrVX6QaG7aMXZfZJmzXHx7W0JLohhJr+96z16WhoaHvSRaiMu2ohkmEFeUPo52Mws6ZGqVRA6bMzYB6ZL65g==",
    file: "package/bin/rfc",
  },
];

/** The runtime that both of them hold. */
export const FALLBACK_RUNTIME = {
  version: "2.6.10",
  sha256: "1b136202dc147212ad0b129de0c10eb5f17060917c9754c7921cd68f764ad2e2",
} as const;
