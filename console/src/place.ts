/** Where the reader is: the hash of the address, and ways to change it. */

import { link, type Place, parsed, type Query } from "./route";
import { Shared, useShared } from "./state";

const place = new Shared<Place>(parsed(location.hash));

window.addEventListener("hashchange", () => {
  place.value = parsed(location.hash);
});

export function usePlace(): Place {
  return useShared(place);
}

export function go(parts: readonly string[], query: Query = {}): void {
  location.hash = link(parts, query);
}

/** Change the query of this page without a new entry in the browser's history. */
export function adjust(query: Query): void {
  const now = place.value;
  history.replaceState(null, "", link(now.parts, { ...now.query, ...query }));
  place.value = parsed(location.hash);
}
