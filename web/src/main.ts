// The page: reads the session or the model, makes the four panes, and keeps them on one selection.
import { App } from "./app";
import { openSource, isServer, type Server, type Session, type Source } from "./data";
import { clean, darkScheme, fill, h } from "./dom";
import { Inspector } from "./inspector";
import { keys } from "./keys";
import { sessionOf } from "./model";
import { Navigator } from "./navigator";
import { paneBar, splitter } from "./panes";
import { printed } from "./printed";
import { Structure } from "./structure";
import { SourcePane } from "./sourcepane";
import { Store, type State } from "./state";
import { addCompare, addServerSide } from "./serverside";
import { failed, loading, tour, watchServer } from "./states";
import { setupForm, type Setup } from "./setup";
import { badgeOf, coverageText } from "./summary";
import { showTable, toTable } from "./table";

const root = document.getElementById("app")!;

function header(app: App, help: () => void, tools: HTMLElement): HTMLElement {
  const { session: s, store } = app,
    name = s.model.path.split("/").pop() || "session",
    badge = badgeOf(s, app.metric),
    model = s.kind === "model";
  const cycle = (): void =>
    store.set({
      theme: { auto: "dark", dark: "light", light: "auto" }[store.state.theme] as State["theme"],
    });
  const run = (r: { spec: string; backend: string; path: string }): string =>
    clean((r.spec || r.backend || r.path).split("/").pop() || "not run", 80);
  const reason = model
    ? "Not compared yet"
    : s.reason || (s.verdict === "agree" ? `all ${s.points.length} values agree` : "");
  tools.append(
    h(
      "button",
      {
        class: "wide",
        onclick: () => store.set({ palette: store.state.palette === "default" ? "blue" : "default" }),
        title: "blue and orange instead of green and red",
      },
      "Colours",
    ),
    h("button", { id: "theme", class: "wide", onclick: cycle, title: "dark, light or system theme" }, "Theme"),
    h("button", { id: "help", onclick: help, title: "keys (?)", "aria-label": "? Keys and help" }, "?"),
  );
  return h(
    "header",
    {},
    h("h1", {}, "plumb", h("span", { class: `badge ${badge.look}`, id: "verdict-badge" }, badge.text)),
    h(
      "span",
      { class: "headline", title: clean(reason) },
      clean([reason, badge.note].filter((x) => x).join(" · "), 300),
    ),
    tools,
    h(
      "div",
      { class: "facts" },
      h("span", {}, h("b", {}, clean(name, 80))),
      model ? null : h("span", { class: "runs", title: "the run under test" }, "A ", h("b", {}, run(s.a))),
      model ? null : h("span", { class: "runs", title: "the reference" }, "B ", h("b", {}, run(s.b))),
      model
        ? h("span", {}, `${s.model.nodes} operations`)
        : h("span", { id: "header-coverage", title: "what the verdict rests on" }, coverageText(s)),
    ),
  );
}

function applyLook(s: State): void {
  document.documentElement.dataset.theme = s.theme;
  document.documentElement.dataset.palette = s.palette;
}

interface Panes {
  app: App;
  navigator: Navigator;
  structure: Structure;
  code: SourcePane;
  inspector: Inspector;
}

/** Whatever changes in the state, the panes follow. */
function connect({ app, navigator, structure, code, inspector }: Panes): void {
  const listKeys: (keyof State)[] = ["metric", "sort", "group", "query", "hide", "verdict", "closed", "rest"];
  const recolour = (): void => {
    structure.recolour();
    navigator.update();
    inspector.update();
  };
  darkScheme().addEventListener("change", recolour);
  app.store.on((s, changed) => {
    const has = (...k: (keyof State)[]): boolean => k.some((x) => changed.has(x));
    if (has("theme", "palette")) {
      applyLook(s);
      recolour();
    }
    if (has(...listKeys)) {
      app.relist();
      navigator.update();
      navigator.reveal();
    }
    if (has("metric")) structure.recolour();
    if (has("value")) {
      inspector.update(); // first: the other panes are drawn while its tensors come
      navigator.follow();
      structure.clearNote();
      structure.reveal();
      code.update();
    } else if (has("metric")) {
      code.update();
      inspector.update();
    } else if (has("axes", "index", "window", "reduce")) void inspector.reslice(true);
    else if (has("range", "log", "clip")) void inspector.reslice(false);
    if (has("tab")) inspector.showTab();
    if (has("open")) structure.relayout();
    if (has("graph")) void structure.choose();
    if (has("dims")) {
      app.store.writeAddress();
      location.reload();
    }
    if (has("trace", "path")) {
      if (!has("value")) structure.clearNote();
      structure.reveal();
      structure.redraw();
    }
  });
}

function build(source: Source, session: Session, store: Store): Panes & { tools: HTMLElement } {
  const app = new App(source, session, store);
  applyLook(store.state);
  const navigator = new Navigator(app),
    structure = new Structure(app),
    code = new SourcePane(app),
    inspector = new Inspector(app);
  const help = keys(app, navigator, structure);
  const tools = h("div", { class: "tools" });
  if (isServer(source)) {
    if (session.table) tools.append(toTable(session.table));
    if (session.kind === "session") addServerSide(source, app, inspector, tools);
    else addCompare(source, app, tools);
  }
  const main = h(
    "main",
    {},
    navigator.element,
    splitter(true, "nav", "Width of the list", true),
    h(
      "div",
      { class: "middle" },
      structure.element,
      splitter(false, "src", "Height of the source", false),
      code.element,
    ),
    splitter(true, "insp", "Width of the inspector", false),
    inspector.element,
  );
  const paper = h("div", { class: "printed", id: "printed", "aria-hidden": "true" });
  fill(
    root,
    header(app, () => help.toggle(), tools),
    main,
    paneBar(store, main),
    paper,
    help.element,
  );
  const panes = { app, navigator, structure, code, inspector };
  connect(panes);
  return { ...panes, tools };
}

async function show(source: Source, session: Session): Promise<void> {
  const panes = build(source, session, new Store()),
    { app, navigator, structure, code, inspector } = panes;
  document.title = `plumb: ${clean(session.model.path.split("/").pop() ?? "", 60)} ${session.verdict}`;
  navigator.update();
  if (app.point) navigator.reveal();
  code.update();
  inspector.update();
  const graph = source.graph(),
    reference = session.has_reference ? source.graph("reference").catch(() => null) : null; // without it the page lacks only B's names of operations
  await painted();
  root.dataset.paint = performance.now().toFixed(0);
  app.takeGraph(await graph);
  app.reference = await reference;
  navigator.update();
  structure.start();
  code.update();
  inspector.update();
  root.dataset.ready = performance.now().toFixed(0);
  tour();
  void printed(app, document.getElementById("printed")!);
}

/** A model that nothing was compared with: its graph is all there is. */
async function showModel(server: Server, setup: Setup): Promise<void> {
  const store = new Store(),
    graph = await server.graph("given", store.state.dims);
  if (!graph) throw new Error("the model has no graph");
  const { app, navigator, structure, code, inspector } = build(server, sessionOf(graph, setup.model), store);
  document.title = `plumb: ${clean(setup.model.split("/").pop() ?? "", 60)}`;
  app.takeGraph(graph);
  navigator.update();
  if (app.point) navigator.reveal();
  structure.start();
  code.update();
  inspector.update();
  await painted();
  if (setup.running) document.getElementById("open-setup")?.click(); // a comparison that was started before
  root.dataset.ready = performance.now().toFixed(0);
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
  loading(root);
  try {
    if (isServer(source)) watchServer(source);
    if (isServer(source) && location.hash === "#table" && (await showTable(source, root))) return;
    const session = await source.session();
    if (session) await show(source, session);
    else if (isServer(source)) {
      if (await showTable(source, root)) return;
      const setup: Setup = await (await source.get("/api/setup")).json();
      if (setup.model) await showModel(source, setup);
      else {
        fill(
          root,
          h(
            "header",
            {},
            h("h1", {}, "plumb"),
            h("span", { class: "headline" }, "Nothing is open yet: choose what to compare"),
          ),
          h("main", { class: "alone" }, h("div", { class: "state" }, setupForm(source, setup, null))),
        );
        root.dataset.ready = "1";
      }
    } else throw new Error("no session found in this file");
  } catch (e) {
    failed(root, (e as Error).message, source.live);
  }
}

void start();
