"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const TRAPS = { set: "sets a trap", met: "meets the trap", fallen: "falls into the trap", missed: "misses a trap" };
  const JUDGED = ["", "Inaccuracy", "Mistake", "Blunder"];
  const GLYPHS = ["", "?!", "?", "??"];

  /** An element with text: data of the games is never parsed as HTML. */
  const make = (name, text, className) => {
    const element = document.createElement(name);
    if (text !== undefined) element.textContent = text;
    if (className) element.className = className;
    return element;
  };

  const board = Chessground(at("board"), { viewOnly: true, coordinates: true, animation: { duration: 120 } });
  let game = null;
  let ply = 0; // moves played
  let graph = null;

  const startTurn = () => (game.start.split(" ")[1] === "w" ? 0 : 1);
  const startNumber = () => Number(game.start.split(" ")[5]) || 1;
  /** The number of a move, and whether White played it. */
  const place = (index) => {
    const half = index + startTurn();
    return { number: startNumber() + Math.floor(half / 2), isWhite: half % 2 === 0 };
  };
  const percent = (perMille) => (perMille / 10).toFixed(0) + " %";
  /** White's expected score from wins and losses in per mille. */
  const expected = ([win, loss]) => 50 + (win - loss) / 20;
  /** The gain of the side to move by mistakes of its opponent, in per cent of a point. */
  const trapOf = (line, isWhite) =>
    line[3] ? Math.max(0, (isWhite ? 1 : -1) * (expected(line[2]) - expected(line[3]))) : 0;

  /** The lines of each position: before the moves, and after the last one if the game is not over there. */
  const positions = () => [...game.moves.map((move) => move.l), ...(game.end ? [game.end] : [])];

  function values() {
    const [x, win, notLost, traps] = [[], [], [], { true: [], false: [] }];
    positions().forEach((lines, index) => {
      const best = lines[0];
      x.push(index);
      if (!best) {
        for (const list of [win, notLost, traps.true, traps.false]) list.push(null);
        return;
      }
      const { isWhite } = place(index);
      // The best line against best replies, for the side to move.
      const sign = isWhite ? 1 : -1;
      const against = (line) => line[3] || line[2];
      const most = lines.reduce((a, b) => (sign * expected(against(b)) > sign * expected(against(a)) ? b : a));
      win.push(against(most)[0] / 10);
      notLost.push(100 - against(most)[1] / 10);
      traps[isWhite].push(trapOf(best, isWhite));
      traps[!isWhite].push(null);
    });
    return [x, notLost, win, traps.true, traps.false];
  }

  function drawGraph() {
    const element = at("graph");
    element.textContent = "";
    const ink = getComputedStyle(document.body).color;
    const width = Math.max(280, element.clientWidth);
    const axis = { stroke: ink, grid: { show: false }, ticks: { show: false } };
    graph = new uPlot({
      width,
      height: width < 500 ? 170 : 210,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: false }, y: { range: [0, 100] } },
      axes: [
        { ...axis, size: 28, values: (_, ticks) => ticks.map((tick) => (Number.isInteger(tick) ? place(tick).number : "")) },
        { ...axis, size: 44, values: (_, ticks) => ticks.map((tick) => tick + " %") },
      ],
      series: [
        {},
        { fill: "#a9a9a9", stroke: "#a9a9a9", width: 0, points: { show: false } },
        { fill: "#f4f4f0", stroke: "#f4f4f0", width: 0, points: { show: false } },
        { stroke: "#1f78d1", width: 2, spanGaps: true, points: { show: false } },
        { stroke: "#d6339a", width: 2, spanGaps: true, points: { show: false } },
      ],
      hooks: {
        drawClear: [(plot) => {
          plot.ctx.fillStyle = "#484848";
          plot.ctx.fillRect(plot.bbox.left, plot.bbox.top, plot.bbox.width, plot.bbox.height);
        }],
        draw: [(plot) => {
          const x = Math.round(plot.valToPos(Math.min(ply, positions().length - 1), "x", true)) + 0.5;
          plot.ctx.strokeStyle = "#e08a00";
          plot.ctx.lineWidth = 2;
          plot.ctx.beginPath();
          plot.ctx.moveTo(x, plot.bbox.top);
          plot.ctx.lineTo(x, plot.bbox.top + plot.bbox.height);
          plot.ctx.stroke();
        }],
        ready: [(plot) => plot.over.addEventListener("click", () => go(plot.cursor.idx ?? ply))],
      },
    }, values(), element);
  }

  function drawMoves() {
    const list = at("moves");
    list.textContent = "";
    game.moves.forEach((move, index) => {
      const { number, isWhite } = place(index);
      // A number stays on the line of its move.
      const group = make("span", undefined, "move");
      if (isWhite || index === 0) group.append(make("span", number + (isWhite ? "." : "..."), "number"));
      const button = make("button", move.s + (GLYPHS[move.j] || ""), move.j ? "j" + move.j : "");
      button.setAttribute("role", "listitem");
      button.addEventListener("click", () => go(index + 1));
      if (move.t) {
        const mark = make("span", { set: "trap", met: "met", fallen: "fell", missed: "missed" }[move.t], "t " + move.t);
        button.append(mark);
      }
      group.append(button);
      list.append(group, " ");
    });
    list.append(make("span", " " + game.result));
  }

  /** The analysis before the last played move; at the start, before the first one. */
  function drawLines() {
    const verdict = at("verdict");
    const lines = at("lines");
    verdict.textContent = "";
    lines.textContent = "";
    const index = Math.max(0, ply - 1);
    const move = game.moves[index];
    if (!move) return;
    const { number, isWhite } = place(index);
    verdict.append(ply === 0 ? "Before the first move." : make("b", `${number}${isWhite ? "." : "..."} ${move.s}`));
    if (ply > 0) {
      if (move.j) verdict.append(" ", make("span", `${JUDGED[move.j]}, −${move.x} %.`, "j" + move.j));
      if (move.t) verdict.append(" ", make("span", TRAPS[move.t], "t " + move.t));
      if (!move.j && !move.t) verdict.append(move.l[0] && move.l[0][0] === move.u ? " The engine's choice." : " ");
    }
    const table = make("table");
    const head = make("tr");
    for (const text of ["Instead of it", "White wins", "draw", "Black wins", "score", "best replies", "trap"]) head.append(make("th", text));
    head.firstChild.textContent = ply === 0 ? "Lines" : "Lines before the move";
    table.append(head);
    for (const line of move.l) {
      const row = make("tr", undefined, line[0] === move.u ? "played" : "");
      const [win, loss] = line[2];
      const cells = line[4]
        ? [line[1], percent(win), percent(1000 - win - loss), percent(loss), "#" + line[4], "", ""]
        : [line[1], percent(win), percent(1000 - win - loss), percent(loss), expected(line[2]).toFixed(1),
           line[3] ? expected(line[3]).toFixed(1) : "", line[3] ? trapOf(line, isWhite).toFixed(1) : ""];
      cells.forEach((text) => row.append(make("td", text)));
      table.append(row);
    }
    lines.append(table);
  }

  function show() {
    const last = ply > 0 ? game.moves[ply - 1] : null;
    board.set({
      fen: last ? last.f : game.start,
      lastMove: last && last.u ? [last.u.slice(0, 2), last.u.slice(2, 4)] : undefined,
      turnColor: place(ply).isWhite ? "white" : "black",
    });
    const next = game.moves[ply];
    const best = next && next.l[0] && next.l[0][0];
    board.setAutoShapes(best ? [{ orig: best.slice(0, 2), dest: best.slice(2, 4), brush: "paleBlue" }] : []);
    at("moves").querySelectorAll("button").forEach((button, index) => {
      const isHere = index === ply - 1;
      button.classList.toggle("here", isHere);
      if (isHere) {
        button.setAttribute("aria-current", "true");
        const list = at("moves");
        const top = button.offsetTop - list.offsetTop;
        if (top < list.scrollTop || top > list.scrollTop + list.clientHeight - 30) list.scrollTop = top - list.clientHeight / 2;
      } else {
        button.removeAttribute("aria-current");
      }
    });
    drawLines();
    if (graph) graph.redraw(false);
  }

  function go(to) {
    ply = Math.min(Math.max(0, to), game.moves.length);
    show();
  }

  /** The next move with a trap or a mistake. */
  function nextMoment() {
    const marked = (move) => move.t || move.j;
    const after = game.moves.findIndex((move, index) => index >= ply && marked(move));
    const first = game.moves.findIndex(marked);
    if (first >= 0) go((after >= 0 ? after : first) + 1);
  }

  function choose(index) {
    game = DATA.games[index];
    ply = 0;
    at("games").value = String(index);
    at("about").textContent = [game.event, game.date, game.result].filter((text) => text && text !== "?" && text !== "????.??.??").join(", ");
    drawMoves();
    drawGraph();
    show();
  }

  const flip = () => board.toggleOrientation();
  for (const [id, action] of Object.entries({
    first: () => go(0), back: () => go(ply - 1), on: () => go(ply + 1), last: () => go(game.moves.length), moment: nextMoment, flip,
  })) at(id).addEventListener("click", action);
  at("games").addEventListener("change", (event) => choose(Number(event.target.value)));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
    const current = DATA.games.indexOf(game);
    const action = {
      ArrowLeft: () => go(ply - 1), ArrowRight: () => go(ply + 1), Home: () => go(0), End: () => go(game.moves.length),
      f: flip, t: nextMoment,
      n: () => choose(Math.min(current + 1, DATA.games.length - 1)), p: () => choose(Math.max(current - 1, 0)),
    }[event.key];
    if (action) {
      event.preventDefault();
      action();
    }
  });
  let resizing = 0;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => { drawGraph(); board.redrawAll(); }, 100);
  });

  DATA.games.forEach((each, index) => {
    at("games").append(new Option(`${each.number}. ${each.white || "?"} – ${each.black || "?"} ${each.result}`, String(index)));
  });
  at("how").textContent = `${DATA.source}: ${DATA.how}. Keys: ← → Home End, t next moment, f turn the board, n p next and previous game.`;
  document.title = `${DATA.source} – analysed by Scorn`;
  if (DATA.games.length) choose(0);
})();
