// The passes of one compilation: a list to walk with j and k or the arrows, and the chosen pass's reason and diff beside it.
// live: {passes: [{pass, summary, ms, reason, diff: ["+line" | "-line" | " line" | "… 3 lines"]}]}

(() => {
  const { h, views } = twb;
  const CSS = `
.twb-pass-grid { display: flex; gap: 10px; flex-wrap: wrap; align-items: flex-start; }
.twb-pass-list { flex: 0 0 250px; border: 1px solid var(--twb-grid); border-radius: 6px; padding: 3px; max-height: 440px; overflow: auto; }
.twb-pass-list:focus-visible { outline: 2px solid var(--twb-accent); }
.twb-pass { display: flex; justify-content: space-between; gap: 8px; padding: 2px 8px; border-radius: 4px; cursor: pointer; font-size: 12.5px; border-left: 3px solid transparent; }
.twb-pass[aria-selected=true] { background: color-mix(in srgb, var(--twb-accent) 14%, transparent); border-left-color: var(--twb-accent); font-weight: 600; }
.twb-pass.same { color: var(--twb-faint); }
.twb-pass-body { flex: 1 1 420px; min-width: 0; }
.twb-pass-diff { border: 1px solid var(--twb-grid); border-radius: 6px; overflow: auto; max-height: 400px; margin: 4px 0 0; padding: 6px 0;
  font: 11.5px/16px var(--jp-code-font-family, ui-monospace, Menlo, Consolas, monospace); }
.twb-pass-diff > div { white-space: pre; padding: 0 10px; min-width: max-content; }
.twb-pass-diff > .add { background: color-mix(in srgb, var(--twb-good) 18%, transparent); }
.twb-pass-diff > .del { background: color-mix(in srgb, var(--twb-warning) 16%, transparent); }
.twb-pass-diff > .rest { color: var(--twb-faint); }
`;

  views.passes = (host, live, ctx) => {
    const base = `twb-pass-${Math.random().toString(36).slice(2)}`;
    let now = live, at = 0, nodes = [];
    const list = h("div", {
      class: "twb-pass-list", role: "listbox", tabindex: "0", "aria-label": "passes",
      keydown: (event) => {
        const to = { ArrowDown: at + 1, ArrowUp: at - 1, j: at + 1, k: at - 1, ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: now.passes.length - 1 }[event.key];
        if (to === undefined || !now.passes.length) return;
        event.preventDefault();
        event.stopPropagation();
        show(Math.max(0, Math.min(to, now.passes.length - 1)), true);
      },
    });
    const reason = h("div");
    const diff = h("div", { class: "twb-pass-diff", tabindex: "0", role: "region" });
    const twin = h("pre", { class: "twb-scroll", tabindex: "0" });
    host.append(h("style", {}, CSS), h("div", { class: "twb-pass-grid" }, list, h("div", { class: "twb-pass-body" }, reason, diff)),
      h("div", { class: "twb-faint" }, "j and k, or the arrow keys, walk through the passes"), h("details", {}, h("summary", {}, "as text"), twin));

    function build() {
      nodes = now.passes.map((p, i) => h("div", {
        class: p.diff.length ? "twb-pass" : "twb-pass same", role: "option", id: `${base}-${i}`, "aria-selected": "false", click: () => show(i, false),
      }, h("span", {}, `${i + 1}. ${p.pass}`), h("span", {}, p.summary)));
      list.replaceChildren(...nodes);
      twin.textContent = now.text;
      twin.setAttribute("aria-label", `${now.title}, as text`);
      if (now.passes.length) show(Math.min(at, now.passes.length - 1), false);
      else diff.replaceChildren("no passes: the kernel was not compiled");
    }

    function show(i, speak) {
      nodes[at]?.setAttribute("aria-selected", "false");
      at = i;
      const p = now.passes[at];
      nodes[at].setAttribute("aria-selected", "true");
      list.setAttribute("aria-activedescendant", nodes[at].id);
      const top = nodes[at].offsetTop - list.offsetTop;
      if (top < list.scrollTop || top > list.scrollTop + list.clientHeight - 24) list.scrollTop = Math.max(0, top - 60);
      reason.replaceChildren(h("b", {}, `${at + 1}. ${p.pass}`), `  ${p.summary}, ${p.ms.toFixed(2)} ms`, h("div", {}, p.reason));
      diff.setAttribute("aria-label", `what ${p.pass} changed`);
      diff.replaceChildren(...(p.diff.length ? p.diff : [" unchanged"]).map((line) =>
        h("div", { class: line[0] === "+" ? "add" : line[0] === "-" ? "del" : "rest" }, line)));
      if (speak) ctx.announce(`${at + 1} of ${now.passes.length}: ${p.pass}, ${p.summary}. ${p.reason}`);
    }

    at = Math.max(0, now.passes.findIndex((p) => p.diff.length));
    build();
    return { update(next) { now = next; build(); }, destroy() { host.replaceChildren(); } };
  };
})();
