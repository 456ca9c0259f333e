// What all live views share: elements, colours by name, tooltips, tables, sliders, and one selection.
//
// Each file beside this one registers a view: twb.views["name"] = (host, live, ctx) => ({ update(live), destroy() }).
// `live` is what View.live() gives in Python. `ctx` has select(sel), onSelect(fn), announce(text), send(message), onMessage(fn).
// Colours are CSS variables --twb-<name> from views/theme.py. Nothing here is fetched; every control works by keyboard and has a name.

const twb = (() => {
  const THEMES = /*THEMES*/ {};
  const SVG = "http://www.w3.org/2000/svg";
  const views = {};

  /** An HTML element. `props`: attributes; a function is an event listener, `class`, `style` and `dataset` as expected. */
  function h(tag, props = {}, ...children) {
    return fill(document.createElement(tag), props, children);
  }

  /** An SVG element. */
  function s(tag, props = {}, ...children) {
    return fill(document.createElementNS(SVG, tag), props, children);
  }

  function fill(node, props, children) {
    for (const [name, value] of Object.entries(props)) {
      if (value === undefined || value === null || value === false) continue;
      if (typeof value === "function") node.addEventListener(name, value);
      else if (name === "dataset") Object.assign(node.dataset, value);
      else node.setAttribute(name, value === true ? "" : String(value));
    }
    node.append(...children.flat().filter((c) => c !== null && c !== undefined));
    return node;
  }

  /** Whether the page around is dark: JupyterLab and VS Code say so, else the reader's system does. */
  function isDark() {
    const body = document.body;
    if (body.dataset.jpThemeLight) return body.dataset.jpThemeLight === "false";
    if (body.dataset.vscodeThemeKind) return body.dataset.vscodeThemeKind.includes("dark");
    return window.matchMedia("(prefers-color-scheme: dark)").matches;
  }

  /** Set the colours on `root` and keep them right when the page's theme changes; `changed` hears of it. Returns a function that stops. */
  function themed(root, changed = () => {}) {
    const apply = () => {
      const name = isDark() ? "dark" : "light";
      if (root.dataset.theme === name) return;
      root.dataset.theme = name;
      for (const [key, value] of Object.entries(THEMES[name] ?? {})) root.style.setProperty(`--twb-${key}`, value);
      changed(name);
    };
    apply();
    const seen = new MutationObserver(apply);
    seen.observe(document.body, { attributes: true, attributeFilter: ["data-jp-theme-light", "data-vscode-theme-kind"] });
    const system = window.matchMedia("(prefers-color-scheme: dark)");
    system.addEventListener("change", apply);
    return () => (seen.disconnect(), system.removeEventListener("change", apply));
  }

  /** The colour called `name` as a CSS value; "on:L2" is the ink for words on L2, "#rrggbb" stands for itself. */
  function colour(name) {
    if (name?.startsWith("on:")) return colour(inkOn(name.slice(3)));
    return !name || name === "none" ? "none" : name.startsWith("#") ? name : `var(--twb-${name})`;
  }

  /** The colour called `name` as "#rrggbb" in the page's theme, for a canvas. */
  function rgb(name) {
    return name.startsWith("#") ? name : (THEMES[isDark() ? "dark" : "light"] ?? {})[name] ?? "#888888";
  }

  /** The ink for words on a ground of colour `name`: the page's text or background where one can be read there, else black or white (WCAG 2.2). */
  function inkOn(name) {
    const light = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255)
      .map((p) => (p <= 0.04045 ? p / 12.92 : ((p + 0.055) / 1.055) ** 2.4)).reduce((sum, p, i) => sum + p * [0.2126, 0.7152, 0.0722][i], 0);
    const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    const ground = light(rgb(name));
    const [best] = ["text", "background"].map((ink) => [contrast(light(rgb(ink)), ground), ink]).sort((a, b) => b[0] - a[0]);
    return best[0] >= 4.5 ? best[1] : ground > 0.18 ? "#000000" : "#ffffff";
  }

  /** A selection that several views share: those of one group on the page hear each other. */
  function selection(group) {
    const all = (window.__tileworkbench ??= { groups: new Map() });
    if (!all.groups.has(group)) all.groups.set(group, { now: {}, listeners: new Set() });
    const here = all.groups.get(group);
    return {
      get now() { return here.now; },
      select(sel) {
        if (JSON.stringify(sel) === JSON.stringify(here.now)) return;
        here.now = sel;
        for (const listener of [...here.listeners]) listener(sel);
      },
      onSelect(listener) {
        here.listeners.add(listener);
        return () => here.listeners.delete(listener);
      },
    };
  }

  /** A tip near a point of `host`. `show(text, x, y)` in pixels of the host, `hide()`. */
  function tooltip(host) {
    const box = h("div", { class: "twb-tip", role: "tooltip", hidden: true });
    host.append(box);
    return {
      show(text, x, y) {
        box.textContent = text;
        box.hidden = false;
        const room = host.clientWidth - box.offsetWidth - 4;
        const above = y - box.offsetHeight - 10;
        box.style.left = `${Math.max(2, Math.min(x + 10, room))}px`;
        box.style.top = `${above >= 0 ? above : y + 16}px`;
      },
      hide() { box.hidden = true; },
    };
  }

  /** A table with a caption: {caption, head, rows, left}, where the first `left` columns are words and the rest numbers. */
  function table({ caption = "", head = [], rows = [], left = 1 }) {
    const side = (i) => (i < left ? "twb-word" : "twb-number");
    return h("div", { class: "twb-scroll", tabindex: "0", role: "region", "aria-label": caption || "table" },
      h("table", { class: "twb-table" },
        caption ? h("caption", {}, caption) : null,
        h("thead", {}, h("tr", {}, head.map((c, i) => h("th", { scope: "col", class: side(i) }, String(c))))),
        h("tbody", {}, rows.map((row) => h("tr", {}, row.map((c, i) => h("td", { class: side(i) }, String(c))))))));
  }

  /** A named slider over `labels`: a native range with its value in words. `moved(index)` hears every step. */
  function slider({ name, labels, index = 0, moved }) {
    const id = `twb-${Math.random().toString(36).slice(2)}`;
    const value = h("output", { for: id, class: "twb-value", "aria-hidden": "true" }, labels[index] ?? "");  // the slider says its value itself
    const input = h("input", {
      type: "range", id, min: 0, max: Math.max(0, labels.length - 1), step: 1, value: index, "aria-valuetext": labels[index] ?? "",
      input: () => (show(Number(input.value)), moved(Number(input.value))),
    });
    function show(i) {
      input.value = i;
      value.textContent = labels[i] ?? "";
      input.setAttribute("aria-valuetext", labels[i] ?? "");
    }
    const node = h("div", { class: "twb-slider" }, h("label", { for: id }, name), input, value);
    return { node, input, show, get index() { return Number(input.value); } };
  }

  /** Buttons of which one is on: a tab list whose panels the caller shows. Arrow keys move, as the ARIA pattern asks. */
  function tabs({ names, index = 0, label, chosen }) {
    const base = `twb-${Math.random().toString(36).slice(2)}`;
    const buttons = names.map((name, i) => h("button", {
      type: "button", role: "tab", id: `${base}-${i}`, "aria-controls": `${base}-panel`, class: "twb-tab",
      click: () => choose(i),
      keydown: (event) => {
        const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: names.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = (to + names.length) % names.length;
        choose(next);
        buttons[next].focus();
      },
    }, name));
    const list = h("div", { role: "tablist", "aria-label": label, class: "twb-tabs" }, buttons);
    const panel = h("div", { role: "tabpanel", id: `${base}-panel`, class: "twb-panel" });
    function choose(i) {
      buttons.forEach((b, k) => (b.setAttribute("aria-selected", k === i), (b.tabIndex = k === i ? 0 : -1)));
      panel.setAttribute("aria-labelledby", `${base}-${i}`);
      chosen(i, panel);
    }
    return { list, panel, choose, start: () => choose(index) };
  }

  /** Bytes of a field that Python packed with zlib and base64. */
  async function unpack(text) {
    const raw = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
    const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  /** Put a text into the notebook's cell that still reads as `before`: the one that `host` stands under, or another. Else show it in `place`, to be copied. */
  function putIntoCell(host, place, { text, before, say }, done, announce) {
    const own = host.closest(".jp-Cell");
    const cells = [own, ...(own ? document.querySelectorAll(".jp-Cell") : [])];
    for (const cell of cells) {
      const page = cell?.querySelector(".cm-content");
      const editor = (page?.cmTile ?? page?.cmView)?.view;  // the cell's CodeMirror, where the notebook has one in reach
      if (!before || editor?.state.doc.toString().trim() !== before.trim()) continue;
      editor.dispatch({ changes: { from: 0, to: editor.state.doc.length, insert: text } });
      place.replaceChildren(h("span", { class: "twb-faint" }, done));
      return announce(done);
    }
    const button = (label, name, click) => h("button", { type: "button", "aria-label": name, click }, label);
    const area = h("textarea", { readonly: true, rows: Math.min(8, text.split("\n").length), "aria-label": "text of the new cell", class: "twb-code" });
    area.value = text;
    const copy = button("copy", "copy the text", () => navigator.clipboard?.writeText(text).then(() => announce("copied"), () => area.select()));
    const why = say ? [h("div", { class: "twb-faint" }, say)] : [];
    place.replaceChildren(...why, area, h("div", { class: "twb-buttons" }, copy, button("close", "close the text", () => place.replaceChildren())));
    area.focus();
    area.select();
  }

  const CSS = `
.twb { position: relative; font: 13px/1.45 var(--jp-ui-font-family, system-ui, sans-serif); color: var(--twb-text); background: var(--twb-background);
  max-width: 1100px; box-sizing: border-box; padding: 2px; }
.twb * { box-sizing: border-box; }
.twb svg { display: block; max-width: 100%; height: auto; overflow: visible; }
.twb [data-key] { cursor: pointer; outline: none; }
.twb [data-key]:focus-visible { outline: 2px solid var(--twb-accent); outline-offset: 2px; }
.twb .twb-lit { stroke: var(--twb-selected) !important; stroke-width: 3px; paint-order: stroke; }
.twb text.twb-lit { stroke: none !important; fill: var(--twb-selected); font-weight: 600; }
.twb-tip { position: absolute; z-index: 9; max-width: 340px; padding: 4px 8px; border-radius: 5px; pointer-events: none; white-space: pre-line;
  background: var(--twb-text); color: var(--twb-background); font-size: 12px; }
.twb-scroll { overflow-x: auto; max-width: 100%; }
.twb-table { border-collapse: collapse; margin: 4px 0 8px; font-size: 12.5px; color: inherit; }
.twb-table caption { text-align: left; font-weight: 600; padding: 2px 8px; color: inherit; }
.twb-table th, .twb-table td { padding: 2px 9px; border-bottom: 1px solid var(--twb-grid); white-space: nowrap; background: transparent; color: inherit; }
.twb-table tr { background: transparent !important; }
.twb-word { text-align: left; } .twb-number { text-align: right; font-variant-numeric: tabular-nums; }
.twb-slider { display: flex; align-items: center; gap: 10px; margin: 3px 0; flex-wrap: wrap; }
.twb-slider label { min-width: 86px; font-family: var(--jp-code-font-family, ui-monospace, Menlo, monospace); }
.twb-slider input[type=range] { flex: 1 1 160px; max-width: 420px; accent-color: var(--twb-accent); }
.twb-value { min-width: 70px; font-variant-numeric: tabular-nums; }
.twb button { font: inherit; color: var(--twb-text); background: var(--twb-surface); border: 1px solid var(--twb-grid); border-radius: 6px; padding: 2px 10px;
  cursor: pointer; min-height: 26px; }
.twb button:hover { border-color: var(--twb-accent); }
.twb button:disabled { color: var(--twb-faint); cursor: not-allowed; }
.twb button:focus-visible, .twb input:focus-visible, .twb summary:focus-visible, .twb .twb-scroll:focus-visible { outline: 2px solid var(--twb-accent); outline-offset: 1px; }
.twb-tabs { display: flex; flex-wrap: wrap; gap: 2px; border-bottom: 1px solid var(--twb-grid); margin: 6px 0 8px; }
.twb button.twb-tab { border: none; border-bottom: 2px solid transparent; border-radius: 0; background: transparent; padding: 4px 12px; }
.twb button.twb-tab[aria-selected=true] { border-bottom-color: var(--twb-accent); font-weight: 600; }
.twb-verdict { font-size: 16px; font-weight: 600; margin: 2px 0; }
.twb-faint { color: var(--twb-faint); }
.twb-badge { border: 1px solid var(--twb-DRAM); color: var(--twb-DRAM); border-radius: 9px; padding: 0 8px; font-size: 12px; margin-left: 8px; white-space: nowrap; }
.twb-facts { display: flex; flex-wrap: wrap; gap: 4px 22px; margin: 4px 0; }
.twb-facts div > span { display: block; font-size: 11px; color: var(--twb-faint); }
.twb-details { border: 1px solid var(--twb-grid); border-radius: 6px; padding: 4px 8px; margin: 6px 0; background: var(--twb-surface); }
.twb-buttons { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 6px 0; }
.twb-buttons:empty { display: none; }
.twb-code { width: 100%; font: 12px/1.4 var(--jp-code-font-family, ui-monospace, monospace); color: var(--twb-text); background: var(--twb-surface);
  border: 1px solid var(--twb-grid); border-radius: 6px; padding: 6px; }
.twb-sr { position: absolute; width: 1px; height: 1px; overflow: hidden; clip-path: inset(50%); white-space: nowrap; }
@media (prefers-reduced-motion: no-preference) { .twb [data-group=ghost] { transition: transform 80ms linear; } }
`;

  return { THEMES, CSS, views, h, s, isDark, themed, colour, rgb, inkOn, selection, tooltip, table, slider, tabs, unpack, putIntoCell };
})();
