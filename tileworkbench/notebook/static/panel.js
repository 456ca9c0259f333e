// A panel: the verdict, the facts, and several views of one kernel as tabs that share a selection.
// live: {title, verdict, place, facts: [[name, value]], checks: [[text, holds]], notes: [text], badge, table: {caption, head, rows} | null, views: [live of a view]}

(() => {
  const { h, views } = twb;

  views.panel = (host, live, ctx) => {
    const head = h("div");
    const body = h("div");
    let now = live, open = 0, inner = null, shown = null;
    host.append(head, body);

    function top() {
      const parts = [
        h("div", { class: "twb-verdict" }, now.verdict ?? now.title),
        now.place ? h("div", { class: "twb-faint" }, now.place, now.badge ? h("span", { class: "twb-badge" }, now.badge) : null) : null,
        h("div", { class: "twb-facts" }, (now.facts ?? []).map(([name, value]) => h("div", {}, h("span", {}, name), value))),
        ...(now.checks ?? []).map(([text, holds]) => h("div", {}, h("b", { style: `color: var(--twb-${holds ? "good" : "warning"})` }, holds ? "ok " : "FAILED "), text)),
        now.table ? twb.table(now.table) : null,
        ...(now.notes ?? []).map((text) => h("div", { class: "twb-faint" }, text)),
      ];
      head.replaceChildren(...parts.filter((part) => part));  // it would write "null"
    }

    function build() {
      if (!now.views.length) return body.replaceChildren(); // --show summary
      const list = twb.tabs({
        names: now.views.map((v) => v.tab ?? v.title), index: Math.min(open, now.views.length - 1), label: `views of ${now.title}`,
        chosen(i, panel) {
          open = i;
          inner?.destroy?.();
          panel.replaceChildren();
          shown = now.views[i].module;
          inner = (views[shown] ?? views.scene)(panel, now.views[i], ctx);
        },
      });
      body.replaceChildren(list.list, list.panel);
      list.start();
    }

    top();
    build();
    return {
      update(next) {
        const names = (x) => x.views.map((v) => `${v.module} ${v.tab ?? v.title}`).join("|");
        const same = names(next) === names(now);
        now = next;
        top();
        if (same) inner?.update?.(now.views[open]);
        else build();
      },
      destroy() { inner?.destroy?.(); host.replaceChildren(); },
    };
  };
})();
