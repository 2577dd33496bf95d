// Figures of the debugger on large sessions, for bench/README.md.   node tests/web/scale.mjs [NODES…]   (default 10000 100000, and a 4 GB tensor)
// Wall time depends on what else the machine does; of the page's thread the CPU time is told, too.
import { spawnSync } from "node:child_process";
import { closeSync, ftruncateSync, openSync, readFileSync, rmSync, writeSync } from "node:fs";
import { join } from "node:path";
import { analyze, browser, dir, make, plumb, serve } from "./harness.mjs";

const sizes = process.argv.slice(2).map(Number).filter((n) => n > 0);
const median = (all) => [...all].sort((x, y) => x - y)[all.length >> 1];
const cpuOf = (pid) => { const f = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ")[1].split(" "); return (Number(f[11]) + Number(f[12])) * 10; };

async function look(folder) {
  const started = Date.now(), server = await serve([folder]), up = Date.now() - started, cpu = cpuOf(server.child.pid);
  const page = await (await browser.newContext({ viewport: { width: 1440, height: 900 } })).newPage(), cdp = await page.context().newCDPSession(page);
  await cdp.send("Performance.enable", { timeDomain: "threadTicks" });
  const busy = async () => (await cdp.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value * 1000;
  const before = await busy();
  await page.goto(server.link);
  await page.waitForSelector("#app[data-paint]", { timeout: 120000 });
  const thread = (await busy()) - before, paint = Number(await page.locator("#app").getAttribute("data-paint"));
  await page.waitForSelector("#app[data-ready]", { timeout: 120000 });
  await page.locator("#rows").focus();
  const picks = [];
  for (let i = 0; i < 9; i++) {
    await page.keyboard.press("j");
    await page.waitForFunction(() => document.getElementById("heat-d") || document.getElementById("no-tensors"), null, { timeout: 30000 });
    picks.push(Number((await page.locator(".inspector").getAttribute("data-ms")) ?? NaN));
  }
  for (let i = 0; i < 3; i++) await page.click("#unfold");
  const box = await page.locator("#graph").boundingBox(), frames = [];
  await page.mouse.move(box.x + 100, box.y + 100);
  await page.mouse.down();
  for (let i = 0; i < 40; i++) { await page.mouse.move(box.x + 100 + 4 * i, box.y + 100 + 3 * i); frames.push(Number(await page.locator("#graph").getAttribute("data-frame"))); }
  await page.mouse.up();
  const rows = await page.locator("#rows .row").count();
  console.log(`| ${await page.locator("#row-count").innerText()} | server up ${up} ms, ${cpu} ms CPU | first paint ${paint} ms, ${thread.toFixed(0)} ms CPU of the page's thread | selection to inspector ${median(picks)} ms | pan frame ${median(frames)} ms, worst ${Math.max(...frames)} | ${rows} rows exist |`);
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
  analyze(make("chain", String(n)), "jit", folder, ["--skip-determinism", ...(n > 20000 ? ["--save", "none"] : [])]);
  await look(folder);
}
if (!sizes.length) await tensor([1024, 1024, 1024]);
await browser.close();
rmSync(dir, { recursive: true, force: true });
