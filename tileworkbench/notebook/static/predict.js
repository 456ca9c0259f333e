// Predict first: a question with a field; the number arrives only after a guess.
// live: {question, unit, hint, is_open, error} while it is open; then {question, scene, text}.

(() => {
  const { h, views } = twb;

  views.predict = (host, live, ctx) => {
    let inner = null;

    function ask(now) {
      const id = `twb-${Math.random().toString(36).slice(2)}`;
      const guess = () => ctx.send({ guess: field.value });
      const enter = (event) => {  // a notebook may keep Enter from the form
        if (event.key !== "Enter") return;
        event.preventDefault();
        event.stopPropagation();
        guess();
      };
      const field = h("input", { id, type: "text", autocomplete: "off", "aria-describedby": `${id}-hint`, style: "min-width: 9em", keydown: enter });
      const parts = [
        h("div", { style: "font-weight: 600" }, now.question),
        h("div", { class: "twb-slider" },
          h("label", { for: id, style: "font-family: inherit" }, now.unit ? `your guess (${now.unit})` : "your guess"), field,
          h("button", { type: "button", click: guess }, "reveal"),
          h("button", { type: "button", click: () => ctx.send({ give_up: true }) }, "give up")),
        h("div", { id: `${id}-hint`, class: "twb-faint" }, now.hint ?? ""),
      ];
      if (now.error) parts.push(h("div", { role: "alert", style: "color: var(--twb-warning)" }, now.error));
      host.replaceChildren(...parts);
      if (now.error) field.focus();
    }

    function paint(now) {
      inner?.destroy?.();
      inner = null;
      host.replaceChildren();
      if (now.is_open) return ask(now);
      inner = views.scene(host, { ...now, module: "scene" }, ctx);
      ctx.announce(now.text ?? "");
    }

    paint(live);
    return { update: paint, destroy() { inner?.destroy?.(); host.replaceChildren(); } };
  };
})();
