// HEAD is answered as GET is, without the body. Hono runs the handler of GET and drops its body; the
// length of that body is told here before it is lost, and server.ts keeps Deno from telling another.

const LENGTH = "content-length";
/** Statuses whose answers have no body to GET either. */
const BODILESS = [204, 304];

/** Tells the length of the body that HEAD leaves out; of a list that is not whole, nobody knows it. */
export async function tellLength(answer: Response): Promise<void> {
  if (answer.body === null || answer.headers.has(LENGTH)) return;
  const { byteLength } = await answer.arrayBuffer();
  answer.headers.set(LENGTH, String(byteLength));
}

/**
 * An answer to HEAD as it may be given to Deno, which would add `content-length: 0` to one that has
 * no body: wrong where GET has one.
 */
export function headAnswer(response: Response): Response {
  if (response.headers.has(LENGTH) || BODILESS.includes(response.status)) return response;
  return new Response(new Blob().stream(), response);
}
