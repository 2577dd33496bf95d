// A file browser for a field: what lies below the folders that `plumb view` was started with.
import type { Server } from "./data";
import { clean, fill, h } from "./dom";

export interface Place {
  roots: string[];
  path: string;
  kind: "none" | "file" | "folder" | "other" | "outside";
  bytes: number;
  names?: [string, "file" | "folder", number][];
  more?: boolean;
}

export const placeOf = async (server: Server, path: string): Promise<Place> =>
  (await server.get(`/api/files?path=${encodeURIComponent(path)}`)).json();

export function sizeText(n: number): string {
  if (n < 1000) return `${n} B`;
  const [unit, k] = n < 1e6 ? ["kB", 1e3] : n < 1e9 ? ["MB", 1e6] : ["GB", 1e9];
  return `${Number((n / k).toPrecision(3))} ${unit}`;
}

/** Opens below a field; what is picked goes into it. `fits`: which files (or folders that are one) may be picked. */
export function browse(
  server: Server,
  into: HTMLElement,
  start: string,
  fits: (name: string, kind: string) => boolean,
  picked: (path: string) => void,
): void {
  const box = h("div", { class: "browser", role: "group", "aria-label": "Files" });
  const close = (): void => box.remove();
  const show = async (path: string, focus: boolean): Promise<void> => {
    try {
      let place = await placeOf(server, path);
      if (place.kind !== "folder") place = await placeOf(server, place.path.split("/").slice(0, -1).join("/"));
      if (place.kind !== "folder") place = await placeOf(server, "");
      draw(place);
      if (focus) box.querySelector<HTMLElement>("li button")?.focus();
    } catch (e) {
      fill(
        box,
        h("p", { class: "warn" }, clean((e as Error).message)),
        h("button", { type: "button", onclick: close }, "Close"),
      );
    }
  };
  const draw = (place: Place): void => {
    const root = place.roots.find((r) => place.path === r || place.path.startsWith(`${r}/`)) ?? place.roots[0],
      up = place.path !== root ? place.path.split("/").slice(0, -1).join("/") : "";
    const names = (place.names ?? [])
      .filter(([name, kind]) => kind === "folder" || fits(name, kind))
      .sort((a, b) => Number(fits(b[0], b[1])) - Number(fits(a[0], a[1])) || (a[0] < b[0] ? -1 : 1));
    const entry = (label: string, size: string, go: () => void): HTMLElement =>
      h("li", {}, h("button", { type: "button", onclick: go }, label, h("span", { class: "size" }, size)));
    fill(
      box,
      h(
        "div",
        { class: "where" },
        ...place.roots.map((r) =>
          h(
            "button",
            { type: "button", "aria-pressed": String(r === root), title: r, onclick: () => void show(r, true) },
            clean(r.split("/").pop() || "/", 60),
          ),
        ),
        h("span", { class: "mono" }, clean(place.path, 200)),
        h("button", { type: "button", onclick: close }, "Close"),
      ),
      h(
        "ul",
        {},
        up ? entry("↑ ..", "", () => void show(up, true)) : null,
        ...names.map(([name, kind, bytes]) =>
          fits(name, kind)
            ? entry(clean(name, 120), kind === "folder" ? "recording" : sizeText(bytes), () => {
                picked(`${place.path === "/" ? "" : place.path}/${name}`);
                close();
              })
            : entry(
                `▸ ${clean(name, 120)}`,
                "",
                () => void show(`${place.path === "/" ? "" : place.path}/${name}`, true),
              ),
        ),
        names.length ? null : h("li", { class: "quiet" }, "Nothing here that fits."),
      ),
    );
    box.dataset.path = place.path;
  };
  into.querySelector(".browser")?.remove();
  into.append(box);
  void show(start, true);
}
