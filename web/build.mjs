// Bundles the page into one file, web/dist/page.html, that plumb embeds and that is committed, so that building
// plumb needs no node.   node build.mjs [--check]    --check fails when dist is not what the sources give.
// Scripts and styles are inline under a policy that names their hashes: nothing else can run in the page.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = dirname(fileURLToPath(import.meta.url));
const common = {
  bundle: true,
  minify: true,
  write: false,
  target: "es2021",
  charset: "utf8",
  legalComments: "none",
  absWorkingDir: here,
};

async function bundle(entry, define = {}) {
  const out = await build({ ...common, entryPoints: [entry], format: "iife", define });
  return out.outputFiles[0].text.trimEnd();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const worker = await bundle("src/worker.ts");
const script = (await bundle("src/main.ts", { WORKER_SOURCE: JSON.stringify(worker) })).replaceAll(
  "</script",
  "<\\/script",
);
const style = (await build({ ...common, entryPoints: ["src/css/style.css"] })).outputFiles[0].text.trimEnd();
const policy =
  `default-src 'none'; script-src ${hash(script)}; style-src ${hash(style)}; connect-src 'self'; ` +
  "img-src data: blob:; worker-src blob:; base-uri 'none'; form-action 'none'";
const page = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="${policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<title>plumb</title>
<link rel="icon" href="data:,">
<style>${style}</style>
</head>
<body>
<div id="app"></div>
<script type="application/json" id="data"><!--plumb-data--></script>
<script>${script}</script>
</body>
</html>
`;

const path = join(here, "dist/page.html");
if (process.argv.includes("--check")) {
  let old = "";
  try {
    old = readFileSync(path, "utf8");
  } catch {
    /* not there */
  }
  if (old !== page) {
    console.error("web/dist/page.html is not what web/src gives: run `npm --prefix web run build` and commit it");
    process.exit(1);
  }
} else {
  mkdirSync(dirname(path), { recursive: true });
  writeFileSync(path, page);
  console.error(`web/dist/page.html: ${page.length} characters`);
}
