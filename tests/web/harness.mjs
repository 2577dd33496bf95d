// What the web tests share: TAP, sessions made by plumb, their blobs read without plumb, Chromium, `plumb view`, and plain requests.
//   -k TEXT   --screenshots DIR   --figures FILE   --slow N (pages have a processor N times as slow; workers answer 100 ms late, frames, observers of sizes and the server up to 200)
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
/** Milliseconds after which what was waited for is taken not to come: no test that passes gets there, however busy the machine. */
export const PATIENCE = 90000;
const wanted = option("-k"), slow = Number(option("--slow") ?? 0);
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

/** worst: the largest exit code that is no failure of the test. */
export function analyze(model, spec, out, more = [], worst = 1) {
  const r = spawnSync(plumb, ["analyze", model, "--backend", spec, "-o", out, ...more], { encoding: "utf8", maxBuffer: 1 << 28, stdio: ["ignore", "ignore", "pipe"] });
  if (r.status > worst || r.status === null) throw new Error(`analyze: ${r.stderr}`);
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
// One family of fonts, so that pictures of the page are the same on every machine that has it.
const fonts = join(dir, "fonts.conf");
writeFileSync(fonts, `<?xml version="1.0"?><fontconfig><dir>/usr/share/fonts/truetype/dejavu</dir><selectfont><rejectfont>${["Serif", "Condensed", "ExtraLight", "Oblique"].map((x) => `<glob>*${x}*</glob>`).join("")}</rejectfont></selectfont><cachedir>${join(dir, "fonts")}</cachedir>${["sans-serif", "system-ui", "serif"].map((f) => `<alias><family>${f}</family><prefer><family>DejaVu Sans</family></prefer></alias>`).join("")}<alias><family>monospace</family><prefer><family>DejaVu Sans Mono</family></prefer></alias></fontconfig>`);
export const browser = await chromium.launch({ executablePath: program, env: { ...process.env, FONTCONFIG_FILE: fonts }, args: ["--no-sandbox", "--disable-dev-shm-usage"] });
/** Every answer of the page's worker comes this late: what does not wait for it fails always, not once on a busy machine. */
const delayWorkers = (ms) => {
  window.Worker = class extends Worker {
    set onmessage(f) { super.onmessage = (e) => setTimeout(() => f(e), ms); }
  };
};
/** All else that answers on its own comes up to this late, each time by another amount: frames, observers of sizes, the server; what is sent leaves late, too. */
const delayAll = (ms) => {
  const [frame, ask, late] = [window.requestAnimationFrame.bind(window), window.fetch.bind(window), (f = () => {}) => new Promise((done) => setTimeout(() => done(f()), ms * Math.random()))];
  window.requestAnimationFrame = (f) => frame(() => late(() => f(performance.now())));
  window.ResizeObserver = class extends ResizeObserver {
    constructor(f) { super((...seen) => late(() => f(...seen))); }
  };
  window.fetch = async (what, how) => {
    if (how?.method === "POST") await late();
    const answer = await ask(what, how);
    await late();
    return answer;
  };
};
export const COMPILES = /^To show this, the session's model/;
export async function open(url, size = { width: 1440, height: 900 }, workerDelay = slow ? 100 : 0, before = null) {
  const context = await browser.newContext({ viewport: size, acceptDownloads: true });
  if (workerDelay) await context.addInitScript(delayWorkers, workerDelay);
  if (slow) await context.addInitScript(delayAll, 200);
  const page = await context.newPage();
  page.setDefaultTimeout(PATIENCE);
  // The question whether the model may be compiled here is answered with yes; other dialogs belong to the test that waits for them.
  page.on("dialog", (d) => {
    if (COMPILES.test(d.message())) return d.accept();
    if (page.listenerCount("dialog") === 1) page.problems.push(`a dialog: ${d.message()}`), d.dismiss();
  });
  if (slow) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: slow });
  page.problems = [];
  page.on("pageerror", (e) => page.problems.push(String(e)));
  // 428 is that question, asked by the server.
  page.on("console", (m) => { if (m.type() === "error" && !m.text().includes("status of 428")) page.problems.push(m.text()); });
  page.on("request", (r) => { if (!/^(file|blob|data|http:\/\/127\.0\.0\.1)/.test(r.url())) page.problems.push(`asked for ${r.url()}`); });
  await before?.(page);
  await page.goto(url);
  await page.waitForSelector("#app[data-ready]", { timeout: PATIENCE });
  return page;
}
/** Opens a tab of the inspector; the address keeps it. */
export const tab = (page, name) => page.click(`#tab-${name}`);
export const text = (page, selector) => page.locator(selector).innerText();
export const values = (page) => page.$$eval("#rows .row[data-value]", (rows) => rows.sort((a, b) => parseFloat(a.style.top) - parseFloat(b.style.top)).map((r) => r.dataset.value));
/** The inspector waits for nothing. */
export const idle = (page) => page.waitForFunction(() => document.querySelector(".inspector").ariaBusy !== "true", null, { timeout: PATIENCE });
/** The tensors of the selection are there; pictures are drawn while their tab is open. */
export const settled = (page) => page.waitForFunction(() => document.querySelector(".inspector").ariaBusy === "false" && (document.getElementById("panel-tensors").hidden || (document.getElementById("heat-d") && document.getElementById("readout"))), null, { timeout: PATIENCE });
/** The graph is laid out and drawn as it was last asked for. */
export const drawn = (page) => page.waitForFunction(() => [...document.querySelectorAll("#graph, #graph-b")].every((c) => c.ariaBusy === "false"), null, { timeout: PATIENCE });

export function serve(args, cwd = dir, env = process.env) {
  const child = spawn(plumb, ["view", "--no-open", "--port", "0", ...args], { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
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

/** Waits for what happens on its own: a file that the server writes, a row that is filled in. */
export async function until(f, ms, what = "it") {
  const end = Date.now() + ms;
  for (;;) {
    try { if (await f()) return; } catch (e) { if (Date.now() > end) throw e; }
    if (Date.now() > end) throw new Error(`${what}: not within ${ms} ms`);
    await new Promise((r) => setTimeout(r, 50));
  }
}
/** The same for a value; the last one found is told. */
export async function becomes(f, expected, what = "") {
  await until(async () => { equal(await f(), expected, what); return true; }, PATIENCE, what);
}
/** The same for a text that comes to have a part. */
export async function has(f, part, what = "") {
  await until(async () => { const found = await f(); ok(found.includes(part), `${what}: found ${JSON.stringify(found)}, expected ${JSON.stringify(part)} in it`); return true; }, PATIENCE, what);
}
export async function finish() {
  await browser.close();
  if (option("--figures")) writeFileSync(option("--figures"), JSON.stringify(figures));
  if (Object.keys(figures).length) console.log(`# figures ${JSON.stringify(figures)}`);
  console.log(`1..${count}`);
  rmSync(dir, { recursive: true, force: true });
  process.exit(failed ? 1 : 0);
}
