// What Apple's page on validating against a reference run tells its reader to do, sentence by sentence, in this page: from `plumb view model.onnx` without a
// session to the culprit's tensors and its PyTorch line, by mouse and by keyboard. Prints TAP.   PLUMB=build/plumb node tests/web/test_seed.mjs [-k TEXT]
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { analyze, becomes, dir, drawn, equal, figures, finish, has, ok, open, plumb, report, root, serve, settled, shots, tab, test, text, values } from "./harness.mjs";

// A net with modules, recorded by save_intermediates, which also exports it.
writeFileSync(join(dir, "net.py"), `import torch
import plumb


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(16)
        self.up = torch.nn.Linear(16, 32)
        self.down = torch.nn.Linear(32, 16)

    def forward(self, x):
        y = self.norm(x)
        y = torch.relu(self.up(y))
        return x + self.down(y)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding(50, 16)
        self.blocks = torch.nn.ModuleList([Block(), Block()])
        self.head = torch.nn.Linear(16, 4)

    def forward(self, ids):
        x = self.table(ids)
        for b in self.blocks:
            x = b(x)
        return torch.softmax(self.head(x), -1)


torch.manual_seed(0)
plumb.save_intermediates(Net().eval(), (torch.arange(12).reshape(2, 6),), "net.onnx", "net.safetensors", input_names=["ids"], output_names=["y"])
`);
const record = (program) => execFileSync("/usr/bin/python3", [program], { cwd: dir, env: { ...process.env, PYTHONPATH: join(root, "python"), PLUMB_PROGRAM: plumb }, stdio: ["ignore", "ignore", "inherit"] });
record("net.py");
const FAULT = "jit:inject=scale@Relu:1";

/** Everything the reader is told to see, once the culprit is selected. */
async function seen(page, how) {
  await settled(page);
  await drawn(page);
  await becomes(() => text(page, "#verdict-badge"), "diverged", how);
  const first = page.locator("#rows .row").first(), culprit = (await values(page))[0];
  // "each sync point shows both operation names alongside a similarity score and a color-coded indicator dot"
  ok(/Relu/.test(await first.innerText()) && /^relu$/.test(await first.locator(".op.b").innerText()), `both operation names: ${await first.innerText()}`);
  equal([await first.locator(".dot [aria-hidden]").innerText(), await first.locator(".verdict").innerText()], ["▲", "culprit"], "dot");
  ok(Number.isFinite(Number(await first.locator(".score").innerText())), "score");
  // "In the Inspector, the tensor outputs from both runs are displayed side by side alongside a visual difference"
  await becomes(() => text(page, "#point-name"), culprit, "the culprit is first in the list, and selected");
  for (const side of ["a", "d", "b"]) ok(await page.locator(`#heat-${side}`).isVisible(), `picture of ${side}`);
  // "Use the Source Viewer to trace the operation back to its origin in the PyTorch code"
  await page.waitForSelector("#source-text .lit");
  const lit = page.locator("#source-text .lit");
  ok(/self\.(up|down|head)/.test(await lit.innerText()), await lit.innerText());
  const [a, b] = [await lit.boundingBox(), await page.locator("#source-text").boundingBox()];
  ok(a.y >= b.y - 1 && a.y + a.height <= b.y + b.height + 1, "scrolled to the line");
  // "The module hierarchy at the top of the Source Viewer"
  ok((await text(page, "#crumbs")).replace(/\s+/g, "").startsWith("model›blocks›"), await text(page, "#crumbs"));
  // "Click any sync point to see that operation in the Structure Viewer"
  ok(Number(await page.locator("#graph").getAttribute("data-nodes")) > 3, "its module is unfolded in the graph");
}

await test("seed: by mouse, from the model to the culprit's tensors in at most 8 actions", async () => {
  const server = await serve([join(dir, "net.onnx"), "--source", dir]), page = await open(server.link);
  let actions = 0;
  const act = async (f) => { actions++; await f(); };
  // "Open your .aimodel file": the graph, before anything is compared
  await drawn(page);
  ok(Number(await page.locator("#graph").getAttribute("data-items")) > 2, "the graph is shown");
  // "In the toolbar, click the Comparison button"
  await act(() => page.click("#open-setup"));
  await page.waitForSelector("#setup");
  // "Under Configuration A, set the Target, Function, Compute Unit, and Graph Visualization, and specify your model inputs"
  for (const id of ["set-backend", "set-function", "set-graph", "inputs-from"]) equal(await page.locator(`#${id}`).count(), 1, id);
  await act(() => page.fill("#set-backend", FAULT));
  // "Under Configuration B … select Intermediates File … Click the folder icon and select your file"
  await act(() => page.click("#browse-reference"));
  await act(() => page.locator(".browser li button", { hasText: "net.safetensors" }).click());
  await becomes(() => page.locator("#inputs-from option:checked").innerText(), "from the reference recording", "its inputs come with it");
  // "Click Compare"
  await act(() => page.click("#compare"));
  await page.waitForSelector("#verdict-badge.wrong", { timeout: 60000 });
  await page.waitForSelector("#app[data-ready]");
  await act(() => page.locator("#rows .row").first().click());
  await seen(page, "by mouse");
  ok(actions <= 8, `${actions} actions`);
  figures.actions = actions;
  await page.screenshot({ path: join(shots, "seed.png") });
  // "Sort by Similarity to identify the most divergent pairs, or by Operation"
  for (const sort of ["similarity", "operation", "blame"]) await page.selectOption("#sort", sort);
  // "reports five metrics … The default metric is PSNR … Color indicators are metric-aware"
  await becomes(() => page.inputValue("#metric"), "psnr");
  const metrics = await page.$$eval("#metric option", (o) => o.map((e) => e.value));
  for (const m of ["psnr", "mae", "mse", "max_abs", "mean_rel"]) ok(metrics.includes(m), `${m} of ${metrics}`);
  await tab(page, "error");
  await becomes(() => page.locator("#metrics tr").count(), metrics.length, "all of them in the inspector");
  // "If low-similarity sync points cluster in the same module": the module's values, by its name in the path
  await page.locator("#crumbs button").nth(2).click();
  ok((await page.inputValue("#search")).startsWith("module=blocks."), "the module's values are listed");
  equal(page.problems, []);
  await page.context().close();
  equal((await server.stop()).code, 0);
});

await test("seed: a culprit that B has no counterpart for is first, and shown against fp64", async () => {
  const folder = join(dir, "unpaired"), s = analyze(join(dir, "net.onnx"), "jit:inject=scale@MatMul:2", folder, ["--reference", join(dir, "net.safetensors")]);
  const culprit = s.blame[0].value, point = s.sync_points.find((p) => p.value === culprit), page = await open(report(folder, join(dir, "unpaired.html")));
  equal([point.counterpart, point.metadata.b], ["", null], "MatMul is half of a torch linear");
  equal((await values(page))[0], culprit, "first in the list");
  await becomes(() => page.locator("[data-group='~rest']").count(), 1, "other unpaired values and constants are one line");
  const n = (await values(page)).length;
  await page.locator("[data-group='~rest']").click();
  ok((await values(page)).length > n, "that opens");
  await page.keyboard.press("w");
  await settled(page);
  equal(await page.$$eval(".heats figcaption", (all) => all.map((e) => e.textContent)), ["A", "A − fp64", "fp64"]);
  equal(page.problems, []);
  await page.context().close();
});

await test("seed: the same by keyboard alone, in as many actions", async () => {
  const server = await serve([join(dir, "net.onnx"), "--source", dir]), page = await open(server.link);
  let actions = 0; // going to a control and using it is one
  const tabTo = async (id) => {
    actions++;
    for (let i = 0; i < 80; i++) {
      if (await page.evaluate((x) => document.activeElement?.id === x, id)) return;
      await page.keyboard.press("Tab");
    }
    throw new Error(`${id} is not reached by Tab; the focus is on ${await page.evaluate(() => document.activeElement?.outerHTML.slice(0, 120))}`);
  };
  await tabTo("open-setup");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#setup-dialog[open]");
  await tabTo("set-backend");
  await page.keyboard.press("Control+a");
  await page.keyboard.type(FAULT);
  await tabTo("browse-reference");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => document.activeElement?.closest(".browser li"));
  actions++;
  for (let i = 0; i < 40 && !(await page.evaluate(() => document.activeElement.textContent.startsWith("net.safetensors"))); i++) await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  ok((await page.inputValue("#set-reference")).endsWith("/net.safetensors"), "chosen");
  await tabTo("compare");
  await page.keyboard.press("Enter");
  await page.waitForSelector("#verdict-badge.wrong", { timeout: 60000 });
  await page.waitForSelector("#app[data-ready]");
  actions++;
  await page.keyboard.press("j"); // the first row
  ok(actions <= 8, `${actions} actions`);
  figures.actions_by_keyboard = actions;
  await seen(page, "by keyboard");
  const culprit = await text(page, "#point-name");
  await tabTo("graph"); // along the edges and back
  await page.keyboard.press("ArrowDown");
  ok((await text(page, "#point-name")) !== culprit, "down to what reads it");
  await page.keyboard.press("c");
  await becomes(() => text(page, "#point-name"), culprit, "c: back to the culprit");
  await tabTo("tab-tensors");
  await page.keyboard.press("ArrowRight");
  await becomes(() => page.locator("#tab-error").getAttribute("aria-selected"), "true", "tabs by arrow keys");
  equal(page.problems, []);
  await page.context().close();
  equal((await server.stop()).code, 0);
});

await test("seed: the exported model is wrong: the page says so, with the calls that the exporter dropped", async () => {
  writeFileSync(join(dir, "clamped.py"), `import torch
import plumb


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.l(x) * 3
        y.view(-1).clamp_(0, 1)
        return y + 0.25


torch.manual_seed(2)
plumb.save_intermediates(Net().eval(), (torch.randn(3, 4),), "clamped.onnx", "clamped.safetensors", input_names=["x"], output_names=["y"])
`);
  record("clamped.py");
  const folder = join(dir, "clamped");
  analyze(join(dir, "clamped.onnx"), "jit", folder, ["--reference", join(dir, "clamped.safetensors")]);
  const page = await open(report(folder, join(dir, "clamped.html")));
  await has(() => text(page, "#at-fault"), "exported model is wrong");
  ok(/clamp_\s*dropped.*clamped\.py:12.*y\.view\(-1\)\.clamp_\(0, 1\)/s.test(await text(page, "#lost-calls")), await text(page, "#lost-calls"));
  equal((await values(page))[0], "y", "the value that it makes wrong is first");
  await page.locator("#rows .row").first().click();
  await page.waitForSelector("#lost .lit");
  await becomes(() => text(page, "#lost .lit"), "y.view(-1).clamp_(0, 1)", "in the source pane");
  await page.screenshot({ path: join(shots, "lost.png") });
  equal(page.problems, []);
  await page.context().close();
});

await finish();
