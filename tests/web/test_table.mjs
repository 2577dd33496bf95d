// Folders of several sessions: values by backend (plumb analyze with several --backend), layers by step (plumb generate). Prints TAP.
//   PLUMB=build/plumb node tests/web/test_table.mjs [-k TEXT] [--screenshots DIR]
import { execFileSync, spawnSync } from "node:child_process";
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { ask, becomes, dir, equal, finish, has, make, ok, open, plumb, root, serve, shots, test, text } from "./harness.mjs";

const axe = readFileSync(join(root, "web/node_modules/axe-core/axe.min.js"), "utf8");
async function accessible(page) {
  const found = await page.evaluate(async (source) => {
    (0, eval)(source);
    return (await window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"] })).violations.map((v) => `${v.id}: ${v.nodes[0].html.slice(0, 160)}`);
  }, axe);
  equal(found, [], "axe");
}

await test("table: values by backend, blame of each, and who agree without the reference", async () => {
  const folder = join(dir, "many"), specs = ["jit:inject=scale@Conv:1", "jit:inject=scale@Conv:1,threads=1", "jit"];
  equal(spawnSync(plumb, ["analyze", make("small"), ...specs.flatMap((s) => ["--backend", s]), "-o", folder, "-q"]).status, 1, "analyze");
  const many = JSON.parse(readFileSync(join(folder, "many.json"))), culprit = many.backends[0].blame[0].value;
  const server = await serve([folder]), page = await open(server.link);
  equal([await text(page, "#verdict-badge"), await page.locator("#many-table thead th").count()], ["diverged", 4]);
  const said = await text(page, "#together");
  ok(said.includes(`${specs[0]}) and 2 (${specs[1]}) agree with each other and not with the reference eager`) && said.includes(many.agree_without_reference.value), said);
  const first = page.locator("#many-table tbody tr").first();
  equal(await first.locator("td").evaluateAll((all) => all.map((e) => e.querySelector(".word")?.textContent)), ["culprit", "culprit", many.values.find((v) => v.value === culprit).of[2]?.verdict ?? null], "a cell for each backend");
  const n = await page.locator("#many-table tbody tr").count();
  await page.check("#table-all");
  equal([n < many.values.length, await page.locator("#many-table tbody tr").count()], [true, many.values.length], "all values on request");
  await accessible(page);
  for (const width of [390, 1024]) {
    await page.setViewportSize({ width, height: 800 });
    ok((await page.evaluate(() => document.documentElement.scrollWidth - innerWidth)) <= 0, `no sideways scrolling at ${width}`);
  }
  await page.screenshot({ path: join(shots, "many.png") });
  await page.uncheck("#table-all");
  await first.locator("td button").nth(1).focus();
  await page.keyboard.press("Enter"); // opens the second backend's session there
  await page.waitForSelector("#point-name");
  equal([await text(page, "#point-name"), await text(page, "#point-verdict")], [culprit, "culprit"]);
  await has(() => text(page, ".facts"), "threads=1");
  await page.click("#to-table");
  await page.waitForSelector("#many-table");
  await page.locator("#many-table thead button").first().click(); // the blame of the first
  await page.waitForSelector("#point-name");
  await becomes(() => text(page, "#point-name"), culprit);
  ok(!(await text(page, ".facts")).includes("threads=1"), "the first backend's session");
  equal(page.problems, []);
  await page.context().close();
  equal((await server.stop()).code, 0);
});

await test("table: layers by step; the culprit's cell opens the session of its step", async () => {
  const code = "import sys; sys.path.insert(0, sys.argv[1])\nimport decoders, onnx\ngood, bad, _ = decoders.planted('rotary row', 'genai', 'fp32', 2, 9, 6)\nonnx.save(good, 'source.onnx'); onnx.save(bad, 'decoder.onnx')";
  execFileSync("/usr/bin/python3", ["-c", code, join(root, "tests/python")], { cwd: dir });
  const made = spawnSync(plumb, ["generate", "decoder.onnx", "--reference-model", "source.onnx", "--prompt-ids", "5,2,7,1,3,11", "--steps", "10", "-o", "steps", "--json", "-q"], { cwd: dir, encoding: "utf8" });
  equal(made.status, 1, made.stderr);
  const doc = JSON.parse(made.stdout);
  equal(JSON.parse(readFileSync(join(dir, "steps/generate.json"))), doc, "the file is what --json prints");
  const server = await serve([join(dir, "steps")]), page = await open(server.link), at = doc.first_divergent_step;
  equal([await page.locator("#steps-table tbody tr").count(), await page.locator("tr.first th").innerText()], [doc.steps.length, `step ${at} diverged`]);
  const bad = page.locator("#steps-table td.cell.bad");
  equal(await bad.count(), doc.analyses.flatMap((a) => a.layers).filter((l) => l.culprit).length, "culprits are red");
  equal(await page.locator("tr.first td.cell").evaluateAll((all) => all.findIndex((e) => e.classList.contains("bad"))), doc.blame[0].layer, "in its layer's column");
  await accessible(page);
  await page.screenshot({ path: join(shots, "steps.png") });
  await bad.first().locator("button").click();
  await page.waitForSelector("#point-name");
  await becomes(() => text(page, "#point-name"), doc.analyses.find((a) => a.step === at).layers.find((l) => l.culprit).value);
  await page.click("#to-table");
  await page.waitForSelector("#steps-table");
  equal(page.problems, []);
  await page.context().close();
  equal((await server.stop()).code, 0);
});

await test("table: nothing outside the folder opens; names are text; a broken table is an error", async () => {
  const folder = join(dir, "hostile"), name = "<img src=x onerror=window.pwned=1>";
  mkdirSync(folder);
  symlinkSync("/etc", join(folder, "link"));
  const backend = { spec: name, version: "", verdict: name, reason: name, session: "../../etc", blame: [{ op: name, value: name, q: 9 }] };
  writeFileSync(join(folder, "many.json"), JSON.stringify({ model: name, reference: name, exit_code: 9, metric: "psnr", backends: [backend], agree_without_reference: { value: name, op: name, backends: [0, 7] }, values: [{ value: name, op: name, is_output: false, of: [{ verdict: "culprit", similarity: "red", q: "inf", psnr: "nan" }] }] }));
  const server = await serve([folder]), page = await open(server.link);
  equal(await page.evaluate(() => [window.pwned, document.querySelectorAll("main img").length]), [null, 0]);
  await has(() => text(page, "#many-table"), name, "shown as text");
  for (const session of ["..", "../many", "link", "/etc", ".", "", "none"]) {
    const r = await ask(server.port, "/api/part", { "X-Plumb-Token": server.token, "Content-Type": "application/json" }, "POST", JSON.stringify({ session }));
    ok(r.status === 400 || r.status === 404, `${session}: ${r.status}`);
  }
  await page.locator("#many-table td button").click();
  await page.waitForFunction(() => document.getElementById("table-error").textContent !== "");
  await page.context().close();
  equal((await server.stop()).code, 0);
  writeFileSync(join(folder, "many.json"), "[1");
  ok(await serve([folder]).then(() => false, (e) => /many|hostile/.test(e.message)), "not JSON");
});

await finish();
