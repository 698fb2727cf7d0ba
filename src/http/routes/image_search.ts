// GET /agent/v1/images: every artifact of the image index as one list that can be filtered. An
// extension of the interface, so it lives under /agent/v1/.

import { Hono } from "hono";
import type { JsonObject } from "../../domain/json.ts";
import type { ImageStore, ListedImage } from "../../store/image_store.ts";
import { placeText, readImageQuery } from "./images.ts";

/**
 * The route of the search. `X-Count` tells how many artifacts fit on all pages; the next page is
 * what follows `next`, which is null on the last one.
 */
export function imageSearchRoutes({ images }: { readonly images: ImageStore }): Hono {
  const routes = new Hono();
  routes.get("/agent/v1/images", async (c) => {
    const { filter, page } = readImageQuery(c.req.url);
    const count = await images.count(filter);
    // One more than is shown tells whether another page follows.
    const found = await images.search(filter, { ...page, limit: page.limit + 1 });
    const shown = found.slice(0, page.limit);
    const last = shown.at(-1);
    const next = found.length > shown.length && last !== undefined ? placeText(last.place) : null;
    c.header("x-count", String(count));
    return c.json({ images: shown.map(imageOnWire), next });
  });
  return routes;
}

function imageOnWire({ place: _, ...image }: ListedImage): JsonObject {
  return { ...image, aliases: [...image.aliases] };
}
