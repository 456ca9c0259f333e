// Draws any Scene of views/scene.py: marks as SVG, tips on hover and focus, details when one is chosen, and a scrubber over frames.

(() => {
  const { h, s, colour, rgb, views } = twb;
  const TALL = 1000;

  function corners({ x, y, radius: r = 4, shape }) {
    if (shape === "square") { const a = 0.89 * r; return [[x - a, y - a], [x + a, y - a], [x + a, y + a], [x - a, y + a]]; }
    if (shape === "triangle") return [[x, y - 1.25 * r], [x + 1.15 * r, y + 0.8 * r], [x - 1.15 * r, y + 0.8 * r]];
    const a = 1.25 * r;
    return [[x, y - a], [x + a, y], [x, y + a], [x - a, y]];
  }

  const places = (points) => points.map((p) => p.join(",")).join(" ");

  /** One mark as SVG nodes. */
  function draw(mark, unique) {
    const m = { opacity: 1, ...mark };
    const about = { opacity: m.opacity === 1 ? undefined : m.opacity, "data-group": m.group };
    switch (m.kind) {
      case "rect": {
        const box = { x: m.x, y: m.y, width: m.width, height: m.height, rx: m.radius };
        const line = m.stroke ? { stroke: colour(m.stroke), "stroke-width": m.stroke_width ?? 1 } : {};
        const out = [s("rect", { ...box, ...line, ...about, fill: colour(m.fill) })];
        if (m.hatch) out.push(s("rect", { ...box, fill: `url(#${unique}-${m.hatch})`, "pointer-events": "none" }));
        return out;
      }
      case "path": {
        const style = { stroke: colour(m.stroke ?? "text"), "stroke-width": m.width ?? 1, fill: colour(m.fill), "stroke-linecap": "round", "stroke-linejoin": "round" };
        return [s(m.is_closed ? "polygon" : "polyline", { points: places(m.points), ...style, "stroke-dasharray": m.dash?.join(" "), ...about })];
      }
      case "dot": {
        const style = { fill: m.is_hollow ? "var(--twb-background)" : colour(m.colour ?? "text"), stroke: colour(m.colour ?? "text"), "stroke-width": 1.8 };
        if (!m.shape || m.shape === "circle") return [s("circle", { cx: m.x, cy: m.y, r: m.radius ?? 4, ...style, ...about })];
        return [s("polygon", { points: places(corners(m)), ...style, ...about })];
      }
      case "text": {
        const font = { "font-size": m.size ?? 11, "font-weight": m.is_bold ? 600 : undefined, "text-anchor": m.anchor ?? "start" };
        const turn = m.angle ? { transform: `rotate(${m.angle} ${m.x} ${m.y})` } : {};
        const family = m.is_mono ? "var(--jp-code-font-family, ui-monospace, Menlo, monospace)" : "var(--jp-ui-font-family, system-ui, sans-serif)";
        return [s("text", { x: m.x, y: m.y, ...font, ...turn, ...about, fill: colour(m.colour ?? "text"), style: `font-family: ${family}; white-space: pre` }, m.text)];
      }
      case "cells":
        return [cells(m, about)];
    }
    return [];
  }

  /** A grid as one image, its colours taken from the theme; words where cells are large enough. */
  function cells(m, about) {
    const group = s("g", about);
    twb.unpack(m.index).then((index) => {
      const canvas = h("canvas", { width: m.columns, height: m.rows });
      const pen = canvas.getContext("2d");
      const picture = pen.createImageData(m.columns, m.rows);
      const palette = m.palette.map((name) => rgb(name)).map((c) => [1, 3, 5].map((i) => parseInt(c.slice(i, i + 2), 16)));
      for (let i = 0; i < index.length; i++) picture.data.set([...palette[index[i]], 255], 4 * i);
      pen.putImageData(picture, 0, 0);
      const box = { x: m.x, y: m.y, width: m.width, height: m.height, preserveAspectRatio: "none", style: "image-rendering: pixelated" };
      group.prepend(s("image", { ...box, href: canvas.toDataURL() }));
    });
    const high = m.height / m.rows, wide = m.width / m.columns, size = Math.min(high * 0.6, 11);
    if (high < 12 || !m.words?.length) return group;
    twb.unpack(m.index).then((index) => m.words.forEach((word, i) => word && group.append(s("text", {
      x: m.x + ((i % m.columns) + 0.5) * wide, y: m.y + (Math.floor(i / m.columns) + 0.5) * high + size * 0.35, "font-size": size, "text-anchor": "middle",
      fill: colour(twb.inkOn(m.palette[index[i]])), style: "font-family: var(--jp-code-font-family, ui-monospace, monospace)", "pointer-events": "none",
    }, word))));
    return group;
  }

  let count = 0;

  /** The SVG of `scene`. Marks with a key and a tip form one tab stop; arrows move among them. Calls hover(mark, x, y), leave() and choose(key). */
  function svgOf(scene, { hover, leave, choose }) {
    const unique = `twb${++count}`;
    const hatches = [...new Set(scene.marks.filter((m) => m.hatch).map((m) => m.hatch))].map((name) =>
      s("pattern", { id: `${unique}-${name}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, s("path", { d: "M0 6 L6 0", stroke: colour(name), "stroke-width": 1.2 })));
    const root = s("svg", { viewBox: `0 0 ${scene.width} ${scene.height}`, width: scene.width, role: "group", "aria-label": scene.title || "picture" }, s("defs", {}, hatches));
    const stops = [], seen = new Set();
    for (const mark of scene.marks) {
      for (const node of draw(mark, unique)) {
        root.append(node);
        if (!mark.tip && !mark.key) continue;
        const at = (event) => {
          const box = root.parentElement.getBoundingClientRect();
          const spot = event.type === "focus" ? node.getBoundingClientRect() : null;
          const down = root.parentElement.scrollTop;
          return spot ? [spot.x + spot.width / 2 - box.x, spot.y - box.y + down] : [event.clientX - box.x, event.clientY - box.y + down];
        };
        if (mark.tip) {
          node.addEventListener("pointerenter", (e) => hover(mark, ...at(e)));
          node.addEventListener("pointermove", (e) => hover(mark, ...at(e)));
          node.addEventListener("pointerleave", leave);
        }
        if (!mark.key) continue;
        node.dataset.key = mark.key;
        node.addEventListener("click", () => choose(mark.key, node));
        if (!mark.tip || seen.has(mark.key)) continue;
        seen.add(mark.key);
        fillStop(node, mark, stops, { at, hover, leave, choose });
      }
    }
    if (stops.length) stops[0].setAttribute("tabindex", "0");
    return root;
  }

  function fillStop(node, mark, stops, { at, hover, leave, choose }) {
    const mine = stops.length;
    stops.push(node);
    node.setAttribute("tabindex", "-1");
    node.setAttribute("role", "button");
    node.setAttribute("aria-label", mark.tip.replaceAll("\n", ", "));
    node.addEventListener("focus", (e) => hover(mark, ...at(e)));
    node.addEventListener("blur", leave);
    node.addEventListener("keydown", (event) => {
      const to = { ArrowRight: mine + 1, ArrowDown: mine + 1, ArrowLeft: mine - 1, ArrowUp: mine - 1, Home: 0, End: stops.length - 1 }[event.key];
      if (event.key === "Enter" || event.key === " ") (event.preventDefault(), choose(mark.key, node));
      if (event.key === "Escape") (leave(), choose("", node));
      if (to === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      const next = stops[(to + stops.length) % stops.length];
      stops.forEach((n) => n.setAttribute("tabindex", n === next ? "0" : "-1"));
      next.focus();
    });
  }

  /** What is higher than a page, such as a listing, scrolls in a place of its own. */
  function scrollsIn(box, isTall) {
    box.style.cssText = `position: relative; ${isTall ? "max-height: 620px; overflow-y: auto" : ""}`;
    for (const [name, value] of [["tabindex", "0"], ["role", "region"], ["aria-label", "picture that scrolls"]]) isTall ? box.setAttribute(name, value) : box.removeAttribute(name);
  }

  views.scene = (host, live, ctx) => {
    const picture = h("div", { style: "position: relative" });
    const details = h("div", { "aria-live": "polite" });
    const tip = twb.tooltip(picture);
    const twin = h("pre", { class: "twb-scroll", tabindex: "0" });
    const words = h("details", {}, h("summary", {}, "as text"), twin);
    let now = live, frame = 0, scrubber = null, back = null;
    const bar = h("div"), buttons = h("div", { class: "twb-buttons" }), applied = h("div");
    host.append(bar, picture, buttons, applied, details, words);

    /** What the view offers to do; nothing where nobody hears it. */
    function offer() {
      const made = ctx.isOffline ? [] : now.buttons ?? [];
      buttons.replaceChildren(...made.map((b) => h("button", { type: "button", "aria-label": b.name, click: () => ctx.send(b.message) }, b.text)));
    }
    const stopNews = ctx.onMessage?.((message) => {
      if (message?.applied && now.buttons?.some((b) => b.message.buffer === message.applied.buffer)) twb.putIntoCell(host, applied, message.applied, "the cell has the new layout: run it again (undo works there)", ctx.announce);
    }) ?? (() => {});

    function choose(key, from) {
      const { key: _, ...rest } = ctx.selection();
      ctx.select(key ? { ...rest, key } : rest);
      const found = key && now.details?.[key];
      details.replaceChildren();
      if (!found) { if (!key && back) back = null; return; }
      back = from;
      const tables = Array.isArray(found) ? found : [found];
      const close = h("button", { type: "button", click: () => { const to = back; choose(""); to?.focus(); } }, "close");
      details.append(h("div", { class: "twb-details", keydown: (e) => e.key === "Escape" && (e.stopPropagation(), close.click()) }, tables.map(twb.table), close));
    }

    function light(sel) {
      for (const node of picture.querySelectorAll("[data-key]")) node.classList.toggle("twb-lit", !!sel.key && node.dataset.key === sel.key);
    }

    function paint() {
      const shown = now.frames?.length ? now.frames[Math.min(frame, now.frames.length - 1)] : now;
      const focused = picture.contains(document.activeElement) ? document.activeElement.dataset.key : null;
      const svg = svgOf(shown.scene, {
        hover: (mark, x, y) => (tip.show(mark.tip, x, y), mark.key && light({ key: mark.key })),
        leave: () => (tip.hide(), light(ctx.selection())),
        choose,
      });
      picture.querySelector("svg")?.remove();
      picture.prepend(svg);
      scrollsIn(picture, shown.scene.height > TALL);
      twin.textContent = shown.text ?? now.text ?? "";
      twin.setAttribute("aria-label", `${now.title}, as text`);
      light(ctx.selection());
      if (focused) svg.querySelector(`[data-key="${CSS.escape(focused)}"][role]`)?.focus();
    }

    function scrub() {
      bar.replaceChildren();
      scrubber = null;
      if (!(now.frames?.length > 1)) return;
      const go = (i) => { frame = Math.max(0, Math.min(i, now.frames.length - 1)); scrubber.show(frame); paint(); ctx.announce(now.frames[frame].label); ctx.select({ ...ctx.selection(), step: frame }); };
      scrubber = twb.slider({ name: now.frames_name ?? "step", labels: now.frames.map((f) => f.label), index: frame, moved: go });
      scrubber.node.append(
        h("button", { type: "button", "aria-label": "previous", click: () => go(frame - 1) }, "‹"),
        h("button", { type: "button", "aria-label": "next", click: () => go(frame + 1) }, "›"));
      bar.append(scrubber.node);
    }

    const stop = ctx.onSelect((sel) => light(sel));
    const stopTheme = ctx.onTheme(paint);
    scrub();
    paint();
    offer();
    return {
      update(next) {
        const same = (next.frames?.length ?? 0) === (now.frames?.length ?? 0);
        now = next;
        if (!same) { frame = 0; scrub(); }
        paint();
        offer();
      },
      destroy() { stop(); stopTheme(); stopNews(); host.replaceChildren(); },
    };
  };
  twb.svgOf = svgOf;
})();
