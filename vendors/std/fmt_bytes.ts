// @ts-types="./fmt_bytes.d.ts"
export * from "npm:deno-std@1.4.0/fmt/bytes.js";
