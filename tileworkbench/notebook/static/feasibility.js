// The map of two tunables. Its handle is dragged, or moved with the arrow keys; a legal position is sent as {candidate} and selected.
// live: {scene, grid: {left, top, wide, high, columns, rows}, x, y, fixed, cells: [{i, j, x, y, state, words}], current: [i, j] | null}

(() => {
  const { h, s, views } = twb;

  views.feasibility = (host, live, ctx) => {
    const picture = h("div", { style: "position: relative" });
    const tip = twb.tooltip(picture);
    const words = h("div", { style: "min-height: 38px; white-space: pre-line; padding: 2px 4px" });
    const twin = h("pre", { class: "twb-scroll", tabindex: "0" });
    host.append(picture, words, h("details", {}, h("summary", {}, "as text"), twin));
    let now = live, at = live.current ?? first(live), sent = "", sentAt = 0, drag = false, svg = null, knob = null;

    function first(map) {
      const legal = map.cells.find((c) => c.state === "legal") ?? map.cells[0];
      return legal ? [legal.i, legal.j] : [0, 0];
    }

    const cell = (i, j) => now.cells.find((c) => c.i === i && c.j === j);
    const corner = (i, j) => [now.grid.left + i * now.grid.wide, now.grid.top + (now.grid.rows - 1 - j) * now.grid.high];

    function place() {
      const [i, j] = at, [x, y] = corner(i, j), here = cell(i, j);
      knob.querySelector("rect").setAttribute("x", x + 1);
      knob.querySelector("rect").setAttribute("y", y + 1);
      const dot = knob.querySelector("circle");
      dot.setAttribute("cx", x + now.grid.wide - 9);
      dot.setAttribute("cy", y + now.grid.high - 9);
      knob.classList.toggle("off", here?.state === "forbidden");
      knob.querySelector("rect").setAttribute("stroke-dasharray", here?.state === "forbidden" ? "5 3" : "none");
      knob.setAttribute("aria-label", `position: ${here?.words.replaceAll("\n", ", ") ?? ""}; the arrow keys move it`);
      words.textContent = here?.words ?? "";
    }

    /** Go to a cell: say what it is, and send it where it is legal. */
    function go(i, j, speak = true) {
      i = Math.max(0, Math.min(i, now.grid.columns - 1));
      j = Math.max(0, Math.min(j, now.grid.rows - 1));
      if (i === at[0] && j === at[1]) return;
      at = [i, j];
      place();
      const here = cell(i, j);
      if (!here) return;
      if (speak) ctx.announce(here.words.replaceAll("\n", ", "));
      if (here.state === "forbidden") return;
      const candidate = { ...now.fixed, [now.x]: here.x, [now.y]: here.y };
      const text = JSON.stringify(candidate);
      if (text === sent) return;
      sent = text;
      sentAt = performance.now();
      ctx.send({ candidate });
      ctx.select({ candidate });
    }

    function cellAt(event) {
      const point = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      const i = Math.floor((point.x - now.grid.left) / now.grid.wide);
      const j = now.grid.rows - 1 - Math.floor((point.y - now.grid.top) / now.grid.high);
      return i < 0 || j < 0 || i >= now.grid.columns || j >= now.grid.rows ? null : [i, j];
    }

    function keys(event) {
      const [i, j] = at;
      const to = { ArrowRight: [i + 1, j], ArrowLeft: [i - 1, j], ArrowUp: [i, j + 1], ArrowDown: [i, j - 1], Home: [0, j], End: [now.grid.columns - 1, j],
        PageUp: [i, now.grid.rows - 1], PageDown: [i, 0] }[event.key];
      if (!to) return;
      event.preventDefault();
      event.stopPropagation();
      go(...to);
    }

    function paint() {
      const held = knob !== null && knob === document.activeElement;
      svg?.remove();
      svg = twb.svgOf(now.scene, { hover: (mark, x, y) => tip.show(mark.tip, x, y), leave: () => tip.hide(), choose: () => {} });
      for (const node of svg.querySelectorAll("[tabindex]")) node.setAttribute("tabindex", "-1"); // the handle is the one stop: it visits every cell
      for (const node of svg.querySelectorAll("[role=button]")) { node.removeAttribute("role"); node.removeAttribute("aria-label"); node.removeAttribute("tabindex"); }
      knob = s("g", { tabindex: "0", role: "button", class: "twb-knob", "aria-roledescription": "handle on a map", keydown: keys, style: "cursor: grab; outline: none" },
        s("rect", { width: now.grid.wide - 2, height: now.grid.high - 2, rx: 4, fill: "none", stroke: "var(--twb-selected)", "stroke-width": 2.5 }),
        s("circle", { r: 6, fill: "var(--twb-selected)", stroke: "var(--twb-background)", "stroke-width": 1.5 }));
      knob.addEventListener("focus", () => knob.querySelector("rect").setAttribute("stroke-width", 4));
      knob.addEventListener("blur", () => knob.querySelector("rect").setAttribute("stroke-width", 2.5));
      svg.append(knob);
      picture.prepend(svg);
      place();
      if (held) knob.focus();
      twin.textContent = now.text;
      twin.setAttribute("aria-label", `${now.title}, as text`);
    }

    function heard(sel) {
      const wanted = sel.candidate;
      if (!wanted || drag) return;
      const here = now.cells.find((c) => c.x === wanted[now.x] && c.y === wanted[now.y]);
      if (here && (here.i !== at[0] || here.j !== at[1])) { at = [here.i, here.j]; sent = JSON.stringify(wanted); place(); }
    }

    // The frame holds the pointer, not the picture in it: results that arrive during a drag draw a new picture.
    picture.style.touchAction = "none";
    picture.addEventListener("pointerdown", (event) => {
      const to = cellAt(event);
      if (!to) return;
      drag = true;
      picture.setPointerCapture(event.pointerId);
      knob.focus();
      go(...to);
      event.preventDefault();
    });
    picture.addEventListener("pointermove", (event) => { const to = drag && cellAt(event); if (to) go(...to, false); });
    for (const name of ["pointerup", "pointercancel"]) picture.addEventListener(name, () => { drag = false; });

    const stop = ctx.onSelect(heard);
    const stopTheme = ctx.onTheme(paint);
    paint();
    return {
      update(next) {
        const moved = JSON.stringify(next.current) !== JSON.stringify(now.current);
        now = next;
        const isEcho = performance.now() - sentAt < 800; // an answer to an earlier move must not pull the handle back
        if (moved && next.current && !drag && !isEcho) at = next.current;
        paint();
      },
      destroy() { stop(); stopTheme(); host.replaceChildren(); },
    };
  };
})();
