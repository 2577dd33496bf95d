// Layout away from the page's thread.
import { scene, type Outline } from "./groups";

let outline: Outline | null = null;
onmessage = (e: MessageEvent): void => {
  if (e.data.outline) outline = e.data.outline as Outline;
  if (outline && e.data.open)
    (postMessage as (x: unknown) => void)({ id: e.data.id, scene: scene(outline, new Set(e.data.open as string[])) });
};
