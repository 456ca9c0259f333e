// The layout view: tiles as grids of cells. Point at a cell, or walk with the arrow keys: its thread lights up in every tile, with its registers, bank or
// set, and address. Wheel with Ctrl, + and - zoom; numbers stand in cells that are large enough.

(() => {
  const { h, rgb, views } = twb;
  const LEFT = 34, TOP = 20, COLOURS = 32, VIEW_WIDE = 700, VIEW_HIGH = 520;

  /** A packed field: int32 differences, row after row. */
  async function numbers(text) {
    const bytes = await twb.unpack(text);
    const out = new Int32Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 4);
    for (let i = 1; i < out.length; i++) out[i] += out[i - 1];
    return out;
  }

  const numberOf = (mode, value) => (value < 0 ? -1 : mode.mod ? Math.floor(value / mode.div) % mode.mod : Math.floor(value / mode.div));

  function ticks(count, size, room) {
    let step = 1;
    while (step * size < room) step *= 2;
    return Array.from({ length: Math.ceil(count / step) }, (_, i) => i * step);
  }

  /** Neighbours among the lit cells that are shown, joined: [row, first column, count]. */
  function runsOf({ lit, steps }) {
    const cells = lit.map(([r, c]) => [Math.floor(r / steps[0]), Math.floor(c / steps[1])]).sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const out = [];
    for (const [r, c] of cells) {
      const last = out[out.length - 1];
      if (last && last[0] === r && last[1] + last[2] >= c) last[2] = Math.max(last[2], c - last[1] + 1);
      else out.push([r, c, 1]);
    }
    return out;
  }

  views.layout = (host, live, ctx) => {
    let now = live, panels = [], mode = null, zoom = 1, at = null, ready = false;
    const head = h("div"), grid = h("div", { style: "display: grid; gap: 10px 18px; justify-content: start" });
    const status = h("div", { class: "twb-value", style: "min-height: 3em; padding: 4px 2px" });
    const details = h("div", { "aria-live": "polite" });
    const twin = h("pre", { class: "twb-scroll", tabindex: "0" });
    host.append(head, grid, status, details, h("details", {}, h("summary", {}, "as text"), twin));

    // ------------------------------------------------------------------ the numbers of a cell
    const has = (panel, m) => !!panel.values[m.of];
    const modeOf = (panel) => (has(panel, mode) ? mode : now.modes.find((m) => has(panel, m)));
    const owner = (panel, i) => (panel.values.owner ? panel.values.owner[i] : null);

    /** What to light for a cell: its holder in all tiles, or where nobody holds it, the cells of the same bank, line or set. */
    function sameAs({ panel, index }) {
      const who = owner(panel, index);
      if (who !== null && who >= 0 && mode.of !== "address") return { of: "owner", name: panel.spec.owner_name, div: 1, mod: 0, number: who };
      const m = modeOf(panel);
      return { ...m, number: numberOf(m, panel.values[m.of][index]) };
    }

    const isSame = (same, panel, i) => !!panel.values[same.of] && (same.of !== "owner" || panel.spec.owner_name === same.name) && numberOf(same, panel.values[same.of][i]) === same.number;

    function tell(panel, index) {
      const s = panel.spec, row = Math.floor(index / s.columns) * s.steps[0], column = (index % s.columns) * s.steps[1];
      const parts = [`${s.title}, row ${row}, column ${column}`];
      for (const m of now.modes) if (has(panel, m)) parts.push(`${m.name} ${nothing(numberOf(m, panel.values[m.of][index]))}`);
      if (panel.values.address) parts.push(`address ${panel.values.address[index]}`);
      return { row, column, text: parts.join(", ") + (now.line ? `, ${now.line.split("/").pop()}` : "") };
    }

    const nothing = (n) => (n < 0 ? "none" : n);

    // ------------------------------------------------------------------ drawing
    function cellSize(panel) {
      const byColumn = {}, byRow = {};
      for (const p of panels) {
        byColumn[p.spec.spot[1]] = Math.max(byColumn[p.spec.spot[1]] ?? 0, p.spec.columns);
        byRow[p.spec.spot[0]] = Math.max(byRow[p.spec.spot[0]] ?? 0, p.spec.rows);
      }
      const sum = (o) => Object.values(o).reduce((a, b) => a + b, 0);
      let wide = Math.min(34, Math.max(2, Math.floor((VIEW_WIDE - (LEFT + 18) * Object.keys(byColumn).length) / sum(byColumn))));
      let high = Math.min(24, Math.max(2, Math.floor((VIEW_HIGH - (TOP + 26) * Object.keys(byRow).length) / sum(byRow))));
      if (Math.min(wide, high) < 12) { wide = Math.min(wide, 2 * high); high = Math.min(high, 2 * wide); }
      return [wide * zoom, high * zoom];
    }

    /** One pixel for each cell; drawn enlarged it is the grid. */
    function paintCells(panel) {
      const { rows, columns } = panel.spec, m = modeOf(panel), values = panel.values[m.of];
      const pen = panel.image.getContext("2d"), picture = pen.createImageData(columns, rows);
      const palette = ["unused", ...Array.from({ length: COLOURS }, (_, i) => `cell${i}`)].map((name) => {
        const code = rgb(name);
        return (255 << 24) | (parseInt(code.slice(5, 7), 16) << 16) | (parseInt(code.slice(3, 5), 16) << 8) | parseInt(code.slice(1, 3), 16);
      });
      const pixels = new Uint32Array(picture.data.buffer);
      for (let i = 0; i < values.length; i++) {
        const n = numberOf(m, values[i]);
        pixels[i] = palette[n < 0 ? 0 : 1 + (n % COLOURS)];
      }
      pen.putImageData(picture, 0, 0);
    }

    /** A veil over everything that is not lit. */
    function paintVeil(panel, same) {
      const { rows, columns } = panel.spec, pen = panel.veil.getContext("2d"), picture = pen.createImageData(columns, rows);
      const code = rgb("background"), pixels = new Uint32Array(picture.data.buffer);
      const veil = (150 << 24) | (parseInt(code.slice(5, 7), 16) << 16) | (parseInt(code.slice(3, 5), 16) << 8) | parseInt(code.slice(1, 3), 16);
      let lit = 0;
      for (let i = 0; i < pixels.length; i++) if (isSame(same, panel, i)) lit++; else pixels[i] = veil;
      pen.putImageData(picture, 0, 0);
      return lit;
    }

    function draw(panel) {
      const start = performance.now();
      const { rows, columns, steps } = panel.spec, [wide, high] = cellSize(panel);
      const box = panel.scroller, full = [LEFT + columns * wide + 2, TOP + rows * high + 2];
      panel.sizer.style.width = `${full[0]}px`;
      panel.sizer.style.height = `${full[1]}px`;
      const view = [Math.min(full[0], VIEW_WIDE), Math.min(full[1], VIEW_HIGH)];
      box.style.width = `${view[0] + (full[1] > view[1] ? 14 : 0)}px`;
      box.style.height = `${view[1] + (full[0] > view[0] ? 14 : 0)}px`;
      const ratio = window.devicePixelRatio || 1, canvas = panel.canvas;
      canvas.width = view[0] * ratio; canvas.height = view[1] * ratio;
      canvas.style.width = `${view[0]}px`; canvas.style.height = `${view[1]}px`;
      const pen = canvas.getContext("2d"), [dx, dy] = [box.scrollLeft, box.scrollTop];
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.fillStyle = rgb("background");
      pen.fillRect(0, 0, ...view);
      const left = LEFT - dx, top = TOP - dy;
      pen.save();
      pen.beginPath(); pen.rect(LEFT, TOP, view[0], view[1]); pen.clip();
      pen.imageSmoothingEnabled = false;
      pen.drawImage(panel.image, left, top, columns * wide, rows * high);
      if (panel.lit) pen.drawImage(panel.veil, left, top, columns * wide, rows * high);
      const span = {
        r0: Math.max(0, Math.floor(dy / high)), r1: Math.min(rows, Math.ceil((dy + view[1]) / high)),
        c0: Math.max(0, Math.floor(dx / wide)), c1: Math.min(columns, Math.ceil((dx + view[0]) / wide)),
      };
      if (high > 12 && wide >= 15) words(pen, panel, span, left, top, wide, high);
      outlines(pen, panel, span, left, top, wide, high);
      pen.restore();
      pen.font = "9px system-ui, sans-serif";
      pen.fillStyle = rgb("faint");
      pen.textAlign = "center";
      for (const c of ticks(columns, wide, 22)) if (left + (c + 0.5) * wide >= LEFT) pen.fillText(c * steps[1], left + (c + 0.5) * wide, TOP - 5);
      pen.textAlign = "right";
      for (const r of ticks(rows, high, 11)) if (top + (r + 0.5) * high >= TOP) pen.fillText(r * steps[0], LEFT - 5, top + (r + 0.5) * high + 3);
      host.dataset.drawMs = (performance.now() - start).toFixed(2);
    }

    function words(pen, panel, span, left, top, wide, high) {
      const m = modeOf(panel), values = panel.values[m.of], slots = m.of === "owner" && m.div === 1 ? panel.values.slot : null;
      pen.fillStyle = rgb("text");
      pen.textAlign = "center";
      pen.font = `${Math.min(high * 0.6, 11)}px ui-monospace, Menlo, Consolas, monospace`;
      for (let r = span.r0; r < span.r1; r++) for (let c = span.c0; c < span.c1; c++) {
        const i = r * panel.spec.columns + c, n = numberOf(m, values[i]);
        if (n < 0) continue;
        const word = slots && wide >= 34 ? `${n}:${slots[i]}` : `${n}`;
        if (word.length * 6.2 <= wide + 2) pen.fillText(word, left + (c + 0.5) * wide, top + (r + 0.5) * high + 4);
      }
    }

    function outlines(pen, panel, span, left, top, wide, high) {
      const box = (r, c, count = 1) => pen.strokeRect(left + c * wide + 0.75, top + r * high + 0.75, count * wide - 1.5, high - 1.5);
      pen.lineWidth = 1.5;
      pen.strokeStyle = rgb("text");
      for (const run of panel.runs) box(...run);
      if (panel.lit && panel.lit <= 4096 && Math.min(wide, high) >= 4) {
        pen.strokeStyle = rgb("selected");
        pen.lineWidth = 1;
        for (let r = span.r0; r < span.r1; r++) for (let c = span.c0; c < span.c1; c++) if (isSame(at.same, panel, r * panel.spec.columns + c)) box(r, c);
      }
      if (at?.panel === panel) {
        pen.strokeStyle = rgb("selected");
        pen.lineWidth = 3;
        box(Math.floor(at.index / panel.spec.columns), at.index % panel.spec.columns);
      }
    }

    const drawAll = () => ready && panels.forEach(draw);

    // ------------------------------------------------------------------ choosing a cell
    function go(panel, index, { publish = false, speak = false } = {}) {
      at = panel ? { panel, index } : null;
      if (at) at.same = sameAs(at);
      let lit = 0;
      for (const p of panels) lit += p.lit = at ? paintVeil(p, at.same) : 0;
      drawAll();
      if (!at) { status.textContent = "Point at a cell, or press Tab and the arrow keys. + and -, or Ctrl and the wheel, zoom."; return; }
      const told = tell(panel, index);
      status.textContent = `${told.text}. Lit: ${lit} cells of ${at.same.name} ${nothing(at.same.number)}.`;
      if (speak) ctx.announce(told.text);
      if (publish) ctx.select({ cell: [told.row, told.column], ...(now.buffer ? { buffer: now.buffer } : {}), ...(now.line ? { line: now.line } : {}) });
    }

    /** All cells of the lit holder, tile by tile: what a thread has in its registers. */
    function open() {
      if (!at) return;
      const rows = [], extras = ["slot", "address"].filter((of) => panels.some((p) => p.values[of]));
      for (const p of panels) for (let i = 0; i < p.spec.rows * p.spec.columns && rows.length < 128; i++) {
        if (!isSame(at.same, p, i)) continue;
        const r = Math.floor(i / p.spec.columns) * p.spec.steps[0], c = (i % p.spec.columns) * p.spec.steps[1];
        rows.push([p.spec.title, `(${r}, ${c})`, ...extras.map((of) => p.values[of]?.[i] ?? "")]);
      }
      const names = extras.map((of) => (of === "slot" ? panels.find((p) => p.values.slot).spec.slot_name : of));
      rows.sort((a, b) => (a[0] === b[0] && extras.length ? a[2] - b[2] : 0));
      const close = h("button", { type: "button", click: () => (details.replaceChildren(), at?.panel.canvas.focus()) }, "close");
      const caption = `${at.same.name} ${nothing(at.same.number)}: ${rows.length}${rows.length === 128 ? " or more" : ""} cells`;
      details.replaceChildren(h("div", { class: "twb-details", style: "max-height: 240px; overflow-y: auto", keydown: (e) => e.key === "Escape" && (e.stopPropagation(), close.click()) },
        twb.table({ caption, head: ["tile", "(row, column)", ...names], rows, left: 2 }), close));
    }

    function under(panel, event) {
      const box = panel.canvas.getBoundingClientRect(), [wide, high] = cellSize(panel);
      const c = Math.floor((event.clientX - box.x - LEFT + panel.scroller.scrollLeft) / wide);
      const r = Math.floor((event.clientY - box.y - TOP + panel.scroller.scrollTop) / high);
      if (event.clientX - box.x < LEFT || event.clientY - box.y < TOP || r < 0 || c < 0 || r >= panel.spec.rows || c >= panel.spec.columns) return -1;
      return r * panel.spec.columns + c;
    }

    function reveal(panel, index) {
      const [wide, high] = cellSize(panel), box = panel.scroller;
      const x = (index % panel.spec.columns) * wide, y = Math.floor(index / panel.spec.columns) * high;
      const room = [parseFloat(panel.canvas.style.width) - LEFT, parseFloat(panel.canvas.style.height) - TOP];
      if (x < box.scrollLeft) box.scrollLeft = x;
      if (x + wide > box.scrollLeft + room[0]) box.scrollLeft = x + wide - room[0];
      if (y < box.scrollTop) box.scrollTop = y;
      if (y + high > box.scrollTop + room[1]) box.scrollTop = y + high - room[1];
    }

    function key(panel, event) {
      const { rows, columns } = panel.spec, i = at?.panel === panel ? at.index : 0;
      const r = Math.floor(i / columns), c = i % columns, big = event.shiftKey ? 8 : 1;
      const to = {
        ArrowRight: [r, Math.min(c + big, columns - 1)], ArrowLeft: [r, Math.max(c - big, 0)], ArrowDown: [Math.min(r + big, rows - 1), c],
        ArrowUp: [Math.max(r - big, 0), c], Home: [r, 0], End: [r, columns - 1], PageUp: [0, c], PageDown: [rows - 1, c],
      }[event.key];
      if (to) {
        event.preventDefault();
        event.stopPropagation();
        const index = to[0] * columns + to[1];
        reveal(panel, index);
        go(panel, index, { publish: true, speak: true });
      } else if (event.key === "Enter" || event.key === " ") (event.preventDefault(), open());
      else if (event.key === "Escape") (details.replaceChildren(), go(null));
      else if (event.key === "+" || event.key === "=") (event.preventDefault(), scale(1.5));
      else if (event.key === "-") (event.preventDefault(), scale(1 / 1.5));
      else if (event.key === "0") (event.preventDefault(), scale(0));
    }

    function scale(by) {
      zoom = by === 0 ? 1 : Math.min(16, Math.max(0.5, zoom * by));
      drawAll();
      if (at) reveal(at.panel, at.index);
      drawAll();
      ctx.announce(`zoom ${Math.round(zoom * 100)} %`);
    }

    // ------------------------------------------------------------------ building
    function controls() {
      const id = `twb-${Math.random().toString(36).slice(2)}`;
      const select = h("select", { id, change: () => { mode = now.modes.find((m) => m.name === select.value); recolour(); } },
        now.modes.map((m) => h("option", { value: m.name, selected: m.name === mode.name }, m.name)));
      const meaning = h("span", { class: "twb-faint", style: "margin-left: 6px" }, mode.meaning);
      const button = (name, label, by) => h("button", { type: "button", "aria-label": label, click: () => scale(by) }, name);
      head.replaceChildren(
        h("div", { class: "twb-verdict" }, now.title), ...now.facts.map((f) => h("div", { class: "twb-faint" }, f)),
        h("div", { style: "display: flex; gap: 8px; align-items: center; flex-wrap: wrap; margin: 6px 0" },
          h("label", { for: id }, "colour by"), select, button("−", "zoom out", 1 / 1.5), button("+", "zoom in", 1.5), button("fit", "fit to view", 0), meaning));
      return { meaning };
    }

    let parts = null;
    function recolour() {
      parts.meaning.textContent = mode.meaning;
      panels.forEach(paintCells);
      go(at?.panel ?? null, at?.index);
      ctx.announce(`coloured by ${mode.name}`);
    }

    function place(spec) {
      const canvas = h("canvas", {
        tabindex: "0", role: "application", style: "position: sticky; left: 0; top: 0; display: block; cursor: crosshair",
        "aria-label": `${spec.title}: ${spec.rows} by ${spec.columns} cells. Arrow keys move, Enter lists the lit cells, plus and minus zoom, Escape ends.`,
      });
      const sizer = h("div", {}, canvas), scroller = h("div", { style: "overflow: auto; max-width: 100%" }, sizer);
      const panel = { spec, canvas, sizer, scroller, image: h("canvas", { width: spec.columns, height: spec.rows }), veil: h("canvas", { width: spec.columns, height: spec.rows }), values: {}, lit: 0, runs: runsOf(spec) };
      canvas.addEventListener("pointermove", (e) => { const i = under(panel, e); if (i >= 0 && !(at?.panel === panel && at.index === i)) go(panel, i); });
      canvas.addEventListener("pointerleave", () => document.activeElement !== canvas && go(null));
      canvas.addEventListener("click", (e) => { const i = under(panel, e); if (i >= 0) (go(panel, i, { publish: true, speak: true }), open()); });
      canvas.addEventListener("keydown", (e) => key(panel, e));
      canvas.addEventListener("focus", () => canvas.matches(":focus-visible") && at?.panel !== panel && go(panel, 0, { speak: true }));
      canvas.addEventListener("wheel", (e) => { if (e.ctrlKey || e.metaKey) (e.preventDefault(), scale(e.deltaY < 0 ? 1.2 : 1 / 1.2)); }, { passive: false });
      scroller.addEventListener("scroll", () => ready && draw(panel));
      const words = [spec.caption, spec.sampling].filter(Boolean).map((t) => h("div", { class: "twb-faint", style: `max-width: ${VIEW_WIDE}px` }, t));
      panel.node = h("div", { style: `grid-row: ${spec.spot[0] + 1}; grid-column: ${spec.spot[1] + 1}; align-self: end; min-width: 0` }, h("div", { style: "font-weight: 600" }, spec.title), scroller, words);
      return panel;
    }

    async function build() {
      ready = false;
      at = null;
      mode = now.modes.find((m) => m.name === (mode?.name ?? now.mode)) ?? now.modes.find((m) => m.name === now.mode);
      parts = controls();
      twin.textContent = now.text;
      twin.setAttribute("aria-label", `${now.title}, as text`);
      const made = now.panels.map(place), mine = now;
      for (const panel of made) for (const of of ["address", "owner", "slot"]) if (panel.spec[of]) panel.values[of] = await numbers(panel.spec[of]);
      if (mine !== now) return; // a newer value came meanwhile
      panels = made;
      grid.replaceChildren(...panels.map((p) => p.node));
      panels.forEach(paintCells);
      ready = true;
      go(null);
      host.dataset.ready = "true";
    }

    const stop = ctx.onSelect((sel) => {
      if (!ready || !sel.cell || (sel.buffer ?? "") !== now.buffer) return;
      const panel = panels[0], { columns, rows, steps } = panel.spec;
      const r = Math.floor(sel.cell[0] / steps[0]), c = Math.floor(sel.cell[1] / steps[1]), index = r * columns + c;
      if (panels.length === 1 && r < rows && c < columns && at?.index !== index) go(panel, index);
    });
    const stopTheme = ctx.onTheme(() => { if (ready) (panels.forEach(paintCells), go(at?.panel ?? null, at?.index)); });
    build();
    return {
      update(next) { now = next; build(); },
      destroy() { stop(); stopTheme(); host.replaceChildren(); },
    };
  };
})();
