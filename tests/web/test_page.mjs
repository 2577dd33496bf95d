// What a user meets in the page besides its parts: order and numbers as the command line has them, answers that come late, keys and dialogs, notes, a session that is
// replaced while it is looked at. Prints TAP.   PLUMB=build/plumb node tests/web/test_page.mjs [-k TEXT]
// Sessions are comparisons of recordings that are written here, so that every value is known.
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, readFileSync, readdirSync, renameSync, truncateSync, utimesSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PATIENCE, analyze, ask, becomes, dir, drawn, equal, finish, has, idle, make, ok, open, plumb, report, serve, settled, tab, test, text, until, values } from "./harness.mjs";

const kinds = { F32: Float32Array, F64: Float64Array, I64: BigInt64Array, U64: BigUint64Array };
/** A safetensors file of [name, type, shape, values]. */
function recording(file, tensors) {
  const parts = [], head = new Map();
  let offset = 0;
  for (const [name, dtype, shape, data] of tensors) {
    const bytes = Buffer.from(kinds[dtype].from(data).buffer);
    head.set(name, { dtype, shape, data_offsets: [offset, (offset += bytes.length)] });
    parts.push(bytes);
  }
  const text = Buffer.from(`{${[...head].map(([k, v]) => `${JSON.stringify(k)}:${JSON.stringify(v)}`).join()}}`), n = Buffer.alloc(8);
  n.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(file, Buffer.concat([n, text, ...parts]));
  return file;
}
const big = 2n ** 53n, wave = Array.from({ length: 1000 }, (_, i) => Math.sin(i)), plane = Array.from({ length: 3 * 300 * 300 }, (_, i) => Math.sin(i * i));
// name, type, shape, A, B; A has one that B has not
const all = [
  ["long", "I64", [4], [big, big + 1n, 5n, -7n], [big, big + 2n, 5n, -7n]],
  ["huge", "F64", [2, 2], [1.7e308, -1.7e308, 1, 2], [1.7e308, -1.7e308, 1, 2.5]],
  ["nothing", "F32", [2, 3], Array(6).fill(NaN), Array(6).fill(NaN)],
  ["level", "F64", [100], Array(100).fill(0.1), Array(100).fill(0.125)],
  ["plane", "F32", [3, 300, 300], plane, plane.map((x) => x / 2)],
  ["wild", "F32", [2], [1, NaN], [1, 2]],
  ["far", "F64", [2], [3e20, 1], [1, 1 + 2 ** -50]],
  ["zero1", "F32", [4], Array(4).fill(1e-6), Array(4).fill(0)],
  ["zero2", "F32", [4], Array(4).fill(1e-3), Array(4).fill(0)],
  ["zero3", "F32", [4], Array(4).fill(1), Array(4).fill(0)],
  ["near", "F32", [1000], wave.map((x, i) => x * (1 + 1e-6 * Math.cos(i))), wave],
  ["nearer", "F64", [1000], wave.map((x, i) => x * (1 + 1e-5 * Math.cos(i))), wave],
  ["__proto__", "F32", [3], [1, 1, 1], [2, 2, 2]],
  ["constructor", "F32", [3], [1, 1, 1], [2, 2, 2]],
];
const a = recording(join(dir, "a.safetensors"), [...all.map(([n, t, s, x]) => [n, t, s, x]), ["alone", "F32", [2], [1, 2]]]);
const b = recording(join(dir, "b.safetensors"), all.map(([n, t, s, , y]) => [n, t, s, y]));
const folder = join(dir, "c");
equal(spawnSync(plumb, ["compare", a, b, "-o", folder]).status, 1, "compare");
const session = JSON.parse(readFileSync(join(folder, "session.json"), "utf8"));
const server = await serve([folder]), token = { "X-Plumb-Token": server.token }, at = (value) => `${server.link}#value=${encodeURIComponent(value)}`;
const get = async (path) => JSON.parse((await ask(server.port, path, token)).body);
const numberOf = (value) => session.sync_points.findIndex((p) => p.value === value);
const notes = (where = folder) => JSON.parse(readFileSync(join(where, "notes.json"), "utf8"));

await test("order: the list stands as the command line prints it, by every metric", async () => {
  const page = await open(`${server.link}#sort=similarity`), metrics = await page.$$eval("#metric option", (o) => o.map((e) => e.value));
  ok(metrics.length > 5, "metrics");
  for (const metric of metrics) {
    const csv = spawnSync(plumb, ["report", folder, "--format", "csv", "--metric", metric], { encoding: "utf8" }).stdout.trim().split("\n");
    await page.selectOption("#metric", metric);
    await becomes(() => values(page), csv.slice(1).map((l) => l.split(",")[0]), metric);
  }
  await page.context().close();
});

await test("numbers: a cosine beside 1 is not 1, neither are its limits; what a recording does not say is no input", async () => {
  const page = await open(`${server.link}#metric=cosine&value=nearer`);
  const cosine = session.sync_points[numberOf("nearer")].metrics.cosine, row = (value) => page.locator(`#rows [data-value="${value}"]`);
  ok(cosine < 1 && 1 - cosine < 1e-8, `${cosine}`);
  equal(await row("nearer").locator(".score").innerText(), `1-${Number((1 - cosine).toPrecision(2))}`);
  equal(await row("nearer").locator(".op").first().innerText(), "–");
  await row("near").click();
  ok(/≥ 1-.* ≥ 1-/.test(await text(page, "#legend")), await text(page, "#legend"));
  await page.keyboard.press("Escape");
  await has(() => text(page, "#inspector-body"), a, "which recordings");
  await page.context().close();
});

await test("numbers: 64-bit integers digit by digit, in the figures, the heatmaps and the worst elements", async () => {
  const stats = await get(`/api/stats?point=${numberOf("long")}`);
  equal([stats.equal, stats.worst.map((w) => [w.index, w.whole])], [3, [[[1], [String(big + 1n), String(big + 2n), "-1"]]]]);
  for (const url of [at("long"), `${report(folder, join(dir, "c.html"))}#value=long`]) {
    const page = await open(url);
    await settled(page);
    await tab(page, "elements");
    equal((await text(page, "#worst tr:nth-child(2)")).split("\t"), ["[1]", String(big + 1n), String(big + 2n), "-1"]);
    await page.locator("#worst button").click();
    await becomes(async () => (await text(page, "#readout")).split(" (")[0], `[1]  A ${big + 1n}  B ${big + 2n}  A−B -1`, "the readout"); // after the slice has come
    equal(page.problems, []);
    await page.context().close();
  }
});

await test("numbers: the whole range of doubles has a heatmap; nothing finite has no least; a level line no deviation", async () => {
  const page = await open(at("huge"));
  await settled(page);
  await becomes(() => page.locator("#heat-a").count(), 1);
  const [none, level] = [await get(`/api/stats?point=${numberOf("nothing")}`), await get(`/api/stats?point=${numberOf("level")}`)];
  equal([none.a.min, none.a.max, none.a.mean, none.a.std, none.a.nan], [null, null, null, null, 6]);
  equal([level.a.std, level.b.std, level.a.min], [0, 0, 0.1]);
  const far = await get(`/api/stats?point=${numberOf("far")}`);
  equal([far.decade_first, far.decades.length, far.decades[0], far.decades.at(-1)], [-16, 37, 1, 1], "errors of 9e-16 and 3e20, each in its decade");
  await page.locator("#rows [data-value=wild]").click();
  await settled(page);
  await tab(page, "distribution");
  await becomes(() => text(page, "#no-error"), "1 element differs, by NaN or Inf; 1 equal");
  equal(page.problems, []);
  await page.context().close();
});

await test("slices: the reduction goes back to what it was, and a point that is chosen again is shown as at first", async () => {
  const page = await open(at("plane")), mode = () => text(page, "#picture-mode"), axis = page.locator("input.index");
  await settled(page);
  const [first, chosen] = [await mode(), await axis.inputValue()];
  await page.selectOption("#reduce", "mean");
  await becomes(mode, "mean of 300×300");
  await page.selectOption("#reduce", "max");
  await becomes(mode, first);
  await axis.fill(chosen === "2" ? "0" : "2");
  await page.keyboard.press("Enter");
  await settled(page);
  ok((await axis.inputValue()) !== chosen, "another slice");
  await page.locator("#rows [data-value=plane]").click();
  await becomes(() => axis.inputValue(), chosen);
  await page.context().close();
});

await test("report: a part of a reduced picture tells of the elements that it is of", async () => {
  const page = await open(`${report(folder, join(dir, "part.html"))}#value=plane&axes=1,2&index=0,0,0`);
  await settled(page);
  await tab(page, "elements");
  const index = await page.locator("#worst button").first().innerText().then((t) => Number(t.slice(1).split(",")[0]));
  await page.goto(`${page.url().split("#")[0]}#value=plane&axes=1,2&index=${index},0,0&window=70,101,50,53`);
  await page.reload();
  await page.waitForSelector("#app[data-ready]");
  await settled(page);
  ok(!(await text(page, "#readout")).includes("not in the report"), await text(page, "#readout"));
  const heat = page.locator("#heat-a"), box = await heat.boundingBox();
  for (const [fx, fy] of [[0.02, 0.02], [0.4, 0.6], [0.98, 0.98]]) {
    await heat.hover({ position: { x: box.width * fx, y: box.height * fy } });
    const got = await page.locator("#readout").evaluate((e) => ({ ...e.dataset })), [, rows, cols] = got.index.split(",").map((x) => x.split("…").map(Number));
    let most = 0;
    for (let r = rows[0]; r <= rows.at(-1); r++) for (let c = cols[0]; c <= cols.at(-1); c++) { const x = Math.fround(plane[index * 90000 + r * 300 + c]); if (Math.abs(x) > Math.abs(most)) most = x; }
    equal([Number(got.a), rows.length], [most, 2], got.index);
  }
  await page.context().close();
});

await test("late answers: figures of a point that was left do not stand at the next one, nor does what the cursor told", async () => {
  const page = await open(server.link), slow = numberOf("level");
  let let_go;
  const held = new Promise((done) => { let_go = done; });
  await page.route(new RegExp(`/api/stats\\?point=${slow}(&|$)`), async (r) => { await held; await r.continue(); });
  await page.route(new RegExp(`/api/slice\\?point=${numberOf("near")}&`), async (r) => { // between the figures of "near" and its slice those of "level" come in
    let_go();
    await new Promise((done) => setTimeout(done, 400));
    await r.continue();
  });
  await page.locator("#rows [data-value=zero3]").click();
  await settled(page);
  await page.locator("#heat-a").hover({ position: { x: 3, y: 3 } });
  await has(() => text(page, "#readout"), "A 1 ", "the cursor tells");
  await page.locator("#rows [data-value=level]").click();
  await page.locator("#rows [data-value=near]").click();
  await settled(page);
  ok(!(await text(page, "#readout")).includes("A 1 "), await text(page, "#readout"));
  await tab(page, "distribution");
  const shown = await text(page, "#figures table"), stats = await get(`/api/stats?point=${numberOf("near")}`);
  ok(shown.includes(String(Number(stats.a.min.toPrecision(4)))), `${shown} is not of near: ${stats.a.min}`);
  equal(page.problems, []);
  await page.context().close();
});

await test("keys: what the space presses; a dialog has its keys for itself", async () => {
  const page = await open(at("plane"));
  await settled(page);
  await page.locator("#log").focus();
  await page.keyboard.press("Space");
  await becomes(() => page.isChecked("#log"), true, "a checkbox");
  await tab(page, "operation");
  const details = page.locator("details", { has: page.locator("#metadata") });
  await details.locator("summary").focus();
  await page.keyboard.press("Space");
  await becomes(() => details.evaluate((e) => e.open), false, "a summary");
  await page.click("#open-setup");
  await page.locator("#setup-dialog > button").focus();
  for (const key of ["j", "b", "w"]) await page.keyboard.press(key);
  await becomes(() => text(page, "#point-name"), "plane", "nothing moves behind it");
  await becomes(() => page.locator("#pins button").count(), 0, "nothing is pinned behind it");
  await page.keyboard.press("Escape");
  await becomes(() => page.locator("#setup-dialog").isVisible(), false, "Esc closes it");
  await becomes(() => text(page, "#point-name"), "plane", "and the selection stays");
  await page.context().close();
});

await test("keys: the focus stays where it was when what had it is made anew", async () => {
  const page = await open(at("plane")), axis = page.locator("input.index"), focus = () => page.evaluate(() => document.activeElement.id || document.activeElement.getAttribute("aria-label"));
  await settled(page);
  await axis.fill("0");
  await page.keyboard.press("Enter");
  await settled(page);
  for (const index of ["1", "2"]) {
    await page.keyboard.press("ArrowUp");
    await becomes(() => page.evaluate(() => document.getElementById("picture-mode") && new URLSearchParams(location.hash.slice(1)).get("index")?.split(",")[0]), index, "slice");
    await settled(page);
    await becomes(focus, "index of axis 0");
  }
  await becomes(() => text(page, "#point-name"), "plane");
  await page.locator("#accept").focus();
  for (const pressed of ["true", "false"]) {
    await page.keyboard.press("Enter");
    await becomes(() => page.locator("#accept").getAttribute("aria-pressed"), pressed);
    await becomes(() => focus(), "accept");
  }
  await page.locator("[data-colour=g]").focus();
  await page.keyboard.press("Enter");
  await page.keyboard.press("Enter");
  await becomes(() => page.locator("[data-colour=g]").getAttribute("aria-pressed"), "true", "hidden and shown again");
  await page.context().close();
});

await test("colours: the other palette is one in the dark of the system, too", async () => {
  const page = await open(server.link), colour = (name) => page.evaluate((n) => getComputedStyle(document.documentElement).getPropertyValue(`--${n}`).trim(), name);
  await page.emulateMedia({ colorScheme: "dark" });
  const before = await colour("bad");
  await page.getByText("Colours").click();
  ok((await colour("bad")) !== before, before);
  await page.click("#theme"); // dark, as the system
  const dark = await colour("bad");
  await page.click("#theme");
  await page.click("#theme");
  equal(await colour("bad"), dark, "the same as the dark that was asked for");
  await page.context().close();
});

await test("search: any word of JavaScript is only a word, also in the address", async () => {
  const page = await open(`${server.link}#query=${encodeURIComponent("constructor=1")}`);
  for (const query of ["__proto__=1", "tostring=1", "constructor", "__proto__<1"]) await page.fill("#search", query);
  await page.fill("#search", "constructor");
  await becomes(() => values(page), ["constructor"]);
  equal(page.problems, []);
  await page.context().close();
});

await test("notes: names that JavaScript has; the first press after typing counts; a late answer or a broken file loses nothing", async () => {
  writeFileSync(join(folder, "notes.json"), JSON.stringify({ pins: ["plane"], accepted: [], notes: { near: "from before" }, pairs: [] }));
  const page = await open(server.link);
  for (const value of ["__proto__", "constructor"]) {
    await page.locator(`#rows [data-value="${value}"]`).click();
    await tab(page, "notes");
    await becomes(() => page.inputValue("#note"), "", value);
    await page.fill("#note", `on ${value}`);
    await page.click("#pin");
    await becomes(() => page.locator("#pin").getAttribute("aria-pressed"), "true", `pin of ${value}`);
    await becomes(() => page.inputValue("#note"), `on ${value}`);
  }
  await becomes(() => [notes().pins, Object.entries(notes().notes).sort()], [["plane", "__proto__", "constructor"], [["__proto__", "on __proto__"], ["constructor", "on constructor"], ["near", "from before"]]], "in the file");
  await page.context().close();

  const slow = await open(server.link, undefined, 0, (p) => p.route(/api\/notes/, async (r) => { if (r.request().method() === "GET") await new Promise((done) => setTimeout(done, 700)); await r.continue(); }));
  await slow.locator("#rows [data-value=zero1]").click();
  await slow.keyboard.press("b");
  await becomes(() => notes().pins, ["plane", "__proto__", "constructor", "zero1"], "pinned before the notes were there");
  await slow.context().close();

  const [one, two] = [await open(at("zero2")), await open(at("zero3"))];
  await one.click("#pin");
  await becomes(() => notes().pins.includes("zero2"), true, "pinned in one window");
  await two.evaluate(() => dispatchEvent(new Event("focus"))); // it is come back to
  await two.keyboard.press("b");
  await becomes(() => notes().pins.slice(-2), ["zero2", "zero3"], "and in the other");
  for (const page of [one, two]) await page.context().close();

  writeFileSync(join(folder, "notes.json"), "{ broken by hand");
  const broken = await open(at("zero1"));
  const said = broken.waitForEvent("dialog").then(async (d) => { const m = d.message(); await d.dismiss(); return m; });
  await broken.click("#pin");
  ok((await said).includes("not saved"), await said);
  equal(readFileSync(join(folder, "notes.json"), "utf8"), "{ broken by hand");
  await broken.context().close();
});

await test("replaced: a page of the session before shows nothing of the next one, and does not write into it", async () => {
  const home = join(dir, "home"), names = ["one", "two"].map((x) => join(home, "plumb-out", x));
  mkdirSync(join(home, "plumb-out"), { recursive: true });
  spawnSync(plumb, ["compare", a, b, "-o", names[0]]);
  spawnSync(plumb, ["compare", b, a, "-o", names[1]]);
  const other = await serve([names[0]], home), page = await open(`${other.link}#value=zero3`);
  await settled(page);
  const answer = await ask(other.port, "/api/open", { "X-Plumb-Token": other.token, "Content-Type": "application/json" }, "POST", '{"session":"two"}');
  equal(answer.status, 200);
  await page.locator("#rows [data-value=near]").click();
  await idle(page);
  await has(() => text(page, "#no-tensors"), "another session");
  const said = page.waitForEvent("dialog").then(async (d) => { const m = d.message(); await d.dismiss(); return m; });
  await page.keyboard.press("b");
  ok((await said).includes("another session"), await said);
  equal(readdirSync(names[1]).includes("notes.json"), false);
  await page.reload();
  await page.waitForSelector("#app[data-ready]");
  await page.locator("#rows [data-value=near]").click();
  await settled(page);
  await page.context().close();
  equal((await other.stop()).code, 0);
});

await test("rewritten: a recording that is cut off, replaced and put back while it is looked at", async () => {
  const files = ["ra.safetensors", "rb.safetensors"].map((x) => join(dir, x)), whole = readFileSync(a);
  copyFileSync(a, files[0]);
  copyFileSync(b, files[1]);
  spawnSync(plumb, ["compare", ...files, "-o", join(dir, "rewritten")]);
  const other = await serve([join(dir, "rewritten")]), n = numberOf("plane");
  const slice = async () => { const r = await ask(other.port, `/api/slice?point=${n}`, { "X-Plumb-Token": other.token }); return [r.status, /"sides":"(\w+)"/.exec(r.body.toString("latin1"))?.[1] ?? JSON.parse(r.body).error]; };
  renameSync(files[0], `${files[0]}.away`);
  equal(await slice(), [200, "b"], "not there yet");
  renameSync(`${files[0]}.away`, files[0]);
  equal(await slice(), [200, "abd"], "there");
  truncateSync(files[0], 20000); // what was mapped is gone
  equal(await slice(), [200, "b"], "cut off");
  writeFileSync(files[0], whole.map((x, i) => (i < whole.length - 100 ? x : 0)));
  equal((await slice())[0], 200, "other bytes at the end");
  recording(files[0], all.map(([name, t, s, x]) => [name, t, s, name === "plane" ? x.map((v) => -v) : x]));
  equal(await slice(), [200, "b"], "another recording: not what was compared");
  writeFileSync(files[0], whole);
  equal(await slice(), [200, "abd"], "put back");
  equal((await other.stop()).code, 0);
});

await test("compiling: what A runs may take its time, others are served meanwhile", async () => {
  const slow = join(dir, "slow"), folder = join(dir, "small");
  mkdirSync(slow);
  writeFileSync(join(slow, "cc"), `#!/bin/sh\necho compiles >>${slow}/log\nwhile [ ! -e ${slow}/go ]; do sleep 0.05; done\nexec /usr/bin/cc "$@"\n`, { mode: 0o755 });
  analyze(make("small"), "jit:inject=scale@Conv:3", folder);
  const other = await serve([folder], dir, { ...process.env, HOME: slow, XDG_CACHE_HOME: slow, PATH: `${slow}:${process.env.PATH}` }), shown = { "X-Plumb-Token": other.token }, order = [];
  const emitted = ask(other.port, "/api/emitted?run=yes", shown).then((r) => { order.push("emitted"); return r; });
  const compiled = () => readFileSync(join(slow, "log"), "utf8").split("\n").length - 1;
  await until(() => compiled() > 0, PATIENCE, "it is under way");
  equal((await ask(other.port, "/api/stats?point=1", shown)).status, 200);
  order.push("stats");
  writeFileSync(join(slow, "go"), "");
  equal([(await emitted).status, order], [200, ["stats", "emitted"]]);
  const n = compiled();
  equal((await ask(other.port, "/api/emitted?run=yes", shown)).body.equals((await emitted).body), true, "kept");
  equal(compiled(), n, "not compiled again");
  equal((await other.stop()).code, 0);
});

await test("compare: one that is under way is found again, and can be cancelled", async () => {
  const other = await serve([make("small")]), page = await open(other.link);
  await page.click("#open-setup");
  await page.fill("#set-backend", "jit:inject=hang@Conv:1");
  await page.click("#compare");
  await page.waitForSelector("#cancel:not([disabled])");
  await page.reload();
  await page.waitForSelector("#cancel:not([disabled])");
  ok(await page.isDisabled("#compare"), "no second one");
  await page.click("#cancel");
  await becomes(() => text(page, "#job-text"), "cancelled");
  ok(await page.isEnabled("#compare"), "the next one");
  await page.context().close();
  equal((await other.stop()).code, 0);
});

await test("recent: the newest of very many sessions", async () => {
  const home = join(dir, "very-many");
  for (let i = 0; i < 1100; i++) { // the newest are the last by name
    const folder = join(home, "plumb-out", `s${1000 + i}`), file = join(folder, "session.json");
    mkdirSync(folder, { recursive: true });
    writeFileSync(file, "");
    utimesSync(file, 1e9, 1e9 + i);
  }
  const other = await serve([], home), { recent } = JSON.parse((await ask(other.port, "/api/setup", { "X-Plumb-Token": other.token })).body);
  equal(recent.map((r) => r[1] - 1e9), Array.from({ length: 20 }, (_, i) => 1099 - i));
  equal((await other.stop()).code, 0);
});

await test("B is another model: its own operations stand beside ours", async () => {
  const two = join(dir, "two");
  analyze(make("small"), "eager", two, ["--reference-model", make("other")]);
  const page = await open(report(two, join(dir, "two.html")));
  const ops = await page.locator("#rows [data-value='/blocks.0/act/Relu_output_0'] .op").allInnerTexts();
  equal(ops, ["Relu", "Max"]);
  await page.context().close();
});

await test("B is a model without operations: its graph is empty, not the one before it", async () => {
  const [file, bare] = [join(dir, "bare.onnxtxt"), join(dir, "bare")];
  writeFileSync(file, '<ir_version: 8, opset_import: ["" : 17]>\nbare (float[1,8,40,24] x) => (float[1] y, float[1] z) { y = Constant<value_floats = [1.0]>() z = Constant<value_floats = [2.0]>() }\n');
  analyze(make("small"), "eager", bare, ["--reference-model", file]);
  const page = await open(report(bare, join(dir, "bare.html")));
  const ink = async () => { await drawn(page); return page.locator("#graph").evaluate((c) => c.getContext("2d").getImageData(0, 0, c.width, c.height).data.some((x) => x)); };
  await until(ink, PATIENCE, "A's graph is drawn");
  await page.selectOption("#graph-of", "reference");
  await page.waitForFunction(() => document.querySelector(".structure").dataset.shown === "reference");
  await becomes(ink, false, "B's is not there");
  await page.context().close();
});

await test("an error without end has its bar; of several samples it is told which", async () => {
  const infinite = join(dir, "infinite");
  mkdirSync(infinite);
  const s = JSON.parse(JSON.stringify(session));
  Object.assign(s.sync_points[numberOf("near")], { local: 1, propagated: "inf", amplified: "inf", q: "inf", sample: 2 });
  s.samples = 4;
  writeFileSync(join(infinite, "session.json"), JSON.stringify(s));
  const page = await open(`${report(infinite, join(dir, "i.html"))}#value=near&tab=error`);
  await becomes(() => text(page, "#sample"), "of sample 2, the worst of 4");
  equal((await page.$$eval("#errors meter", (m) => m.map((e) => e.value))), [0, 1, 1]);
  equal(page.problems, []);
  await page.context().close();
});

equal((await server.stop()).code, 0);
await finish();
