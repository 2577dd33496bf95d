// All channels of a tensor at a glance: a small picture of the error of each, the worst first, on one scale.
import { keyOf, type Picture, type Source, type Stats, type TensorOf } from "./data";
import { fill, h, number } from "./dom";
import { paint, type Range } from "./heat";

const AT_ONCE = 24, // pictures that are asked for together
  SIDE = 24; // cells on a side of each

export class ChannelGrid {
  private cells = h("div", { class: "grid" });
  private more = h("button", { id: "more-channels" });
  private note = h("p", { class: "quiet" });
  private box = h(
    "details",
    { id: "channel-grid", ontoggle: () => this.toggled() },
    h("summary", {}, "Error of each channel"),
    this.note,
    this.cells,
    this.more,
  );
  private tensor: { of: TensorOf; stats: Stats; shown: Picture; order: number[] } | null = null;
  private next = 0; // of order, the first that is not shown
  private open = false;
  private log = false;
  private asked = 0;

  constructor(
    private source: Source,
    private pick: (axis: number, channel: number) => void,
  ) {
    this.more.onclick = () => void this.load();
  }

  /** Another value is selected. */
  forget(): void {
    this.tensor = null;
    this.asked++;
  }

  /** The grid of a tensor with a channel axis and two axes beside it, or nothing. */
  show(of: TensorOf, stats: Stats, shown: Picture, log: boolean): HTMLElement | null {
    const axis = stats.channel_axis ?? -1,
      errors = stats.channels;
    if (!this.source.live || !errors || !shown.b || axis < 0 || shown.axes.some((a) => a < 0 || a === axis))
      return null;
    const same =
      !!this.tensor &&
      keyOf(this.tensor.of) === keyOf(of) &&
      this.tensor.shown.axes.join() === shown.axes.join() &&
      this.log === log;
    if (!same) {
      const size = (x: number): number => (Number.isFinite(x) ? x : Infinity);
      const order = errors.map((_, i) => i).sort((x, y) => size(errors[y]) - size(errors[x]) || x - y);
      this.tensor = { of, stats, shown, order };
      this.log = log;
      this.next = 0;
      this.asked++;
      fill(this.cells);
      if (this.open) void this.load();
    } else this.tensor!.shown = shown;
    this.mark();
    return this.box;
  }

  private toggled(): void {
    this.open = this.box.open;
    if (this.open && this.next === 0) void this.load();
  }

  private async load(): Promise<void> {
    const t = this.tensor;
    if (!t) return;
    const ask = ++this.asked,
      wanted = t.order.slice(this.next, this.next + AT_ONCE);
    this.box.setAttribute("aria-busy", "true");
    this.next += wanted.length;
    this.say();
    for (const c of wanted) {
      const e = await this.cell(c).catch((error: Error) => h("p", { class: "quiet" }, error.message));
      if (ask !== this.asked || !e) return;
      this.cells.append(e);
    }
    this.box.setAttribute("aria-busy", "false");
    this.mark();
  }

  /** One scale for all of them, that of the largest error: what is pale is small. */
  private range(): Range {
    const most = Math.max(...this.tensor!.stats.channels!.filter(Number.isFinite), 0);
    return { lo: -most, hi: most };
  }

  private async cell(channel: number): Promise<HTMLElement | null> {
    const { of, stats, shown } = this.tensor!,
      axis = stats.channel_axis!,
      index = [...shown.index];
    index[axis] = channel;
    const whole = shown.axes.map((a) => shown.dims[a]) as [number, number];
    const p = await this.source.slice(of, { axes: shown.axes, index, at: [0, 0], of: whole, mode: "max", max: SIDE });
    if (!p.d) return null;
    const canvas = h("canvas", { width: p.cols, height: p.rows, "aria-hidden": "true" }),
      g = canvas.getContext("2d")!,
      image = g.createImageData(p.cols, p.rows);
    paint(image, p.d, "difference", this.range(), this.log);
    g.putImageData(image, 0, 0);
    const most = number(stats.channels![channel], 2);
    return h(
      "button",
      {
        "data-channel": channel,
        title: `channel ${channel}: largest error ${most}; click to show it`,
        "aria-label": `channel ${channel}, largest error ${most}`,
        onclick: () => this.pick(axis, channel),
      },
      canvas,
      h("span", {}, `${channel} · ${most}`),
    );
  }

  private say(): void {
    const { stats, order } = this.tensor!;
    this.note.textContent = `Axis ${stats.channel_axis}, worst first, ${Math.min(this.next, order.length)} of ${order.length}; all on one scale, ±${number(this.range().hi, 2)}.`;
    this.more.hidden = this.next >= order.length;
    this.more.textContent = `Next ${Math.min(AT_ONCE, order.length - this.next)}`;
  }

  /** Which of them the large pictures show. */
  private mark(): void {
    const { shown, stats } = this.tensor!;
    for (const e of this.cells.querySelectorAll<HTMLElement>("button"))
      e.setAttribute("aria-pressed", String(Number(e.dataset.channel) === shown.index[stats.channel_axis!]));
  }
}
