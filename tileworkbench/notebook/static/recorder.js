// The flight recorder: sliders for the block, the step of its tile loop and the operation inside it; the picture of that moment.
// live: {title, text, scene, at: [block, step, operation], names: [three], note, film}. The film is packed JSON {parts: [[mark]], blocks:
// [{label, block, steps}]}, each step {label, step, ops: [text], frames: [[part]]}. A frame is a list of parts, and parts repeat, so hundreds of
// frames are small.

(() => {
  const { h, views } = twb;
  const PLAY_MS = 650;

  views.recorder = (host, live, ctx) => {
    const bar = h("div", { role: "group", "aria-label": "recorder controls" });
    const stage = h("div");
    host.append(bar, stage);
    let now = live, film = null, at = [...live.at], inner = null, sliders = [], timer = null, play = null, gone = false;

    const block = () => film.blocks[at[0]];
    const step = () => block().steps[at[1]];
    const clamp = (i, n) => Math.max(0, Math.min(i, n - 1));

    function sceneNow() {
      const marks = step().frames[at[2]].flatMap((part) => film.parts[part]);
      return { ...now.scene, title: `${now.title}, ${words()}`, marks };
    }

    const words = () => `${block().label}, ${step().label}, ${step().ops[at[2]]}`;

    /** Go to a block, a step and an operation; places that are not there become the nearest. */
    function go(b, s, o, speak = true) {
      const before = [...at];
      at[0] = clamp(b, film.blocks.length);
      at[1] = clamp(s, block().steps.length);
      at[2] = clamp(o, step().ops.length);
      if (before[0] !== at[0]) sliders[1].relabel(block().steps.map((x) => x.label), at[1]);
      if (before[0] !== at[0] || before[1] !== at[1]) sliders[2].relabel(step().ops, at[2]);
      sliders.forEach((slider, i) => slider.show(at[i]));
      paint();
      if (speak) ctx.announce(words());
    }

    /** One operation on, into the next step and block where this one ends. Returns false at the end of the film. */
    function forward(by) {
      let [b, s, o] = at;
      o += by;
      if (o >= step().ops.length) { s += 1; o = 0; }
      if (o < 0) { s -= 1; o = Infinity; }
      if (s >= block().steps.length) { b += 1; s = 0; o = 0; }
      if (s < 0) { b -= 1; s = Infinity; o = Infinity; }
      if (b < 0 || b >= film.blocks.length) return false;
      go(b, s, o);
      return true;
    }

    function paint() {
      const shown = { ...now, module: "scene", frames: undefined, scene: sceneNow(), text: `${words()}\n\n${now.text}` };
      if (inner) inner.update(shown);
      else inner = views.scene(stage, shown, ctx);
    }

    /** A slider whose labels can change: another block walks over other keys. */
    function axis(name, labels, i, moved) {
      let made = twb.slider({ name, labels, index: at[i], moved });
      const holder = h("div", {}, made.node);
      return {
        node: holder,
        show: (index) => made.show(index),
        relabel(next, index) {
          const held = holder.contains(document.activeElement);
          made = twb.slider({ name, labels: next, index, moved });
          holder.replaceChildren(made.node);
          if (held) made.input.focus();
        },
      };
    }

    function controls() {
      sliders = [
        axis(now.names[0], film.blocks.map((x) => x.label), 0, (i) => go(i, at[1], at[2])),
        axis(now.names[1], block().steps.map((x) => x.label), 1, (i) => go(at[0], i, at[2])),
        axis(now.names[2], step().ops, 2, (i) => go(at[0], at[1], i)),
      ];
      play = h("button", { type: "button", "aria-pressed": "false", click: () => (timer ? pause() : start()) }, "play");
      bar.replaceChildren(...sliders.map((slider) => slider.node), h("div", { class: "twb-slider" },
        h("button", { type: "button", "aria-label": "previous operation", click: () => forward(-1) }, "‹ back"),
        h("button", { type: "button", "aria-label": "next operation", click: () => forward(1) }, "next ›"), play,
        now.note ? h("span", { class: "twb-faint" }, now.note) : null));
    }

    function start() {
      play.textContent = "pause";
      play.setAttribute("aria-pressed", "true");
      timer = setInterval(() => { if (!forward(1)) pause(); }, PLAY_MS);
    }

    function pause() {
      clearInterval(timer);
      timer = null;
      play?.setAttribute("aria-pressed", "false");
      if (play) play.textContent = "play";
    }

    async function load() {
      const text = new TextDecoder().decode(await twb.unpack(now.film));
      if (gone) return;
      film = JSON.parse(text);
      at = [...now.at];
      controls();
      go(...at, false);
    }

    const stop = ctx.onSelect((sel) => {
      const pair = /^pair:(\d+):(\d+)$/.exec(sel.key ?? "");
      if (!pair || !film) return;
      const b = film.blocks.findIndex((x) => x.block === Number(pair[1]));
      const s = b < 0 ? -1 : film.blocks[b].steps.findIndex((x) => x.step === Number(pair[2]));
      if (s >= 0 && (b !== at[0] || s !== at[1])) go(b, s, at[2]);
    });

    load();
    return {
      update(next) { pause(); now = next; load(); },
      destroy() { gone = true; pause(); stop(); inner?.destroy?.(); host.replaceChildren(); },
    };
  };
})();
