// The edge to the notebook: an anywidget model in, a view on the page. The offline page of the exporter calls the same `render` with a model of its own.

/** Give `host` the look that all views share, and what a view may call. */
function twbContext(host, group, { send = () => {}, onMessage = () => () => {}, isOffline = false } = {}) {
  const shared = twb.selection(group);
  const voice = twb.h("div", { class: "twb-sr", role: "status", "aria-live": "polite" });
  const themeListeners = new Set();
  host.classList.add("twb");
  // arrows and Enter are the view's while it has the focus, not the notebook's; JupyterLab looks at the focused element itself
  host.addEventListener("focusin", (event) => event.target.setAttribute("data-lm-suppress-shortcuts", "true"));
  const stopTheme = twb.themed(host, () => themeListeners.forEach((listener) => listener()));
  const place = twb.h("div");
  host.replaceChildren(twb.h("style", {}, twb.CSS), place, voice);
  const ctx = {
    select: (sel) => shared.select(sel),
    selection: () => shared.now,
    onSelect: (listener) => shared.onSelect(listener),
    onTheme: (listener) => (themeListeners.add(listener), () => themeListeners.delete(listener)),
    announce: (text) => { voice.textContent = text; },
    send,
    onMessage,
    isOffline,
  };
  return { ctx, place, stop: stopTheme };
}

/** Hide the static picture of the same view: it stands above for notebooks without a kernel. */
function twbHideStatic(id, el) {
  if (!id) return;
  const hide = () => {
    const node = document.getElementById(id);
    const output = node?.closest(".jp-OutputArea-child, .output_area, .cell-output, .output_container");
    if (node) (output && !output.contains(el) ? output : node).style.display = "none";
    return !!node;
  };
  if (hide()) return;
  let tries = 0;
  const timer = setInterval(() => { if (hide() || ++tries > 20) clearInterval(timer); }, 100);
}

function render({ model, el }) {
  const listeners = new Set();
  const heard = (message) => listeners.forEach((listener) => listener(message));
  // a kernel that was restarted has no end of the line; the view goes on with what it has
  const tell = (say) => { try { say(); } catch (error) { console.info("the notebook's kernel is gone:", error.message); } };
  const group = model.get("group") || `twb-${Math.random().toString(36).slice(2)}`;
  const { ctx, place, stop } = twbContext(el, group, {
    send: (message) => tell(() => model.send(message)),
    onMessage: (listener) => (listeners.add(listener), () => listeners.delete(listener)),
    isOffline: !!model.get("is_offline"),
  });
  let view = null, module = null;
  const draw = () => {
    const live = model.get("live");
    if (view && module === live.module) return view.update(live);
    view?.destroy?.();
    module = live.module;
    view = (twb.views[module] ?? twb.views.scene)(place, live, ctx);
  };
  const fromPython = () => ctx.select(model.get("selection") ?? {});
  const toPython = ctx.onSelect((sel) => { model.set("selection", sel); tell(() => model.save_changes()); });
  model.on("change:live", draw);
  model.on("change:selection", fromPython);
  model.on("msg:custom", heard);
  draw();
  twbHideStatic(model.get("static_id"), el);
  return () => {
    model.off("change:live", draw);
    model.off("change:selection", fromPython);
    model.off("msg:custom", heard);
    toPython();
    stop();
    view?.destroy?.();
  };
}

export default { render };
