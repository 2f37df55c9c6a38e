/** The current page address (the URL's hash) and how to change it. */

import { Shared, useShared } from "./state";
import { link, type PageAddress, parseHash, type Query } from "./urls";

const current = new Shared<PageAddress>(parseHash(location.hash));

window.addEventListener("hashchange", () => {
  current.value = parseHash(location.hash);
});

export function useAddress(): PageAddress {
  return useShared(current);
}

export function navigate(parts: readonly string[], query: Query = {}): void {
  location.hash = link(parts, query);
}

/** Changes the query without a new entry in the browser's history. */
export function updateQuery(query: Query): void {
  const now = current.value;
  history.replaceState(null, "", link(now.parts, { ...now.query, ...query }));
  current.value = parseHash(location.hash);
}
