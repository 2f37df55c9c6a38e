import assert from "node:assert/strict";
import { test } from "node:test";

import { encoded, link, parsed, search, url } from "../src/route";

const NAMES = ["/", "a/b c", "ü?#%25&", "~", "", ".", "..", "100%", "<b>", "a\udc80b", "😀"];

test("every name comes back from the address it is part of", () => {
  for (const name of NAMES) {
    for (const other of NAMES) {
      const place = parsed(link(["queues", name, other], { tab: name }));
      assert.deepEqual(place.parts, ["queues", name, other]);
      if (name !== "" && !name.includes("\udc80")) assert.equal(place.query.tab, name);
    }
  }
});

test("bytes that are no UTF-8 go back as they came", () => {
  assert.equal(encoded("a\udcffb"), "a%FFb");
  assert.equal(url(["queues", "/", "x\udc80"]), "/api/queues/%2F/x%80");
});

test("a name that browsers take for a place in the path is refused", () => {
  assert.throws(() => url(["queues", "/", ".."]), /cannot ask/);
});

test("empty values are left out of the query", () => {
  assert.equal(search({ a: "", b: undefined, c: null, d: false, e: 0, f: "x y" }), "?e=0&f=x+y");
  assert.equal(link([]), "#/");
});
