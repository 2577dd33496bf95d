// What needs `plumb view` behind the page, and is not in a report.
import type { App } from "./app";
import type { Server } from "./data";
import { fill, h } from "./dom";
import type { Inspector } from "./inspector";

export function addServerSide(server: Server, app: App, inspector: Inspector, tools: HTMLElement): void {
  void server; void app; void inspector; void tools;
}

export function showSetup(server: Server, root: HTMLElement): void {
  void server;
  fill(root, h("p", { class: "failed" }, "no session"));
}
