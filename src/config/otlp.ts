// The settings of what is told to a collector by OTLP.

import { define, type Definition } from "./definition.ts";
import { type Read, readPath } from "./values.ts";
import { isLoopback } from "../domain/ip_address.ts";

const EXAMPLE = '"http://127.0.0.1:4318"';

/** The address of a collector, without the `/v1/traces` that is added to it. */
const readCollector: Read<string> = (raw) => {
  const url = typeof raw === "string" && URL.canParse(raw) ? new URL(raw) : undefined;
  const web = url?.protocol === "https:" || url?.protocol === "http:";
  if (url === undefined || !web) {
    throw new Error(`${JSON.stringify(raw)} is no URL of a collector, such as ${EXAMPLE}`);
  }
  if (url.username !== "" || url.password !== "" || url.search !== "" || url.hash !== "") {
    // The value is not repeated: it may hold a secret.
    const word = "expected a URL without user, password, query and fragment";
    throw new Error(`${url.host}: ${word}: a token stands in otlp_headers_file`);
  }
  const shown = JSON.stringify(raw);
  if (url.protocol === "http:" && !isLoopback(url.hostname.replace(/^\[|\]$/g, ""))) {
    throw new Error(`${shown} has no TLS: expected https, or http of a loopback address`);
  }
  return url.href.replace(/(?<!\/)\/+$/, "");
};

/** Rows of the table of settings. */
export const OTLP_SETTINGS = {
  otlp_endpoint: {
    ...define<string | null>(
      "otlp-endpoint",
      null,
      readCollector,
      "URL",
      "collector that is sent spans and figures by OTLP over HTTP, as OTEL_EXPORTER_OTLP_ENDPOINT",
    ),
    also: "OTEL_EXPORTER_OTLP_ENDPOINT",
  },
  otlp_headers_file: define<string | null>(
    "otlp-headers-file",
    null,
    readPath,
    "FILE",
    "what the collector wants besides, mode 0600: a line `name: value` each",
  ),
} satisfies Record<string, Definition<unknown>>;
