// The page: reads the session, makes the four panes, and keeps them on one selection.
import { App } from "./app";
import { openSource, isServer, type Session, type Source } from "./data";
import { clean, fill, h } from "./dom";
import { Inspector } from "./inspector";
import { keys } from "./keys";
import { Navigator } from "./navigator";
import { Structure } from "./structure";
import { SourcePane } from "./sourcepane";
import { Store, type State } from "./state";
import { addServerSide } from "./serverside";
import { showSetup } from "./setup";

const root = document.getElementById("app")!;

function header(session: Session, store: Store, help: () => void, tools: HTMLElement): HTMLElement {
  const name = session.model.path.split("/").pop() || "session";
  const cycle = (): void =>
    store.set({ theme: { auto: "dark", dark: "light", light: "auto" }[store.state.theme] as State["theme"] });
  return h(
    "header",
    {},
    h("h1", {}, "plumb"),
    h("span", { class: `badge ${session.verdict}`, id: "verdict-badge" }, session.verdict),
    h(
      "span",
      { class: "headline", title: clean(session.reason) },
      clean(
        `${name} · ${session.reason || (session.verdict === "agree" ? `all ${session.points.length} values agree` : "")}`,
        300,
      ),
    ),
    h(
      "span",
      { class: "runs", title: "A, the run under test · B, the reference" },
      clean(
        `A ${session.a.spec || session.a.backend || session.a.path} · B ${session.b.spec || session.b.backend || session.b.path}`,
        160,
      ),
    ),
    tools,
    h(
      "button",
      {
        onclick: () => store.set({ palette: store.state.palette === "default" ? "blue" : "default" }),
        title: "alternative colours: blue and orange",
      },
      "Colours",
    ),
    h("button", { id: "theme", onclick: cycle, title: "dark, light or system theme" }, "Theme"),
    h("button", { id: "help", onclick: help, title: "keys (?)" }, "?"),
  );
}

function applyLook(s: State): void {
  document.documentElement.dataset.theme = s.theme;
  document.documentElement.dataset.palette = s.palette;
}

async function show(source: Source, session: Session): Promise<void> {
  const store = new Store(),
    app = new App(source, session, store);
  applyLook(store.state);
  const navigator = new Navigator(app),
    structure = new Structure(app),
    code = new SourcePane(app),
    inspector = new Inspector(app);
  const help = keys(app, navigator, structure);
  const tools = h("span", { class: "tools" });
  fill(
    root,
    header(session, store, () => help.toggle(), tools),
    h("main", {}, navigator.element, h("div", { class: "middle" }, structure.element, code.element), inspector.element),
    help.element,
  );
  document.title = `plumb: ${clean(session.model.path.split("/").pop() ?? "", 60)} ${session.verdict}`;
  const listKeys: (keyof State)[] = ["metric", "sort", "group", "query", "hide", "verdict", "closed"];
  store.on((s, changed) => {
    const has = (...k: (keyof State)[]): boolean => k.some((x) => changed.has(x));
    if (has("theme", "palette")) {
      applyLook(s);
      structure.recolour();
      navigator.update();
      inspector.update();
    }
    if (has(...listKeys)) {
      app.relist();
      navigator.update();
      navigator.reveal();
    }
    if (has("metric")) structure.recolour();
    if (has("value")) {
      navigator.reveal();
      navigator.update();
      structure.clearNote();
      structure.reveal();
      code.update();
      inspector.update();
    } else if (has("metric")) {
      code.update();
      inspector.update();
    } else if (has("axes", "index", "window", "reduce")) void inspector.reslice(true);
    else if (has("range", "log", "clip")) void inspector.reslice(false);
    if (has("open")) structure.relayout();
    if (has("graph")) void structure.choose();
    if (has("trace")) {
      structure.reveal();
      structure.redraw();
    }
  });
  if (isServer(source)) addServerSide(source, app, inspector, structure, tools);
  navigator.update();
  if (app.point) navigator.reveal();
  code.update();
  inspector.update();
  const graph = source.graph(),
    reference = session.has_reference ? source.graph("reference").catch(() => null) : null; // without it the page lacks only B's names of operations
  await painted();
  root.dataset.paint = performance.now().toFixed(0);
  app.graph = await graph;
  app.reference = await reference;
  if (app.state.query) app.relist();
  navigator.update();
  structure.start();
  code.update();
  inspector.update();
  root.dataset.ready = "1";
}

/** After the next frame; a page in the background has none. */
function painted(): Promise<void> {
  return new Promise((done) => {
    requestAnimationFrame(() => setTimeout(done, 0));
    setTimeout(done, 200);
  });
}

async function start(): Promise<void> {
  const source = openSource();
  try {
    const session = await source.session();
    if (session) await show(source, session);
    else if (isServer(source)) await showSetup(source, root);
    else throw new Error("no session found in this file");
  } catch (e) {
    fill(root, h("p", { class: "failed", role: "alert" }, clean((e as Error).message)));
  }
}

void start();
