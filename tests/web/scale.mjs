// Figures of the debugger on large sessions, for bench/README.md.   node tests/web/scale.mjs [NODES…]   (default 10000 100000, and a 4 GB tensor)
// Wall time depends on what else the machine does; of the page's thread the CPU time is told, too.
import { spawnSync } from "node:child_process";
import { closeSync, ftruncateSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { loadavg } from "node:os";
import { join } from "node:path";
import { analyze, browser, dir, make, plumb, serve } from "./harness.mjs";

const sizes = process.argv.slice(2).map(Number).filter((n) => n > 0);
const cpuOf = (pid) => { const f = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" "); return (Number(f[11]) + Number(f[12])) * 10; };

const part = (all, share) => [...all].sort((x, y) => x - y)[Math.min(all.length - 1, Math.floor(all.length * share))];

/** From the key to the drawn inspector, in the page's own time. */
const selectNext = () => new Promise((done) => {
  const start = performance.now(), pane = document.querySelector(".inspector");
  document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "j", bubbles: true }));
  const wait = () => (pane.ariaBusy === "true" ? setTimeout(wait, 1) : requestAnimationFrame(() => setTimeout(() => done(performance.now() - start), 0)));
  wait();
});
/** What each of n steps takes up to the end of its frame. */
const frames = async ([what, n]) => {
  const rows = document.getElementById("rows"), graph = document.getElementById("graph"), out = [];
  for (let i = 0; i < n; i++) {
    await new Promise((r) => requestAnimationFrame(r));
    const start = performance.now();
    if (what === "scroll") rows.scrollTop += 400;
    else graph.dispatchEvent(new WheelEvent("wheel", { deltaX: i % 2 ? 5 : -3, deltaY: 31, bubbles: true, cancelable: true }));
    await new Promise((r) => requestAnimationFrame(() => setTimeout(r, 0)));
    out.push(performance.now() - start);
  }
  return out;
};

/** From one frame to the next, while every frame moves: 16.7 ms unless one was missed. */
const intervals = async ([what, n]) => {
  const rows = document.getElementById("rows"), graph = document.getElementById("graph"), frame = () => new Promise((r) => requestAnimationFrame(r)), out = [];
  rows.scrollTop = 0;
  for (let i = 0, before = await frame(); i < n; i++) {
    if (what === "scroll") rows.scrollTop += 400;
    else graph.dispatchEvent(new WheelEvent("wheel", { deltaX: i % 2 ? 5 : -3, deltaY: 31, bubbles: true, cancelable: true }));
    const now = await frame();
    out.push(now - before);
    before = now;
  }
  return out;
};

async function look(folder) {
  const started = Date.now(), server = await serve([folder]), up = Date.now() - started, cpu = cpuOf(server.child.pid);
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage(), cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value * 1000;
  /** Wall times of f, and the CPU time of the page's thread for each of them. */
  const timed = async (f, n) => { const before = await busy(), all = await f(); return `median ${part(all, 0.5).toFixed(0)}, p95 ${part(all, 0.95).toFixed(0)}, worst ${Math.max(...all).toFixed(0)} ms, ${(((await busy()) - before) / n).toFixed(0)} ms CPU`; };
  const before = await busy();
  await page.goto(server.link);
  await page.waitForSelector("#app[data-paint]", { timeout: 120000 });
  const thread = (await busy()) - before, told = (key) => page.locator("#app").getAttribute(`data-${key}`);
  await page.waitForSelector("#app[data-ready]", { timeout: 120000 });
  console.log(`| ${await page.locator("#row-count").innerText()} | load ${loadavg()[0].toFixed(1)} | server up ${up} ms, ${cpu} ms CPU | first paint ${await told("paint")} ms, ready ${await told("ready")} ms; to first paint ${thread.toFixed(0)} ms CPU of the page's thread | ${await page.locator("#rows .row").count()} rows exist |`);
  await page.evaluate(selectNext);
  console.log(`|   select to inspector: ${await timed(async () => { const all = []; for (let i = 0; i < 40; i++) all.push(await page.evaluate(selectNext)); return all; }, 40)} |`);
  console.log(`|   scroll frame: ${await timed(() => page.evaluate(frames, ["scroll", 60]), 60)} |`);
  for (const what of ["scroll", "pan"]) {
    const all = await page.evaluate(intervals, [what, 300]);
    console.log(`|   ${what}, frame to frame: median ${part(all, 0.5).toFixed(0)}, worst ${Math.max(...all).toFixed(0)} ms, ${all.filter((x) => x > 33.5).length} of ${all.length} above 33 |`);
  }
  console.log(`|   pan frame, as it opens: ${await timed(() => page.evaluate(frames, ["pan", 60]), 60)} |`);
  await page.click("#unfold-all");
  await page.waitForFunction(() => document.getElementById("graph").ariaBusy === "false", null, { timeout: 120000 });
  console.log(`|   pan frame, all unfolded: ${await timed(() => page.evaluate(frames, ["pan", 60]), 60)} |`);
  await page.click("#fit");
  console.log(`|   pan frame, all in view: ${await timed(() => page.evaluate(frames, ["pan", 60]), 60)} |`);
  await page.context().close();
  await server.stop();
}

/** Holes in a file: 4 GB that take no room. */
function sparse(file, dims, at, x) {
  const n = 4 * dims.reduce((a, b) => a * b, 1), head = Buffer.from(JSON.stringify({ big: { dtype: "F32", shape: dims, data_offsets: [0, n] } }).padEnd(120)), size = Buffer.alloc(8), value = Buffer.alloc(4);
  size.writeBigUInt64LE(BigInt(head.length));
  value.writeFloatLE(x);
  const fd = openSync(file, "w");
  writeSync(fd, Buffer.concat([size, head]));
  ftruncateSync(fd, 8 + head.length + n);
  writeSync(fd, value, 0, 4, 8 + head.length + 4 * at);
  closeSync(fd);
}

async function tensor(dims) {
  const [a, b, folder] = ["a.safetensors", "b.safetensors", "big"].map((x) => join(dir, x));
  sparse(a, dims, 123456789, 1.5);
  sparse(b, dims, 123456789, 1);
  spawnSync(plumb, ["compare", a, b, "-o", folder]);
  const server = await serve([folder]), ask = async (path) => {
    const t = Date.now(), cpu = cpuOf(server.child.pid), r = await fetch(`http://127.0.0.1:${server.port}${path}`, { headers: { "X-Plumb-Token": server.token } }), n = (await r.arrayBuffer()).byteLength;
    return `${Date.now() - t} ms, ${cpuOf(server.child.pid) - cpu} ms CPU, ${n} bytes`;
  };
  console.log(`| float[${dims}] | figures ${await ask("/api/stats?point=0")} | slice ${await ask("/api/slice?point=0")} |`);
  await server.stop();
}

for (const n of sizes.length ? sizes : [10000, 100000]) {
  const folder = join(dir, `chain${n}`);
  analyze(make("chain", String(n)), "eager", folder, ["--skip-determinism", "--reference", "eager:fp64", ...(n > 20000 ? ["--save", "none"] : [])]);
  await look(folder);
}
if (!sizes.length) await tensor([1024, 1024, 1024]);
await browser.close();
rmSync(dir, { recursive: true, force: true });
