// Issue 8 part by part on a real session: resnet18 with its third convolution scaled by 1.05, in headless Chromium. Prints TAP.
//   PLUMB=build/plumb node tests/web/test_resnet18.mjs [-k TEXT] [--screenshots DIR]
// What is on screen is checked against session.json and the blobs, which are read here without plumb. `--screenshots docs/img` makes
// the README's pictures.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, readdirSync, renameSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { PATIENCE, analyze, ask, becomes, blob, dir, drawn, equal, finish, has, make, ok, open, plumb, report, root, serve, settled, shots, tab, test, text, until, values } from "./harness.mjs";

const given = join(root, ".cache/models/torch/resnet18.onnx");
if (!existsSync(given)) { console.log("1..0 # SKIP resnet18 is not in .cache: tools/export-models ci"); process.exit(0); }
const model = join(dir, "resnet18.onnx"), folder = join(dir, "rn"), fault = "jit:inject=scale@Conv:3";
renameSync(make("sourced", given), model);
const session = analyze(model, fault, folder);
const culprit = session.blame[0].value, point = session.sync_points.find((p) => p.value === culprit);
const program = Array.from({ length: 80 }, (_, i) => `        x = self.step_${i}(x)`);
for (const p of session.sync_points) program[Number(/:(\d+)$/.exec(p.source)[1]) - 1] = `        x = self.${p.module || p.op.toLowerCase()}(x)`;
writeFileSync(join(dir, "net.py"), program.join("\n"));
const server = await serve([folder, "--source", dir]), headers = { "X-Plumb-Token": server.token };
const at = (value, more = "") => `${server.link}#value=${encodeURIComponent(value)}${more}`;
const shot = (page, name, pane) => (pane ? page.locator(`.${pane}`) : page).screenshot({ path: join(shots, `${name}.png`) });
const shown = (page, what) => page.waitForFunction((w) => document.querySelector(".structure").dataset.shown === w, what, { timeout: 90000 });

const tall = { width: 1440, height: 1600 }; // every row is on screen

await test("the session: the planted convolution is blamed, alone", () => {
  equal([session.blame.length, point.op, point.verdict], [1, "Conv", "culprit"]);
});

await test("part 1, server: nothing without the token; events; slices are reduced, never whole", async () => {
  equal((await ask(server.port, "/api/session")).status, 403);
  equal((await ask(server.port, "/api/graph?of=evil", headers)).status, 400);
  const n = session.sync_points.findIndex((p) => p.metadata.a.shape.length === 4 && p.metadata.a.shape[2] > 32);
  const a = await ask(server.port, `/api/slice?point=${n}&max=16`, headers);
  const head = JSON.parse(a.body.subarray(8, 8 + a.body.readUInt32LE(4)));
  ok(head.rows <= 16 && head.cols <= 16 && head.mode === "max" && head.of[0] > 32, JSON.stringify(head));
  equal((await ask(server.port, `/?token=${server.token}`)).headers["content-security-policy"].includes("default-src 'none'"), true);
});

await test("part 2, page: one file, no request leaves it, the layout runs in a worker", async () => {
  const page = await open(server.link), asked = [];
  page.on("request", (r) => asked.push(r.url()));
  await page.reload();
  await page.waitForSelector("#app[data-ready]");
  equal(asked.filter((u) => !u.startsWith(`http://127.0.0.1:${server.port}/`) && !u.startsWith("blob:") && !u.startsWith("data:")), []);
  await becomes(() => page.workers().length, 1, "workers"); // Chromium tells of them on its own
  equal(page.problems, []);
  await page.context().close();
});

await test("part 3, comparison: model, A, B a recording, inputs by seed, progress, session; recent sessions", async () => {
  const recording = join(dir, "b.safetensors");
  equal(spawnSync(plumb, ["record", given, "--seed", "7", "-o", recording]).status, 0);
  const own = await serve([given]), page = await open(own.link);
  await page.click("#open-setup");
  await page.fill("#set-backend", fault);
  await becomes(() => page.inputValue("#set-seed"), "0", "generated inputs have a seed");
  await page.fill("#set-reference", recording);
  equal([await page.inputValue("#inputs-from"), await page.locator("#set-seed").count()], ["recording", 0], "a recording brings its own");
  await page.selectOption("#set-graph", "given+executed");
  await shot(page, "setup");
  const phases = new Set(); // the server tells of the newest ten times a second: which of them are seen depends on the machine
  await page.exposeFunction("tellPhase", (x) => phases.add(x));
  await page.evaluate(() => new MutationObserver((all) => all.forEach((m) => m.addedNodes.forEach((n) => window.tellPhase(n.textContent.split(" ")[0])))).observe(document.getElementById("job-text"), { childList: true }));
  await page.click("#compare");
  await page.waitForSelector("#verdict-badge.wrong", { timeout: 120000 });
  await page.waitForSelector("#app[data-ready]");
  ok([...phases].some((x) => /^[a-z]/.test(x)), `phases told: ${[...phases]}`);
  await becomes(() => text(page, "#verdict-badge"), "diverged");
  await page.keyboard.press("w");
  await becomes(() => text(page, "#point-name"), culprit, "the same operation is blamed against a recording");
  await shown(page, "given+executed");
  await page.click("#open-setup");
  await becomes(() => page.inputValue("#set-reference"), recording, "the form remembers B");
  const recent = await page.$$eval("#recent option", (all) => all.map((o) => o.value).filter((v) => v));
  equal([recent.length, readdirSync(join(dir, "plumb-out")).filter((x) => x.startsWith("resnet18-view"))], [1, recent]);
  await page.selectOption("#recent", recent[0]);
  await page.waitForLoadState();
  await page.waitForSelector("#app[data-ready]");
  await becomes(() => text(page, "#verdict-badge"), "diverged", "a recent session opens");
  equal((await ask(own.port, "/api/open", { "X-Plumb-Token": own.token, "Content-Type": "application/json" }, "POST", '{"session":"../rn"}')).status, 400, "but none from elsewhere");
  equal(page.problems, []);
  await page.context().close();
  equal((await own.stop()).code, 0);
});

await test("part 4, navigator: sorting finds the fault; metric, filters, search, modules with roll-up, reds, plot", async () => {
  const page = await open(server.link, tall), points = session.sync_points;
  await page.selectOption("#sort", "operation");
  await becomes(() => values(page), points.map((p) => p.value), "in the order of the model");
  const first = points.find((p) => p.similarity === "red").value;
  await page.keyboard.press("n");
  await becomes(() => text(page, "#point-name"), first, "the first red by key");
  equal(first, culprit, "is the planted one");
  await page.keyboard.press("n");
  await page.keyboard.press("p");
  await becomes(() => text(page, "#point-name"), culprit, "next and previous red");
  await page.selectOption("#sort", "similarity");
  await page.selectOption("#metric", "mean_rel");
  const order = points.filter((p) => p.class === "finite").sort((x, y) => y.metrics.mean_rel - x.metrics.mean_rel).map((p) => p.value);
  equal((await values(page)).slice(0, 5), order.slice(0, 5), "sorted by another metric");
  await has(() => text(page, "#legend"), "lower is better", "direction");
  await page.selectOption("#metric", "psnr");
  const count = async (query) => { await page.fill("#search", query); return Number((await text(page, "#row-count")).split(" ")[0]); };
  equal(await count("op=Conv psnr<60"), points.filter((p) => p.op === "Conv" && Number(p.metrics.psnr) < 60).length);
  equal(await count("[1,512,*,*]"), points.filter((p) => p.metadata.a.shape.length === 4 && p.metadata.a.shape[1] === 512).length);
  equal(await count("strides=[1,1] dtype=float"), points.filter((p) => p.op === "Conv" && p.value.includes("conv2")).length, "an attribute");
  equal(await count("module=layer1"), points.filter((p) => p.module.startsWith("layer1")).length);
  await count("");
  await page.selectOption("#group", "module");
  const roll = await page.locator("[data-group='layer1'] .roll").innerText(), inside = points.filter((p) => p.module.startsWith("layer1"));
  ok(roll.includes(`▲${inside.filter((p) => p.similarity === "red").length}`), `layer1 rolls up ${roll}`);
  await page.locator("[data-group='layer1']").click();
  equal((await values(page)).filter((v) => v.includes("layer1")).length, 0, "a folded module hides what is below it");
  await page.selectOption("#group", "none");
  const plot = await page.locator("#plot").boundingBox(), i = points.findIndex((p) => p.value === culprit);
  await page.mouse.click(plot.x + ((i + 0.5) / points.length) * plot.width, plot.y + 10);
  await becomes(() => text(page, "#point-name"), culprit, "a click on the plot of error along the graph");
  await shot(page, "navigator", "navigator");
  equal(page.problems, []);
  await page.context().close();
});

await test("part 5, structure: folded, traced; A as given and as it runs, side by side and merged, on one selection", async () => {
  const page = await open(at(culprit), tall);
  const nodes = async (id = "graph") => { await drawn(page); return Number(await page.locator(`#${id}`).getAttribute("data-nodes")); };
  const open1 = await nodes();
  ok(open1 > 5, "the modules around the selection are open");
  await page.click("#fold");
  ok((await nodes()) < open1, "folded");
  await page.click("#unfold");
  await becomes(() => nodes(), open1, "unfolded");
  await page.selectOption("#graph-of", "given|executed");
  await shown(page, "given|executed");
  const running = await nodes("graph-b");
  ok(running > 3 && running < open1, "fewer operations run than were given");
  ok(/fused \d+/.test(await text(page, "#graph-legend")), "what was fused is counted");
  await becomes(async () => (await page.evaluate(() => location.hash)).includes("graph=given%7Cexecuted"), true, "the address has it");
  const pictures = async () => { await drawn(page); return page.$$eval("#graph, #graph-b", (all) => all.map((c) => c.toDataURL())); };
  const before = await pictures();
  await page.locator(`#rows [data-value="${point.value.replace("conv2/Conv", "relu/Relu")}"]`).click();
  const after = await pictures();
  ok(before[0] !== after[0] && before[1] !== after[1], "both follow the selection");
  await page.locator(`#rows [data-value="${culprit}"]`).click();
  await settled(page);
  await drawn(page);
  await shot(page, "structure", "structure");
  await shot(page, "resnet18");
  await page.selectOption("#graph-of", "given+executed");
  await shown(page, "given+executed");
  await becomes(() => page.locator("#graph-b").count(), 0, "merged: one canvas");
  await page.click("#trace");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#png")]);
  equal(readFileSync(await download.path()).subarray(1, 4).toString(), "PNG");
  equal(page.problems, []);
  await page.context().close();
});

await test("part 6, source: breadcrumbs, the lit line of the program, ONNX text, the C that jit emitted, diverging modules", async () => {
  const page = await open(at(culprit));
  equal((await text(page, "#crumbs")).replace(/\s+/g, ""), "model›layer1›0›conv2");
  const line = Number(/:(\d+)$/.exec(await text(page, "#source-line"))[1]);
  equal(point.source, `/home/somebody/project/net.py:${line}`);
  await page.waitForSelector(".file .lit");
  await has(() => text(page, ".file .lit"), "x = self.layer1.0.conv2(x)", "the file's own line");
  await has(() => text(page, "#onnx-text"), "kernel_shape = [3, 3]", "ONNX");
  await page.locator("#emitted summary").click();
  await page.waitForFunction(() => /^step \d+/.test(document.getElementById("emitted-text").textContent), null, { timeout: 90000 });
  await has(() => text(page, "#emitted-text"), culprit, "C");
  await has(() => text(page, "#modules"), "layer1.0.conv2", "diverging modules");
  await shot(page, "source", "source");
  await page.locator("#crumbs button", { hasText: "layer1" }).click();
  await becomes(() => page.inputValue("#search"), "module=layer1", "a breadcrumb picks its module");
  equal(page.problems, []);
  await page.context().close();
});

await test("part 7, inspector: errors, metadata, a heatmap cell as recorded, linked cursor, slices, worst, charts, npy, repro", async () => {
  const page = await open(at(culprit)), a = blob(folder, point.metadata.a), b = blob(folder, point.metadata.b), shape = point.metadata.a.shape;
  await settled(page);
  await has(() => text(page, "#kind"), "scale 1.05", "kind of error");
  await tab(page, "error");
  await has(() => text(page, "#errors"), "local", "whose error");
  ok((await page.locator("#metrics tr").count()) >= 10, "every metric");
  await tab(page, "operation");
  ok((await text(page, "#metadata")).includes(`[${shape.join(",")}]`), "shape");
  await tab(page, "tensors");
  await settled(page);
  await page.locator("input.index[data-axis='1']").fill("17");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.getElementById("readout") && document.querySelector("input.index[data-axis='1']")?.value === "17");
  await settled(page);
  const heat = page.locator("#heat-d"), box = await heat.boundingBox();
  for (const [fx, fy] of [[0.215, 0.332], [0.774, 0.51]]) {
    await heat.hover({ position: { x: box.width * fx, y: box.height * fy } });
    const got = await page.locator("#readout").evaluate((e) => ({ ...e.dataset })), index = got.index.split(",").map(Number);
    equal(index, [0, 17, Math.floor(fy * shape[2]), Math.floor(fx * shape[3])], "which cell");
    const flat = index.reduce((s, x, i) => s * shape[i] + x, 0);
    equal([Number(got.a), Number(got.b), Number(got.d)], [a[flat], b[flat], a[flat] - b[flat]], "what it holds");
  }
  for (const id of ["log", "clip", "shared"]) await page.locator(`#${id}`).click();
  let worst = 0;
  a.forEach((x, i) => { if (Math.abs(x - b[i]) > Math.abs(a[worst] - b[worst])) worst = i; });
  await tab(page, "elements");
  const named = (await page.locator("#worst button").first().innerText()).replace(/[[\]]/g, "");
  equal(named.split(",").map(Number).reduce((s, x, i) => s * shape[i] + x, 0), worst, "the worst element");
  await page.locator("#worst button").first().click();
  await page.waitForFunction((w) => document.getElementById("readout").dataset.index === w, named);
  await tab(page, "distribution");
  await becomes(() => page.locator("#panel-distribution canvas").count(), 6, "charts");
  equal(await page.$$eval("#panel-distribution canvas", (all) => all.length), 6, "histogram, error, scatter, channels, the two other axes");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#npy-b")]);
  const npy = readFileSync(await download.path());
  ok(npy.subarray(npy.length - b.length * 4).equals(Buffer.from(b.buffer, b.byteOffset, b.length * 4)), "npy");
  await shot(page, "inspector", "inspector");
  await page.click("#minify");
  await page.waitForFunction(() => document.getElementById("minify-text").textContent.includes("the repro is in"), null, { timeout: 180000 });
  ok(existsSync(join(dir, /in (\S+)$/.exec(await text(page, "#minify-text"))[1], "repro.json")), "minify leaves a repro");
  equal(page.problems, []);
  await page.context().close();
});

await test("part 7, inspector: the repro of one operation alone", async () => {
  const out = join(dir, "all"), all = analyze(given, "jit:fuse=off,inject=scale@Conv:1", out), name = all.blame[0].value;
  const own = await serve([out]), page = await open(`${own.link}#value=${encodeURIComponent(name)}`);
  await page.click("#repro");
  await page.waitForFunction(() => document.getElementById("minify-text").textContent.includes("the repro is in"), null, { timeout: 180000 });
  const where = join(dir, /in (\S+)$/.exec(await text(page, "#minify-text"))[1]);
  const r = spawnSync(plumb, ["info", "--json", join(where, "model.onnx")], { encoding: "utf8" });
  equal(JSON.parse(r.stdout).nodes, 1, "one node");
  equal(page.problems, []);
  await page.context().close();
  equal((await own.stop()).code, 0);
});

await test("part 8, habits: keys and help, address and back, pins and undo, notes, dark, a laptop's window", async () => {
  const page = await open(at(culprit), { width: 1280, height: 720 });
  await settled(page);
  await page.locator("#rows").focus();
  await page.keyboard.press("b");
  await page.keyboard.press("k");
  await page.keyboard.press("1");
  await becomes(() => text(page, "#point-name"), culprit, "1 goes to the first pin");
  const pins = () => JSON.parse(readFileSync(join(folder, "notes.json"), "utf8")).pins;
  await page.waitForFunction(() => !document.getElementById("undo").hidden);
  await becomes(pins, [culprit], "pins");
  await page.click("#undo");
  await becomes(pins, [], "undo");
  await page.keyboard.press("?");
  ok(await page.locator("#help-dialog").isVisible(), "help");
  await page.keyboard.press("Escape");
  for (const id of ["#rows", "#graph", "#source-body", "#inspector-body"]) {
    const b = await page.locator(id).boundingBox();
    ok(b.width > 200 && b.height > 100 && b.x + b.width <= 1280 && b.y + b.height <= 721, `${id} ${JSON.stringify(b)}`);
  }
  await page.click("#theme");
  await page.selectOption("#group", "module");
  await drawn(page);
  await page.setViewportSize({ width: 1440, height: 900 });
  await page.waitForTimeout(300); // for the picture only: observers of sizes come after a frame
  await drawn(page);
  await shot(page, "dark");
  equal(page.problems, []);
  await page.context().close();
});

await test("part 8, accepted divergences become a baseline that plumb takes", async () => {
  const page = await open(at(culprit));
  await settled(page);
  await page.click("#accept");
  await page.waitForFunction(() => document.getElementById("baseline").textContent === "Baseline (1)");
  const [download] = await Promise.all([page.waitForEvent("download"), page.click("#baseline")]);
  const file = await download.path(), rows = JSON.parse(readFileSync(file, "utf8")).accepted;
  equal([rows.length, rows[0].value, rows[0].psnr], [1, culprit, point.metrics.psnr]);
  await becomes(() => readFileSync(join(folder, "baseline.json"), "utf8"), readFileSync(file, "utf8"), "it also stands in the session");
  const again = (spec) => spawnSync(plumb, ["analyze", model, "--backend", spec, "--baseline", join(folder, "baseline.json"), "-o", join(dir, `again${Math.random()}`)]).status;
  equal([again(fault), again("jit:inject=scale@Conv:5")], [0, 1], "the known fault passes, another does not");
  await page.keyboard.press("Control+z");
  await until(() => !existsSync(join(folder, "baseline.json")), PATIENCE, "undone: no baseline is left");
  equal(page.problems, []);
  await page.context().close();
});

await test("part 9, report: from disk, offline, all panes; other formats", async () => {
  const link = report(folder, join(dir, "rn.html")), page = await open(link);
  await page.context().setOffline(true);
  await page.keyboard.press("w");
  await settled(page);
  equal([await text(page, "#point-name"), await text(page, "#point-verdict")], [culprit, "culprit"]);
  await becomes(() => page.locator("#open-setup").count(), 0, "nothing that needs a server");
  await page.locator("#heat-d").hover({ position: { x: 5, y: 5 } });
  ok(Number.isFinite(Number(await page.locator("#readout").getAttribute("data-d"))), "a cell");
  equal(page.problems, []);
  await page.context().close();
  for (const format of ["md", "csv", "junit", "sarif", "model-explorer"]) {
    const r = spawnSync(plumb, ["report", folder, "--format", format], { encoding: "utf8" });
    ok(r.status === 0 && r.stdout.replaceAll("\\", "").includes(culprit), format);
  }
});

equal((await server.stop()).code, 0, "the server ends well");
await finish();
