// A workbench: sliders over typed steps, prediction and measurement side by side, views of one kernel, a run log.
//
// live: {title, controls: [{name, labels}], at: [step, ...], table: {"0,1": {seconds, time, verdict, reason, limit, truth}}, ghosts: {"0,1": [marks]}, state, log, best,
//   views: [live of a view with `tab`], is_here, search}
// state: {seq, at, stage, ghost: {time, seconds}, truth: {number, time, seconds, ratio, is_right}, reason, verdict, why, surprise, refused}
// To Python: {type: "hello" | "move" | "anyway" | "again" | "apply" | "search" | "stop" | "tab", ...}. From Python: {type: "news", ...parts of live}.
//
// The ghost comes from `table` at once, in the browser; the truth comes from Python when it is there. One move is in flight at a time, so a hand that
// drags never floods the kernel: when the answer comes, the newest position is sent.

(() => {
  const { h, views } = twb;
  const SILENT_MS = 3000;
  const keyOf = (at) => at.join(",");

  /** A slider with its steps written below; steps that cannot be are struck out and skipped. */
  function control(spec, index, moved) {
    const base = twb.slider({ name: spec.name, labels: spec.labels, index, moved });
    base.node.querySelector("output").setAttribute("aria-hidden", "true");  // the slider says its value itself
    const every = Math.ceil(spec.labels.length / 8);  // of many steps only some are written, the others are points
    const marks = spec.labels.map((label, i) => h("span", { class: "twb-step" }, i % every ? "·" : label));
    const note = h("div", { class: "twb-faint twb-why-not", id: `${base.input.id}-note` });
    base.input.setAttribute("aria-describedby", note.id);
    const node = h("div", { class: "twb-control" }, base.node, h("div", { class: "twb-steps", "aria-hidden": "true" }, marks), note);
    return {
      node, input: base.input,
      show(at, reasons, why) {
        base.show(at);
        marks.forEach((mark, i) => {
          mark.classList.toggle("twb-no", !!reasons[i]);
          mark.classList.toggle("twb-here", i === at);
          mark.title = reasons[i] ?? "";
        });
        if (reasons[at]) base.input.setAttribute("aria-valuetext", `${spec.labels[at]}, not possible: ${reasons[at]}`);
        note.textContent = why;
      },
    };
  }

  /** Prediction, measurement and best so far as bars on one scale: hollow, filled, and a tick. */
  function bars(ghost, truth, best, isHere) {
    const most = Math.max(ghost?.seconds ?? 0, truth?.seconds ?? 0, best?.seconds ?? 0) || 1;
    const wide = (x) => `${Math.max(1, (100 * x) / most)}%`;
    const row = (name, value, time, kind, extra = "") => h("div", { class: "twb-bar" },
      h("span", { class: "twb-bar-name" }, name),
      h("span", { class: "twb-bar-room" }, value ? h("span", { class: kind, style: `width: ${wide(value)}` }) : null,
        best?.seconds ? h("span", { class: "twb-bar-best", style: `left: ${wide(best.seconds)}`, title: `best so far: ${best.time}` }) : null),
      h("span", { class: "twb-bar-time" }, time, extra ? h("span", { class: "twb-faint" }, ` ${extra}`) : null));
    return h("div", { class: "twb-bars" },
      row("predicted", ghost?.seconds, ghost?.time ?? "-", "twb-ghost"),
      isHere ? row("measured", truth?.seconds, truth?.time ?? "-", "twb-truth", truth?.ratio ? `× ${truth.ratio}` : "") : null);
  }

  views.workbench = (host, live, ctx) => {
    let now = { ...live, table: { ...live.table } };
    let at = [...now.at], open = 0, inner = null, room = null;
    let seq = 0, flying = 0, sentAt = 0, watchdog = null;

    const sliders = now.controls.map((spec, i) => control(spec, at[i], (step) => slide(i, step)));
    const numbers = h("div"), status = h("div", { class: "twb-status" }), words = h("div"), best = h("div"), log = h("div"), tabsHost = h("div");
    const search = h("div"), applied = h("div");
    const button = (text, name, click) => h("button", { type: "button", "aria-label": name, click }, text);
    const again = button("measure again", "measure this position again", () => ask("again"));
    const apply = button("apply to cell", "put this schedule into the cell", () => ctx.send({ type: "apply", at }));
    const left = h("div", { class: "twb-left" }, sliders.map((c) => c.node), numbers, status, words,
      h("div", { class: "twb-buttons" }, again, apply), applied, best, search);
    host.replaceChildren(h("style", {}, CSS), h("div", { class: "twb-verdict" }, now.title),
      h("div", { class: "twb-bench" }, left, h("div", { class: "twb-right" }, tabsHost)), log);

    // ------------------------------------------------------------------------------------------ moving
    function entry(place) { return now.table[keyOf(place)] ?? {}; }

    function slide(i, step) {
      const before = at[i], to = [...at];
      to[i] = step;
      if (entry(to).reason) {  // not possible: go on in the same direction, else stay
        const way = step >= before ? 1 : -1, count = now.controls[i].labels.length;
        const reason = entry(to).reason, label = now.controls[i].labels[step];
        for (to[i] = step + way; to[i] >= 0 && to[i] < count && entry(to).reason; to[i] += way);
        if (to[i] < 0 || to[i] >= count) to[i] = before;
        sliders[i].input.value = to[i];
        ctx.announce(`${now.controls[i].name} cannot be ${label}: ${reason}`);
        now.skipped = { i, text: `${label}: ${reason}` };
      } else now.skipped = null;
      go(to);
    }

    function go(to) {
      if (keyOf(to) === keyOf(at)) return paintControls();
      at = to;
      const known = entry(at);
      now.state = { at, stage: "asking", ghost: known.time ? { time: known.time, seconds: known.seconds } : null, truth: known.truth ?? null,
        reason: known.reason ?? "", verdict: known.verdict ?? "" };
      paint();
      moveGhost();
      ask("move");
    }

    function ask(type) {
      if (type === "move" && flying) return;  // the answer on its way will send the newest
      flying = ++seq;
      sentAt = performance.now();
      ctx.send({ type, at, seq });
      clearTimeout(watchdog);
      watchdog = setTimeout(() => {
        flying = 0;
        now.silent = true;
        paintStatus();
      }, SILENT_MS);
    }

    function answered(state) {
      now.silent = false;
      if (!flying || state.seq < flying) return;
      flying = 0;
      clearTimeout(watchdog);
      if (keyOf(state.at) !== keyOf(at)) ask("move");
    }

    // ------------------------------------------------------------------------------------------ drawing
    function paintControls() {
      sliders.forEach((c, i) => {
        const reasons = now.controls[i].labels.map((_, step) => entry(at.map((x, k) => (k === i ? step : x))).reason);
        c.show(at[i], reasons, now.skipped?.i === i ? `not possible: ${now.skipped.text}` : "");
      });
    }

    function paintStatus() {
      const s = now.state ?? {};
      const ran = s.truth ? `run ${s.truth.number}` : "";
      const text = now.silent ? "the notebook's kernel is busy or gone; the ghost still follows" : s.stage ? `${s.stage}…` : s.reason ? "" : ran;
      status.replaceChildren(
        s.reason ? h("div", { class: "twb-bad" }, h("b", {}, "✕ "), s.reason) : null ?? "",
        h("span", { class: "twb-faint" }, text || (now.is_here ? "" : "predicted for another machine: nothing is measured")),
        ...(s.refused ? [" ", button("run it anyway", "run this position although it is predicted to be slow", () => ask("anyway"))] : []));
      status.classList.toggle("twb-busy", !!s.stage && !now.silent);
      again.disabled = !now.is_here || !!entry(at).limit;
    }

    function paint() {
      const s = now.state ?? {};
      paintControls();
      numbers.replaceChildren(bars(s.ghost, s.truth, now.best, now.is_here));
      paintStatus();
      words.replaceChildren(...[s.verdict ? h("p", { class: "twb-says" }, s.verdict) : null, s.why ? h("p", { class: "twb-faint" }, s.why) : null,
        s.surprise ? h("p", { class: "twb-surprise" }, h("b", {}, "Prediction and measurement differ. "), s.surprise) : null,
        s.truth && !s.truth.is_right ? h("p", { class: "twb-bad" }, h("b", {}, "✕ "), "the result differs from the reference") : null].filter(Boolean));
      best.replaceChildren(...(now.best ? [h("span", {}, `Best so far: run ${now.best.number}, ${now.best.schedule}, ${now.best.time} `),
        button("go there", "go to the best run so far", () => go(now.best.at))] : []));
      apply.disabled = !!s.reason;
    }

    function paintLog() {
      if (!now.log?.rows?.length) return log.replaceChildren();
      const rows = now.log.rows.map((row, k) => row.map((c, i) => (i ? h("td", { class: i === 1 || i > 4 ? "twb-word" : "twb-number" }, c)
        : h("td", { class: "twb-word" }, button(c, `go to run ${parseInt(c, 10)}`, () => now.log.at[k] && go(now.log.at[k]))))));
      const table = h("table", { class: "twb-table" }, h("caption", {}, "runs, the newest first"),
        h("thead", {}, h("tr", {}, now.log.head.map((c) => h("th", { scope: "col" }, c)))), h("tbody", {}, rows.reverse().map((r) => h("tr", {}, r))));
      log.replaceChildren(h("div", { class: "twb-scroll twb-log", tabindex: 0, role: "region", "aria-label": "runs" }, table));
    }

    function paintSearch() {
      const s = now.search;
      if (!s || !now.is_here) return search.replaceChildren();
      const head = s.is_running
        ? [h("progress", { max: s.total || 1, value: s.done, "aria-label": "search" }), ` ${s.done} of ${s.total} `, button("stop", "stop the search", () => ctx.send({ type: "stop" }))]
        : [button("search", "try every position and keep the fastest", () => ctx.send({ type: "search" })), ` ${s.text ?? ""}`];
      search.replaceChildren(h("div", { class: "twb-buttons" }, head),
        ...(s.failures?.length ? [h("details", {}, h("summary", {}, `${s.failures.length} positions failed`), twb.table({ caption: "failures", head: ["schedule", "reason"], rows: s.failures, left: 2 }))] : []));
    }

    /** The roofline with the ghost of where the sliders stand; other views wait for Python. */
    function moveGhost() {
      const shown = now.views[open], marks = now.ghosts?.[keyOf(at)];
      if (!inner || shown?.tab !== "roofline" || !marks || !shown.scene) return;
      const rest = shown.scene.marks.filter((m) => m.group !== "ghost" && m.group !== "truth");
      inner.update({ ...shown, scene: { ...shown.scene, marks: [...rest, ...marks] } });
    }

    function fillTab(view) {
      inner?.destroy?.();
      room.replaceChildren();
      inner = (views[view.module] ?? views.scene)(room, view, ctx);
    }

    function build() {
      if (!now.views?.length) return;
      const list = twb.tabs({
        names: now.views.map((v) => v.tab), index: Math.min(open, now.views.length - 1), label: `views of ${now.title}`,
        chosen(i, panel) {
          const changed = open !== i;
          open = i;
          room = panel;
          fillTab(now.views[i]);
          if (changed) ctx.send({ type: "tab", tab: now.views[i].tab });
        },
      });
      tabsHost.replaceChildren(list.list, list.panel);
      list.start();
    }

    function news(message) {
      if (message?.type !== "news") return;
      if (message.table) Object.assign(now.table, message.table);
      if (message.ghosts) now.ghosts = { ...now.ghosts, ...message.ghosts };
      for (const name of ["log", "best", "search", "is_here"]) if (name in message) now[name] = message[name];
      if (message.state) {
        answered(message.state);
        const here = keyOf(message.state.at) === keyOf(at);
        if (!here && message.state.pushed) at = [...message.state.at];  // moved from Python
        if (here || message.state.pushed) now.state = message.state;
      }
      for (const view of message.views ?? []) {
        const i = now.views.findIndex((v) => v.tab === view.tab);
        if (i < 0) { now.views.push(view); build(); continue; }
        const same = now.views[i].module === view.module;
        now.views[i] = view;
        if (i !== open || keyOf(message.place ?? at) !== keyOf(at)) continue;
        if (same && inner?.update) inner.update(view);
        else fillTab(view);
      }
      paint();
      if (message.log) paintLog();
      if (message.search) paintSearch();
      if (message.applied) twb.putIntoCell(host, applied, message.applied, "the cell has the new schedule: run it again (undo works there)", ctx.announce);
      if (message.say) ctx.announce(message.say);
    }

    const stopNews = ctx.onMessage?.(news) ?? (() => {});
    const stopSelect = ctx.onSelect((sel) => {
      if (!sel?.candidate) return;
      const to = now.controls.map((c, i) => { const k = c.labels.indexOf(String(sel.candidate[c.name])); return k < 0 ? at[i] : k; });
      if (!entry(to).reason) go(to);
    });
    paint();
    paintLog();
    paintSearch();
    build();
    ctx.send({ type: "hello" });
    return {
      update(next) { now = { ...next, table: { ...now.table, ...next.table }, ghosts: { ...now.ghosts, ...next.ghosts } }; at = [...now.at]; paint(); paintLog(); paintSearch(); build(); },
      destroy() { clearTimeout(watchdog); stopNews(); stopSelect(); inner?.destroy?.(); host.replaceChildren(); },
      get sentAt() { return sentAt; },
    };
  };

  const CSS = `
.twb-bench { display: flex; flex-wrap: wrap; gap: 10px 26px; align-items: flex-start; }
.twb-left { flex: 1 1 270px; max-width: 430px; min-width: 0; } .twb-right { flex: 3 1 430px; min-width: 0; }
.twb-control { margin-bottom: 6px; } .twb-control .twb-slider { margin: 0; flex-wrap: nowrap; } .twb-control .twb-slider input { min-width: 90px; }
.twb-control .twb-value { min-width: 46px; text-align: right; font-weight: 600; }
.twb-steps { display: flex; justify-content: space-between; margin: -3px 56px 0 96px; font-size: 11px; color: var(--twb-faint); font-variant-numeric: tabular-nums; }
.twb-step { min-width: 3px; text-align: center; } .twb-here { color: var(--twb-text); font-weight: 600; }
.twb-no { color: var(--twb-warning); text-decoration: line-through; } .twb-why-not { font-size: 12px; min-height: 0; }
.twb-bars { margin: 8px 0 4px; } .twb-bar { display: flex; align-items: center; gap: 8px; margin: 3px 0; }
.twb-bar-name { flex: 0 0 66px; } .twb-bar-time { flex: 0 0 128px; font-weight: 600; font-variant-numeric: tabular-nums; white-space: nowrap; }
.twb-bar-room { position: relative; flex: 1 1 60px; height: 12px; background: var(--twb-surface); border-radius: 3px; }
.twb-ghost, .twb-truth { display: block; height: 12px; border-radius: 3px; border: 2px solid var(--twb-accent); }
.twb-ghost { border-style: dashed; } .twb-truth { background: var(--twb-accent); }
.twb-bar-best { position: absolute; top: -2px; height: 16px; width: 3px; margin-left: -2px; background: var(--twb-good); }
.twb-status { min-height: 21px; } .twb-busy::before { content: "◌ "; color: var(--twb-accent); }
.twb-bad { color: var(--twb-warning); } .twb-surprise { border-left: 3px solid var(--twb-warning); padding-left: 8px; }
.twb-left p { margin: 4px 0; } .twb-says { font-weight: 600; }
.twb-log { max-height: 240px; overflow-y: auto; margin-top: 8px; }
.twb-log td.twb-word:last-child { white-space: normal; min-width: 220px; }`;
})();
