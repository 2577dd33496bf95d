// What the web tests share: TAP, sessions made by plumb, their blobs read without plumb, Chromium, `plumb view`, and plain requests.
//   -k TEXT   --screenshots DIR   --figures FILE
import { spawn, execFileSync, spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import http from "node:http";
import net from "node:net";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

export const here = dirname(fileURLToPath(import.meta.url)), root = resolve(here, "../..");
const require = createRequire(join(root, "web/"));
export const plumb = resolve(process.env.PLUMB ?? join(root, "build/plumb"));
export const option = (name) => { const i = process.argv.indexOf(name); return i > 0 ? process.argv[i + 1] : null; };
export const figures = {};
const wanted = option("-k");
export const dir = mkdtempSync(join(tmpdir(), "plumb-web-"));
export const shots = option("--screenshots") ?? join(dir, "shots");
mkdirSync(shots, { recursive: true });

let count = 0, failed = 0;
export async function test(name, f) {
  if (wanted && !name.includes(wanted)) return;
  count++;
  try {
    await f();
    console.log(`ok ${count} - ${name}`);
  } catch (e) {
    failed++;
    console.log(`not ok ${count} - ${name}\n# ${String(e.stack ?? e).split("\n").slice(0, 6).join("\n# ")}`);
  }
}
export function equal(found, expected, what = "") {
  if (JSON.stringify(found) !== JSON.stringify(expected)) throw new Error(`${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(expected)}`);
}
export function ok(x, what) { if (!x) throw new Error(what); }

// ---- sessions, and their tensors read without plumb ----

export function analyze(model, spec, out, more = []) {
  const r = spawnSync(plumb, ["analyze", model, "--backend", spec, "-o", out, ...more], { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "ignore", "pipe"] });
  if (r.status > 1 || r.status === null) throw new Error(`analyze: ${r.stderr}`);
  return JSON.parse(readFileSync(join(out, "session.json"), "utf8"));
}
export function report(session, file, ...more) { execFileSync(plumb, ["report", session, "-o", file, ...more]); return `file://${file}`; }
export function blob(folder, side) {
  const b = readFileSync(join(folder, "store/blobs", /-([0-9a-f])[0-9a-f]*$/.exec(side.blob)[1], side.blob));
  return new Float32Array(b.buffer, b.byteOffset, b.length / 4);
}
export function make(kind, ...more) {
  const path = join(dir, `${kind}.onnx`);
  execFileSync("/usr/bin/python3", [join(here, "models.py"), path, kind, ...more]);
  return path;
}

const { chromium } = require("playwright-core");
const program = ["/usr/bin/chromium", "/usr/bin/chromium-browser"].find(existsSync);
if (!program) { console.log("1..0 # SKIP no /usr/bin/chromium: tools/setup test"); process.exit(0); }
export const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
export async function open(url, size = { width: 1440, height: 900 }) {
  const context = await browser.newContext({ viewport: size, acceptDownloads: true });
  const page = await context.newPage();
  page.problems = [];
  page.on("pageerror", (e) => page.problems.push(String(e)));
  page.on("console", (m) => { if (m.type() === "error") page.problems.push(m.text()); });
  page.on("request", (r) => { if (!/^(file|blob|data|http:\/\/127\.0\.0\.1)/.test(r.url())) page.problems.push(`asked for ${r.url()}`); });
  await page.goto(url);
  await page.waitForSelector("#app[data-ready]", { timeout: 60000 });
  return page;
}
export const text = (page, selector) => page.locator(selector).innerText();
export const values = (page) => page.$$eval("#rows .row[data-value]", (rows) => rows.sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top)).map((r) => r.dataset.value));
export const settled = (page) => page.waitForFunction(() => document.getElementById("heat-d") && document.getElementById("readout"), null, { timeout: 20000 });

export function serve(args, cwd = dir) {
  const child = spawn(plumb, ["view", "--no-open", "--port", "0", ...args], { cwd, stdio: ["ignore", "pipe", "pipe"] });
  let err = "";
  child.stderr.on("data", (d) => { err += d; });
  return new Promise((done, fail) => {
    let out = "";
    child.on("exit", (code) => fail(new Error(`view ended with ${code}: ${err}`)));
    child.stdout.on("data", (d) => {
      out += d;
      if (!out.includes("\n")) return;
      child.removeAllListeners("exit");
      const link = out.trim(), url = new URL(link);
      const stop = () => new Promise((r) => { child.on("exit", (code) => r({ code, err })); child.kill("SIGTERM"); });
      done({ link, port: Number(url.port), token: url.searchParams.get("token"), stop, child });
    });
  });
}
export function ask(port, path, headers = {}, method = "GET", body = null) {
  return new Promise((done, fail) => {
    const r = http.request({ host: "127.0.0.1", port, path, method, headers }, (a) => {
      const parts = [];
      a.on("data", (d) => parts.push(d));
      a.on("end", () => done({ status: a.statusCode, headers: a.headers, body: Buffer.concat(parts) }));
    });
    r.on("error", fail);
    if (body) r.write(body);
    r.end();
  });
}

export async function until(f, ms) {
  const end = Date.now() + ms;
  for (;;) {
    try { if (await f()) return; } catch (e) { if (Date.now() > end) throw e; }
    if (Date.now() > end) throw new Error(`not within ${ms} ms`);
    await new Promise((r) => setTimeout(r, 100));
  }
}
export async function finish() {
  await browser.close();
  if (option("--figures")) writeFileSync(option("--figures"), JSON.stringify(figures));
  if (Object.keys(figures).length) console.log(`# figures ${JSON.stringify(figures)}`);
  console.log(`1..${count}`);
  rmSync(dir, { recursive: true, force: true });
  process.exit(failed ? 1 : 0);
}
