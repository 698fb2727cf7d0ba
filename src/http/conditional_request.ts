// Conditional requests and content encodings, as far as reading needs them.

/**
 * Whether a client already has what it asks for. `If-None-Match` decides where it is sent, as it
 * must; entity tags are compared weakly, as RFC 9110 section 13.1.2 has it for reading.
 * @param etags the present tags, with quotes
 * @param lastModifiedMs whole seconds, in milliseconds since 1970
 * @returns the tag that matched, or undefined when the document must be sent
 */
export function matchedEtag(
  headers: Headers,
  etags: readonly string[],
  lastModifiedMs: number,
): string | undefined {
  const noneMatch = headers.get("if-none-match");
  if (noneMatch !== null) {
    if (noneMatch.trim() === "*") return etags[0];
    const sent: readonly string[] = noneMatch.match(/"[^"]*"/g) ?? [];
    return etags.find((etag) => sent.includes(etag));
  }
  const since = Date.parse(headers.get("if-modified-since") ?? "");
  return lastModifiedMs <= since ? etags[0] : undefined;
}

/** Whether `Accept-Encoding` admits gzip with a weight above zero. */
export function acceptsGzip(headers: Headers): boolean {
  const weights = new Map(
    (headers.get("accept-encoding") ?? "").split(",").map((item) => {
      const [coding = "", ...parameters] = item.split(";").map((part) => part.trim());
      const weight = parameters.find((parameter) => /^q=/i.test(parameter))?.slice(2) ?? "1";
      return [coding.toLowerCase(), Number(weight)];
    }),
  );
  return (weights.get("gzip") ?? weights.get("*") ?? 0) > 0;
}
