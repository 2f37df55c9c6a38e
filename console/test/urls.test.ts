import assert from "node:assert/strict";
import { test } from "node:test";

import { encodeName, link, parseHash, search, url } from "../src/urls";

const NAMES = ["/", "a/b c", "ü?#%25&", "~", "", ".", "..", "100%", "<b>", "a\udc80b", "😀"];

test("names survive encoding and decoding", () => {
  for (const name of NAMES) {
    for (const other of NAMES) {
      const place = parseHash(link(["queues", name, other], { tab: name }));
      assert.deepEqual(place.parts, ["queues", name, other]);
      if (name !== "" && !name.includes("\udc80")) assert.equal(place.query.tab, name);
    }
  }
});

test("bytes that are not UTF-8 are sent back unchanged", () => {
  assert.equal(encodeName("a\udcffb"), "a%FFb");
  assert.equal(url(["queues", "/", "x\udc80"]), "/api/queues/%2F/x%80");
});

test("names that browsers resolve as path segments are refused", () => {
  assert.throws(() => url(["queues", "/", ".."]), /cannot request/);
});

test("empty values are omitted from the query", () => {
  assert.equal(search({ a: "", b: undefined, c: null, d: false, e: 0, f: "x y" }), "?e=0&f=x+y");
  assert.equal(link([]), "#/");
});
