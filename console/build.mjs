// Builds the page into src/headrace/console/dist; with --test runs the unit tests instead.

import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const dist = join(here, "..", "src", "headrace", "console", "dist");
const common = { bundle: true, target: "es2022", logLevel: "warning", legalComments: "eof" };

const html = (js, css) => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>Headrace</title>
<link rel="icon" href="/assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="/assets/${css}">
<script type="module" src="/assets/${js}"></script>
</head>
<body>
<div id="app"></div>
<noscript>This page requires JavaScript. The API does not: see /api/openapi.json.</noscript>
</body>
</html>
`;

const icon = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<rect width="32" height="32" rx="7" fill="#0b7a75"/>
<path d="M6 12c4-4 6-4 10 0s6 4 10 0M6 20c4-4 6-4 10 0s6 4 10 0" fill="none" stroke="#fff"
 stroke-width="2.6" stroke-linecap="round"/></svg>
`;

/** Builds into a new directory and then replaces the old one. */
async function page() {
  const parent = dirname(dist);
  mkdirSync(parent, { recursive: true });
  const fresh = mkdtempSync(join(parent, ".dist-"));
  try {
    const result = await build({
      ...common,
      entryPoints: { app: join(here, "src", "main.tsx") },
      outdir: join(fresh, "assets"),
      entryNames: "[name]-[hash]",
      format: "esm",
      minify: true,
      metafile: true,
      jsx: "automatic",
      jsxImportSource: "preact",
      define: { "process.env.NODE_ENV": '"production"' },
    });
    const outputs = Object.keys(result.metafile.outputs).map((path) => basename(path));
    const js = outputs.find((name) => name.endsWith(".js"));
    const css = outputs.find((name) => name.endsWith(".css"));
    writeFileSync(join(fresh, "assets", "icon.svg"), icon);
    writeFileSync(join(fresh, "index.html"), html(js, css));
    rmSync(dist, { recursive: true, force: true });
    renameSync(fresh, dist);
    for (const [path, output] of Object.entries(result.metafile.outputs)) {
      console.log(`console: ${basename(path)} ${Math.ceil(output.bytes / 1024)} KiB`);
    }
  } finally {
    rmSync(fresh, { recursive: true, force: true });
  }
}

async function test() {
  const out = mkdtempSync(join(tmpdir(), "headrace-console-"));
  try {
    const tests = readdirSync(join(here, "test")).filter((name) => name.endsWith(".test.ts"));
    await build({
      ...common,
      entryPoints: tests.map((name) => join(here, "test", name)),
      outdir: out,
      outExtension: { ".js": ".mjs" },
      format: "esm",
      platform: "node",
    });
    const outputs = readdirSync(out).map((name) => join(out, name));
    return spawnSync(process.execPath, ["--test", ...outputs], { stdio: "inherit" }).status ?? 1;
  } finally {
    rmSync(out, { recursive: true, force: true });
  }
}

if (process.argv.includes("--test")) process.exitCode = await test();
else await page();
