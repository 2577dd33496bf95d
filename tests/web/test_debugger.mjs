// Parts of the page that have no place in the story of a session: paths, fit, error by axis and channel, values under the pointer, enlarged pictures, the
// tour. Prints TAP.   PLUMB=build/plumb node tests/web/test_debugger.mjs [-k TEXT] [--screenshots DIR]
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { PATIENCE, analyze, becomes, blob, dir, drawn, equal, finish, has, make, ok, open, report, serve, settled, shots, tab, test, text } from "./harness.mjs";

const folder = join(dir, "s"), session = analyze(make("small"), "jit:inject=scale@Conv:3", folder), culprit = session.blame[0].value;
const server = await serve([folder]), at = (more = "") => `${server.link}#value=${encodeURIComponent(culprit)}${more}`;
const point = session.sync_points.find((p) => p.value === culprit), [a, b] = [blob(folder, point.metadata.a), blob(folder, point.metadata.b)], shape = point.metadata.a.shape;

/** The largest |a - b| for each index of an axis, from the session's blobs. */
function largest(axis) {
  const out = new Array(shape[axis]).fill(0), inner = shape.slice(axis + 1).reduce((x, y) => x * y, 1);
  a.forEach((x, i) => { const k = Math.floor(i / inner) % shape[axis]; out[k] = Math.max(out[k], Math.abs(x - b[i])); });
  return out;
}

await test("path: what lies between two values, by button and by key; no path; the address keeps it", async () => {
  const page = await open(at("&open=*"));
  await drawn(page);
  await becomes(() => page.locator("#path").getAttribute("aria-pressed"), "false");
  await page.click("#path");
  await has(() => text(page, "#graph-note"), "select the other end");
  await page.locator("#rows .row[data-value='y']").click();
  // Conv, Relu, Conv, Add, Softmax: between the first and the last stand Relu, Conv, Add
  await has(() => text(page, "#graph-note"), "3 operations between", "from blocks.1's first Conv to the end");
  await becomes(() => page.url().includes("path="), true, "in the address");
  await page.screenshot({ path: join(shots, "path.png") });
  await page.locator("#rows .row[data-value='z']").click();
  await has(() => text(page, "#graph-note"), "No path", "z comes from the input alone");
  await page.keyboard.press("a");
  await becomes(async () => [await page.locator("#path").getAttribute("aria-pressed"), page.url().includes("path=")], ["false", false], "ended by key");
  equal(page.problems, []);
  await page.context().close();
});

await test("fit: the whole of an unfolded graph, with nothing cut off", async () => {
  const page = await open(`${server.link}#open=*`, { width: 1024, height: 700 });
  await drawn(page);
  await page.click("#fit");
  await drawn(page);
  await page.waitForFunction(() => document.querySelector(".mini").hidden); // the minimap is shown only when something is out of view
  const edges = await page.locator("#graph").evaluate((c) => {
    const { data, width, height } = c.getContext("2d").getImageData(0, 0, c.width, c.height), row = (y) => { let n = 0; for (let x = 0; x < width; x++) n += data[4 * (y * width + x) + 3] > 0; return n; };
    return [row(2), row(height - 3)];
  });
  equal(edges, [0, 0], "nothing at the upper and lower border");
  await page.context().close();
});

await test("replay: A against what the operation makes of its own inputs in fp64, in the server and in the report", async () => {
  for (const url of [at("&tab=replay"), `${report(folder, join(dir, "replay.html"))}#value=${encodeURIComponent(culprit)}&tab=replay`]) {
    const page = await open(url);
    await settled(page);
    await page.waitForSelector("#replay-bounds");
    ok((await text(page, "#replay-q")).includes(`q = ${Number(point.q.toPrecision(4))}`), await text(page, "#replay-q"));
    const [, beyond, n] = /times its bound: (\d+) of (\d+)/.exec(await text(page, "#replay-bounds"));
    ok(Number(n) === a.length && Number(beyond) > 0.9 * a.length, await text(page, "#replay-bounds"));
    // the planted fault scales by 1.05
    await page.locator("#heat-b").hover({ position: { x: 9, y: 9 } });
    const cell = await page.locator("#readout").evaluate((e) => [Number(e.dataset.a), Number(e.dataset.b)]);
    ok(Math.abs(cell[0] / cell[1] - 1.05) < 1e-4, `A ${cell[0]}, replay ${cell[1]}`);
    await becomes(() => page.locator("#figure-d figcaption").innerText(), "A − replay");
    await tab(page, "tensors");
    await page.waitForFunction(() => document.querySelector("#panel-tensors #figure-d figcaption")?.textContent === "A − B", null, { timeout: PATIENCE });
    await becomes(() => page.locator("#heat-d").count(), 1, "one set of pictures");
    equal(page.problems, []);
    await page.context().close();
  }
  const page = await open(`${server.link}#value=y&tab=replay`); // no culprit
  await has(() => text(page, "#panel-replay"), "kept for culprits only");
  await page.context().close();
});

await test("weights: type, figures, histogram and picture of each weight of the operation", async () => {
  const page = await open(at("&tab=weights")), part = page.locator(".weight[data-weight='blocks.1.conv1.weight']");
  await part.waitFor();
  ok((await part.innerText()).includes("[8,8,3,3]"), await part.innerText());
  equal([await part.locator("canvas.heat").count(), await part.locator("canvas.chart").count()], [1, 1], "picture, histogram");
  const said = Object.fromEntries(await part.locator("tr").evaluateAll((rows) => rows.map((r) => [r.cells[0].textContent, Number(r.cells[1].textContent)])));
  // numpy's standard_normal((8, 8, 3, 3)) with seed 11, divided by 3 (models.py)
  const [min, max] = execFileSync("/usr/bin/python3", ["-c", "import numpy as np; w = np.random.default_rng(11).standard_normal((8, 8, 3, 3)).astype(np.float32) / 3; print(w.min(), w.max())"], { encoding: "utf8" }).split(" ").map(Number);
  ok(Math.abs(said.min - min) < 1e-3 && Math.abs(said.max - max) < 1e-3, JSON.stringify(said));
  equal(page.problems, []);
  await page.context().close();
});

await test("axes: the largest error of every index is what the session holds; a bar shows its place", async () => {
  const page = await open(at("&tab=distribution"));
  await settled(page);
  const index = session.sync_points.indexOf(point);
  const found = await page.evaluate(async (i) => (await fetch(`/api/stats?point=${i}`, { headers: { "X-Plumb-Token": new URLSearchParams(location.search).get("token") } })).json(), index);
  equal([found.channel_axis, found.channels.map((x) => Math.fround(x))], [1, largest(1).map(Math.fround)], "channels");
  equal(found.profiles.map((p) => [p.axis, p.dim]), [[3, shape[3]], [2, shape[2]]], "the other axes that are longer than one");
  for (const p of found.profiles) equal(p.largest.map(Math.fround), largest(p.axis).map(Math.fround), `axis ${p.axis}`);
  const bars = page.locator("canvas[data-axis='2']");
  await bars.scrollIntoViewIfNeeded();
  const box = await bars.boundingBox();
  await page.mouse.move(box.x + 34 + (box.width - 40) * (17.5 / shape[2]), box.y + 40);
  ok((await text(page, "#tip")).startsWith("index 17 of axis 2"), await text(page, "#tip"));
  await page.mouse.down();
  await page.mouse.up();
  await page.waitForFunction(() => document.getElementById("readout")?.dataset.index?.split(",")[2] === "17");
  equal(page.problems, []);
  await page.context().close();
});

await test("channels: a picture of each, the worst first, on one scale; one is chosen by a click", async () => {
  const page = await open(at());
  await settled(page);
  await page.click("#channel-grid summary");
  await page.waitForSelector("#channel-grid[aria-busy=false]");
  const errors = largest(1), order = errors.map((_, i) => i).sort((x, y) => errors[y] - errors[x]);
  equal(await page.$$eval("#channel-grid [data-channel]", (all) => all.map((e) => Number(e.dataset.channel))), order, "worst first");
  const last = order[order.length - 1];
  await page.click(`#channel-grid [data-channel='${last}']`);
  await page.waitForFunction((c) => document.querySelector(".pickers [data-axis='1']")?.value === String(c), last);
  await page.waitForSelector(`#channel-grid [data-channel='${last}'][aria-pressed=true]`);
  await becomes(() => page.locator("#channel-grid [data-channel]").count(), order.length, "they stay");
  equal(page.problems, []);
  await page.context().close();
});

await test("charts: each has ticks and says the value under the pointer; so do the colour bars", async () => {
  const page = await open(at("&tab=distribution"));
  await page.waitForSelector("#panel-distribution canvas.chart");
  await settled(page);
  const n = await page.locator("#panel-distribution canvas.chart").count();
  ok(n >= 5, `${n} charts`);
  for (let i = 0; i < n; i++) {
    const c = page.locator("#panel-distribution canvas.chart").nth(i), label = await c.getAttribute("aria-label");
    await c.scrollIntoViewIfNeeded();
    const box = await c.boundingBox();
    let told = "";
    for (let s = 0.1; s < 1 && !told; s += 0.04) { // along the diagonal, where a scatter has its points
      await page.mouse.move(box.x + 34 + (box.width - 40) * s, box.y + 4 + (box.height - 22) * (1 - s));
      if (await page.locator("#tip").isVisible()) told = await text(page, "#tip");
    }
    ok(/\d/.test(told), `${label}: ${told}`);
  }
  await tab(page, "tensors");
  await settled(page);
  for (const side of ["a", "d", "b"]) {
    const box = await page.locator(`#scale-${side}`).boundingBox();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
    ok(/\d/.test(await text(page, "#tip")), side);
  }
  equal(page.problems, []);
  await page.context().close();
});

await test("enlarged: the pictures fill the window with their colour bars, once; drag zooms; Close gives them back", async () => {
  const page = await open(at());
  await settled(page);
  const before = await page.locator("#heat-d").boundingBox();
  await page.click("#enlarge");
  await page.waitForSelector("#enlarged[open] #heat-d");
  const [after, frame] = [await page.locator("#heat-d").boundingBox(), await page.locator("#enlarged").boundingBox()];
  ok(after.width > 1.5 * before.width && frame.width > 1400 && frame.height > 860, JSON.stringify([before, after, frame]));
  const twice = await page.evaluate(() => { const n = {}; for (const e of document.querySelectorAll("[id]")) n[e.id] = (n[e.id] ?? 0) + 1; return Object.keys(n).filter((k) => n[k] > 1); });
  equal(twice, [], "an id that stands twice");
  for (const side of ["a", "d", "b"]) ok(await page.locator(`#enlarged #range-${side}`).evaluate((e) => e.textContent.length > 3 && e.getBoundingClientRect().width > 100), `colour bar of ${side}`);
  await page.mouse.move(after.x + after.width * 0.1, after.y + after.height * 0.1);
  await page.mouse.down();
  await page.mouse.move(after.x + after.width * 0.5, after.y + after.height * 0.5);
  await page.mouse.up();
  await page.waitForFunction(() => new URLSearchParams(location.hash.slice(1)).get("window"));
  await page.click("#shrink");
  await page.waitForSelector("#panel-tensors #heat-d");
  equal(page.problems, []);
  await page.context().close();
});

await test("tour: three steps at the first start, which point at panes; Skip ends it for good", async () => {
  const page = await open(server.link, undefined, 0, (p) => p.addInitScript(() => Object.defineProperty(navigator, "webdriver", { get: () => false })));
  await page.waitForSelector("#tour");
  for (const [i, pane] of ["navigator", "structure", "inspector"].entries()) {
    ok((await text(page, "#tour")).includes(`${i + 1} of 3`), await text(page, "#tour"));
    ok(await page.locator(`.${pane}.pointed`).isVisible(), pane);
    if (i < 2) await page.click("#tour .primary");
  }
  await page.click("#tour button:has-text('Skip')");
  equal([await page.locator("#tour").count(), await page.locator(".pointed").count()], [0, 0]);
  await page.reload();
  await page.waitForSelector("#app[data-ready]");
  await drawn(page);
  await becomes(() => page.locator("#tour").count(), 0, "not again");
  await page.context().close();
});

equal((await server.stop()).code, 0);
await finish();
