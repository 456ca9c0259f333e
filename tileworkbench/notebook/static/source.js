// Every stage of a kernel side by side, or as tabs where there is little room; the line under the pointer or the cursor lights its twins in all of them.
// live: {keys: ["file:line"], heads, costs: [{gutter: [text], words}], kinds: [name],
//   stages: [{name, language, text, why, about: [text], kinds: [index | -1], start, numbers, twins: [index | [index] | -1]}]}

(() => {
  const { h, views } = twb;
  const NARROW = 700; // pixels; below it one stage shows at a time
  const ROW = 17;

  const CSS = `
.twb-src-bar { display: flex; flex-wrap: wrap; gap: 6px; align-items: center; margin: 4px 0; }
.twb-src-bar button[aria-pressed=true] { border-color: var(--twb-accent); box-shadow: inset 0 -2px var(--twb-accent); font-weight: 600; }
.twb-src-grid { display: flex; gap: 8px; align-items: stretch; }
.twb-src-pane.first { flex-grow: 1.5; }
.twb-src-pane { flex: 1 1 0; min-width: 0; border: 1px solid var(--twb-grid); border-radius: 6px; display: flex; flex-direction: column; }
.twb-src-head { display: flex; justify-content: space-between; align-items: center; gap: 6px; padding: 2px 4px 2px 10px; border-bottom: 1px solid var(--twb-grid);
  background: var(--twb-surface); border-radius: 6px 6px 0 0; font-size: 12px; }
.twb-src-head b { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.twb-src-about { padding: 3px 10px; font-size: 12px; border-bottom: 1px solid var(--twb-grid); color: var(--twb-faint); }
.twb-src-about > .kinds { display: flex; flex-wrap: wrap; gap: 0 12px; }
.twb-src-list { overflow: auto; flex: 1 0 420px; height: 420px; font: 11.5px/${ROW}px var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace); outline-offset: -2px; }
.twb-src-list:focus-visible { outline: 2px solid var(--twb-accent); }
.twb-src-line { display: flex; white-space: pre; height: ${ROW}px; min-width: max-content; cursor: default; border-left: 3px solid transparent; padding-right: 8px; }
.twb-src-line > .n { color: var(--twb-faint); text-align: right; min-width: 34px; padding: 0 8px 0 4px; user-select: none; }
.twb-src-line > .c { color: var(--twb-accent); text-align: right; min-width: 56px; padding-right: 6px; user-select: none; }
.twb-src-line.lit { background: color-mix(in srgb, var(--twb-selected) 13%, transparent); border-left-color: var(--twb-selected) !important; }
.twb-src-line.lit .twb-src-kind { color: var(--twb-text) !important; }
.twb-src-line.lit > .n { color: var(--twb-text); font-weight: 600; }
.twb-src-list:focus-visible .twb-src-line.at { box-shadow: inset 0 0 0 1px var(--twb-accent); }
.twb-src-words { min-height: 40px; padding: 4px 2px; font-size: 12.5px; }
.twb-k { color: var(--twb-registers); } .twb-m { color: var(--twb-faint); font-style: italic; } .twb-l { color: var(--twb-good); } .twb-d { color: var(--twb-DRAM); }
`;

  // of a GPU's instructions; "other" is faint
  const KINDS = { tensor: "DRAM", shared: "shared", global: "L2", local: "warning", sync: "registers", float: "L3" };
  const kindStyle = (kind) => (KINDS[kind] ? `color: var(--twb-${KINDS[kind]}); font-weight: 600` : "color: var(--twb-faint)");

  const WORDS = {
    python: "def return for in if else elif while with as and or not is None True False import from lambda class pass break continue",
    tile: "kernel tensor output scalar launch alloc for in if else while copy gemm fill reduce scan let return pass grid buffer own atomic sync assert import",
    c: "static inline const void int char float double long unsigned for if else while do return struct typedef extern break continue int64_t int32_t uint8_t uint16_t uint32_t",
    gas: "",
  };
  const rules = {};

  function rule(language) {
    if (rules[language]) return rules[language];
    const words = (WORDS[language] ?? "").split(" ").filter(Boolean);
    const remark = language === "c" ? String.raw`\/\/.*|\/\*.*?\*\/|^\s*#.*` : language === "gas" ? String.raw`^[.\w$]+:` : String.raw`#.*`;
    const text = String.raw`"[^"]*"|'[^']*'`;
    const keyword = language === "gas" ? String.raw`^ +[a-z][a-z0-9]*` : words.length ? String.raw`\b(?:${words.join("|")})\b` : "(?!)";
    const number = language === "gas" ? String.raw`\$-?\d+|%\w+` : String.raw`\b\d[\w.]*`;
    return (rules[language] = new RegExp(`(${remark})|(${text})|(${keyword})|(${number})`, "g"));
  }

  /** Text with its words coloured. */
  function paint(node, text, language) {
    let from = 0;
    for (const found of text.matchAll(rule(language))) {
      if (found.index > from) node.append(text.slice(from, found.index));
      node.append(h("span", { class: found[1] ? "twb-m" : found[2] ? "twb-l" : found[3] ? "twb-k" : "twb-d" }, found[0]));
      from = found.index + found[0].length;
    }
    node.append(text.slice(from));
  }

  /** An instruction of a GPU: its name in the colour of its kind. */
  function instruction(node, text, kind) {
    const found = text.match(/^(\s*(?:@!?U?P\w+ +)?)(\S+)(.*)$/);
    if (!kind || !found) return node.append(kind ? text : h("span", { class: "twb-m" }, text));
    node.append(found[1], h("span", { class: "twb-src-kind", style: kindStyle(kind) }, found[2]), KINDS[kind] ? found[3] : h("span", { class: "twb-faint" }, found[3]));
  }

  /** What a stage says of the whole of it: its lines, and how many instructions of each kind there are. */
  function about(stage, live) {
    const counts = (live.kinds ?? []).map((kind, k) => [kind, (stage.kinds ?? []).filter((x) => x === k).length]).filter(([, n]) => n);
    if (!stage.about?.length && !counts.length) return null;
    return h("div", { class: "twb-src-about" }, (stage.about ?? []).map((text) => h("div", {}, text)),
      counts.length ? h("div", { class: "kinds" }, counts.map(([kind, n]) => h("span", { style: kindStyle(kind) }, `${n} ${kind}`))) : null);
  }

  const list = (twin) => (Array.isArray(twin) ? twin : twin < 0 ? [] : [twin]);

  async function copy(text, button, ctx) {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = h("textarea", { style: "position: fixed; opacity: 0" });
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "copied";
    ctx.announce("copied");
    setTimeout(() => { button.textContent = "copy"; }, 1200);
  }

  /** One stage: a list of lines of which one is the current one. */
  function pane(stage, live, base, { hover, pin, step }) {
    const lines = stage.text ? stage.text.replace(/\n$/, "").split("\n") : [];
    const indent = Math.min(...lines.filter((l) => l.trim()).map((l) => l.length - l.trimStart().length), 99);
    const isFirst = stage.name === live.stages[0].name;
    const byKey = new Map();
    let at = -1;
    const box = h("div", {
      class: "twb-src-list", tabindex: "0", role: lines.length ? "listbox" : "note", "aria-label": `${stage.name}, ${lines.length} lines`,
      keydown: (event) => {
        const page = Math.max(1, Math.floor(box.clientHeight / ROW) - 1);
        const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: lines.length - 1, PageDown: at + page, PageUp: at - page, j: at + 1, k: at - 1 }[event.key];
        if (event.key === "ArrowRight" || event.key === "ArrowLeft") (event.preventDefault(), step(event.key === "ArrowRight" ? 1 : -1));
        if (event.key === "Enter" || event.key === " ") (event.preventDefault(), pin(list(stage.twins[at] ?? -1)));
        if (event.key === "Escape") pin([]);
        if (to === undefined || !lines.length) return;
        event.preventDefault();
        event.stopPropagation();
        move(Math.max(0, Math.min(to, lines.length - 1)));
        hover(list(stage.twins[at]), api, true);
      },
      focus: () => { if (at < 0 && lines.length) move(first()); },
    });
    const nodes = lines.map((text, i) => {
      const keys = list(stage.twins[i]);
      const words = h("span");
      if (stage.kinds?.length) instruction(words, text.slice(indent), live.kinds[stage.kinds[i]]);
      else paint(words, text.slice(indent), stage.language);
      const gutter = isFirst && live.heads.length
        ? live.heads.map((_, k) => h("span", { class: "c" }, keys.length ? live.costs[keys[0]].gutter[k] : "")) : [];
      const node = h("div", {
        class: "twb-src-line", role: "option", id: `${base}-${i}`, "aria-selected": "false",
        style: keys.length ? `border-left-color: var(--twb-s${keys[0] % 6})` : undefined,
        pointerenter: () => hover(keys, api, false), click: () => (move(i, false), pin(keys)),
      }, h("span", { class: "n" }, String(stage.numbers[i] ?? i + 1)), gutter, words);
      for (const key of keys) byKey.set(key, [...(byKey.get(key) ?? []), i]);
      return node;
    });
    if (lines.length) box.append(...nodes);
    else box.append(h("div", { style: "padding: 8px; white-space: pre-wrap" }, stage.why || "nothing here"));
    box.addEventListener("pointerleave", () => hover(null, api, false));
    let lit = [];

    const first = () => (byKey.size ? Math.min(...[...byKey.values()].map((rows) => rows[0])) : 0);

    function show(i) {
      const top = nodes[i].offsetTop - box.offsetTop;
      if (top < box.scrollTop + ROW || top > box.scrollTop + box.clientHeight - 2 * ROW) box.scrollTop = Math.max(0, top - box.clientHeight / 3);
    }

    function move(i, scroll = true) {
      nodes[at]?.classList.remove("at");
      at = i;
      nodes[at].classList.add("at");
      box.setAttribute("aria-activedescendant", nodes[at].id);
      if (scroll) show(at);
    }

    /** Of these lines the one to bring into view: of the kernel itself rather than of a helper, of instructions the first that does the work. */
    function telling(rows) {
      if (!stage.kinds?.length) return rows.find((i) => i + 1 >= (stage.start ?? 1)) ?? rows[0];
      const rank = (i) => (stage.kinds[i] < 0 ? 99 : stage.kinds[i]);
      return rows.reduce((best, i) => (rank(i) < rank(best) ? i : best), rows[0]);
    }

    /** Light the lines of these keys; bring the first of them into view unless the reader's hand is here. */
    function light(keys, mine) {
      for (const i of lit) (nodes[i].classList.remove("lit"), nodes[i].setAttribute("aria-selected", "false"));
      lit = keys.flatMap((key) => byKey.get(key) ?? []);
      for (const i of lit) (nodes[i].classList.add("lit"), nodes[i].setAttribute("aria-selected", "true"));
      if (lit.length && !mine) show(telling(lit));
    }

    function enter(keys) {
      const rows = keys.flatMap((key) => byKey.get(key) ?? []);
      if (rows.length) move(telling(rows));
      box.focus();
    }

    const button = h("button", { type: "button", "aria-label": `copy ${stage.name}`, click: () => copy(stage.text, button, { announce: api.announce }) }, "copy");
    const gutterHead = isFirst && live.heads.length ? ` ${live.heads.join(" · ")} of each line` : ` ${lines.length} lines`;
    const node = h("div", { class: isFirst ? "twb-src-pane first" : "twb-src-pane" },
      h("div", { class: "twb-src-head" }, h("span", {}, h("b", {}, stage.name), h("span", { class: "twb-faint" }, gutterHead)), lines.length ? button : null), about(stage, live), box);
    const api = { node, light, enter, announce: () => {}, keys: () => list(stage.twins[at] ?? -1), count: (key) => (byKey.get(key) ?? []).length };
    return api;
  }

  views.source = (host, live, ctx) => {
    let now = live, panes = [], on = [], narrow = false, tab = 0, pinned = [], grid = null;
    const top = h("div");
    const body = h("div");
    const words = h("div", { class: "twb-src-words" });
    const twin = h("pre", { class: "twb-scroll", tabindex: "0" });
    host.append(h("style", {}, CSS), top, body, words, h("details", {}, h("summary", {}, "as text"), twin));

    const hint = () => (narrow ? "choose a line to see what it became" : "point at a line, or walk with the arrow keys: its twins light up in every stage");

    function describe(keys) {
      words.replaceChildren();
      if (!keys.length) return words.append(h("span", { class: "twb-faint" }, hint()));
      for (const key of keys) words.append(h("div", {}, h("b", {}, now.keys[key]), "  ", now.costs[key].words));
    }

    function hover(keys, from, speak) {
      const shown = keys?.length ? keys : pinned;
      panes.forEach((p) => p?.light(shown, p === from));
      describe(shown);
      if (speak && keys?.length) ctx.announce(keys.map((k) => `${now.keys[k]}: ${now.costs[k].words}`).join("; "));
    }

    function pin(keys) {
      pinned = keys;
      hover(keys, null, true);
      ctx.select(keys.length ? { line: now.keys[keys[0]], key: now.keys[keys[0]] } : {});
    }

    const make = (i) => {
      const base = `twb-src-${Math.random().toString(36).slice(2)}`;
      const made = pane(now.stages[i], now, base, {
        hover, pin,
        step(by) {
          const shown = panes.map((p, k) => (p ? k : -1)).filter((k) => k >= 0);
          const next = shown[shown.indexOf(i) + by];
          if (next !== undefined) panes[next].enter(panes[i].keys());
        },
      });
      made.announce = ctx.announce;
      return made;
    };

    function wide() {
      const buttons = now.stages.map((stage, i) => h("button", {
        type: "button", "aria-pressed": String(on.includes(i)), click: (event) => {
          on = on.includes(i) ? on.filter((k) => k !== i) : [...on, i].sort((a, b) => a - b);
          event.currentTarget.setAttribute("aria-pressed", String(on.includes(i)));
          columns();
        },
      }, stage.name));
      top.replaceChildren(h("div", { class: "twb-src-bar", role: "group", "aria-label": "stages shown" }, h("span", { class: "twb-faint" }, "show"), buttons));
      grid = h("div", { class: "twb-src-grid" });
      body.replaceChildren(grid);
      columns();
    }

    function columns() {
      panes = now.stages.map((_, i) => (on.includes(i) ? panes[i] ?? make(i) : null));
      grid.replaceChildren(...panes.filter(Boolean).map((p) => p.node));
      hover(null, null, false);
    }

    function asTabs() {
      const tabs = twb.tabs({
        names: now.stages.map((s) => s.name), index: tab, label: "stages",
        chosen(i, panel) {
          tab = i;
          panes = now.stages.map((_, k) => (k === i ? make(k) : null));
          panel.replaceChildren(panes[i].node);
          hover(null, null, false);
        },
      });
      top.replaceChildren(tabs.list);
      body.replaceChildren(tabs.panel);
      tabs.start();
    }

    function build() {
      panes = [];
      twin.textContent = now.text;
      twin.setAttribute("aria-label", `${now.title}, as text`);
      narrow = host.clientWidth > 0 && host.clientWidth < NARROW;
      (narrow ? asTabs : wide)();
      describe(pinned);
    }

    function heard(sel) {
      const wanted = sel.line ?? sel.key ?? ""; // other views may name the file by its whole path
      const key = now.keys.findIndex((k) => k === wanted || wanted.endsWith(`/${k}`));
      pinned = key < 0 ? [] : [key];
      hover(null, null, false);
    }

    const size = new ResizeObserver(() => { if (host.clientWidth > 0 && (host.clientWidth < NARROW) !== narrow) build(); });
    const stop = ctx.onSelect(heard);
    on = now.stages.map((s, i) => (s.text && ["tile IR", "lowered IR"].includes(s.name) ? -1 : i)).filter((i) => i >= 0);
    build();
    heard(ctx.selection());
    size.observe(host);
    return {
      update(next) {
        const same = next.stages.length === now.stages.length;
        now = next;
        if (!same) on = now.stages.map((_, i) => i);
        pinned = [];
        build();
        heard(ctx.selection());
      },
      destroy() { stop(); size.disconnect(); host.replaceChildren(); },
    };
  };
})();
