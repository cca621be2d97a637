"use strict";
(() => {
  const DATA = JSON.parse(document.getElementById("data").textContent);
  const at = (id) => document.getElementById(id);
  const MARKS = { set: "trap", met: "met", fallen: "fell", missed: "missed" };
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
  let variation = null; // a line and how many of its moves are shown
  let graph = null;

  const startTurn = () => (game.start.split(" ")[1] === "w" ? 0 : 1);
  const startNumber = () => Number(game.start.split(" ")[5]) || 1;
  /** The number of a move, and whether White played it. */
  const place = (index) => {
    const half = index + startTurn();
    return { number: startNumber() + Math.floor(half / 2), isWhite: half % 2 === 0 };
  };
  const numbered = (index, san) => { const { number, isWhite } = place(index); return `${number}${isWhite ? "." : "..."} ${san}`; };
  const fenAt = (index) => (index > 0 ? game.moves[index - 1].f : game.start);
  /** White's expected score from wins and losses in per mille. */
  const expected = ([win, loss]) => 50 + (win - loss) / 20;

  // A line: [its moves in UCI's notation, in SAN, practical chances, chances against best replies, moves to mate or 0];
  // chances and mates are White's. Chances are 0 where they are not known; the first line always has those against best
  // replies.
  const bestPlay = (line) => line[3];
  const uciOf = (line) => line[0].split(" ");
  /** The best line of a position, which is the first. */
  const positions = () => [...game.moves.map((move) => move.l), ...(game.end ? [game.end] : [])];
  const scoreOf = (line) => (line[4] ? (line[4] > 0 ? 100 : 0) : bestPlay(line) ? expected(bestPlay(line)) : null);
  /** White's expected score of the position after `count` moves; null if it is not known. */
  function scoreAt(count) {
    const lines = positions()[count];
    if (lines && lines[0]) return { score: scoreOf(lines[0]), mate: lines[0][4] };
    const last = count > 0 && game.moves[count - 1].s;
    if (last && last.endsWith("#")) return { score: place(count - 1).isWhite ? 100 : 0, mate: 0 };
    return game.moves.length === count && count > 0 ? { score: 50, mate: 0 } : null;
  }

  /** A position (board part of a FEN) after a move in UCI's notation. */
  function afterMove(fen, uci) {
    const rows = fen.split(" ")[0].split("/").map((row) => [...row.replace(/\d/g, (n) => " ".repeat(Number(n)))]);
    const square = (text) => [8 - Number(text[1]), text.charCodeAt(0) - 97];
    const [fromRow, fromFile] = square(uci.slice(0, 2));
    const [toRow, toFile] = square(uci.slice(2, 4));
    const piece = rows[fromRow][fromFile];
    const target = rows[toRow][toFile];
    const isOwn = target !== " " && (target === target.toUpperCase()) === (piece === piece.toUpperCase());
    rows[fromRow][fromFile] = " ";
    if (piece.toLowerCase() === "k" && (isOwn || Math.abs(toFile - fromFile) > 1)) {
      // Castling, as a king's move or (Chess960) onto the own rook.
      const isShort = toFile > fromFile;
      const rook = isOwn ? target : rows[toRow][isShort ? 7 : 0];
      rows[toRow][isOwn ? toFile : isShort ? 7 : 0] = " ";
      rows[toRow][isShort ? 6 : 2] = piece;
      rows[toRow][isShort ? 5 : 3] = rook;
    } else {
      if (piece.toLowerCase() === "p" && toFile !== fromFile && target === " ") rows[fromRow][toFile] = " ";
      const promoted = uci[4] && (piece === "P" ? uci[4].toUpperCase() : uci[4]);
      rows[toRow][toFile] = promoted || piece;
    }
    return rows.map((row) => row.join("").replace(/ +/g, (gap) => gap.length)).join("/");
  }

  function values() {
    const [x, win, notLost, marks] = [[], [], [], []];
    positions().forEach((lines, index) => {
      x.push(index);
      const best = lines[0];
      win.push(best ? (best[4] ? scoreOf(best) : bestPlay(best)[0] / 10) : null);
      notLost.push(best ? (best[4] ? scoreOf(best) : 100 - bestPlay(best)[1] / 10) : null);
      const moment = index > 0 && game.moves[index - 1].t;
      marks.push(moment === "set" || moment === "fallen" ? (best ? scoreOf(best) : 50) : null);
    });
    return [x, notLost, win, marks];
  }

  function drawGraph() {
    const element = at("graph");
    element.textContent = "";
    const ink = getComputedStyle(document.body).color;
    const width = Math.max(280, element.clientWidth);
    const axis = { stroke: ink, grid: { show: false }, ticks: { show: false } };
    graph = new uPlot({
      width,
      height: width < 500 ? 150 : 180,
      padding: [8, 8, 0, 0],
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false } },
      scales: { x: { time: false }, y: { range: [0, 100] } },
      axes: [
        // Two plies a move.
        { ...axis, size: 28, incrs: [2, 4, 10, 20, 40, 100, 200, 400], values: (_, ticks) => ticks.map((tick) => place(tick).number) },
        { ...axis, size: 48, values: (_, ticks) => ticks.map((tick) => tick + " %") },
      ],
      series: [
        {},
        { fill: "#a9a9a9", stroke: "#a9a9a9", width: 0, points: { show: false } },
        { fill: "#f4f4f0", stroke: "#f4f4f0", width: 0, points: { show: false } },
        { paths: () => null, points: { show: true, size: 10, fill: "#a45ee5", stroke: "#ffffff", width: 1 } },
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

  function drawPlayers() {
    const isFlipped = board.state.orientation === "black";
    for (const [id, isWhite] of [["top", isFlipped], ["bottom", !isFlipped]]) {
      const element = at(id);
      element.textContent = "";
      element.className = isWhite ? "player" : "player black";
      const name = (isWhite ? game.white : game.black) || "?";
      const elo = isWhite ? game.whiteElo : game.blackElo;
      const label = make("span", undefined, "name");
      label.append(make("span", name));
      // The name is cut off where there is no room, the rating is not.
      // "?", "-" and 0 stand for an unknown one.
      if (/[1-9]/.test(elo)) label.append(` (${elo})`);
      label.title = label.textContent;
      element.append(label);
      const accuracy = game.accuracy[isWhite ? 0 : 1];
      if (accuracy === null) continue;
      const counts = [1, 2, 3].map((level) => game.moves.filter((move, index) => move.j === level && place(index).isWhite === isWhite).length);
      const sum = make("span", `accuracy ${accuracy} % `, "sum");
      sum.title = "Inaccuracies, mistakes, blunders";
      counts.forEach((count, index) => sum.append(make("span", `${count}${GLYPHS[index + 1]} `, "j" + (index + 1))));
      element.append(sum);
    }
    at("bar").classList.toggle("flipped", isFlipped);
  }

  function drawMoves() {
    const box = at("moves");
    box.textContent = "";
    const list = make("ol");
    let row = null;
    game.moves.forEach((move, index) => {
      const { number, isWhite } = place(index);
      if (isWhite || !row) {
        row = make("li");
        row.append(make("span", number + ".", "number"));
        if (!isWhite) row.append(make("span", "…"));
        list.append(row);
      }
      const button = make("button", move.s + (GLYPHS[move.j] || ""), move.j ? "j" + move.j : "");
      button.dataset.ply = index + 1;
      button.addEventListener("click", () => go(index + 1));
      if (move.t) button.append(make("span", MARKS[move.t], "t " + move.t));
      row.append(button);
      if (move.j > 1 || move.t === "set" || move.t === "missed") {
        if (isWhite) row.append(make("span", index + 1 < game.moves.length ? "…" : ""));
        row.append(make("span", note(move), "note"));
        row = null;
      }
    });
    list.append(make("li", undefined));
    list.lastChild.append(make("span", game.result, "result"));
    box.append(list);
  }

  /** The annotation of a move, in words. */
  function note(move) {
    const parts = [];
    if (move.j) {
      parts.push(`${JUDGED[move.j]} (−${move.x} % winning chances, lichess's formula).`);
      if (move.b) parts.push(`${move.b} was better.`);
    }
    if (move.n) parts.push(`${move.n}.`);
    if (move.e) parts.push(`${move.e}.`);
    return parts.join(" ");
  }

  const COLUMNS = DATA.practical ? ["", "best play", "practical"] : ["", "best play"];

  /** A row of a table: the moves of a line as buttons, and its values for the side to move. */
  function lineRow(line, index) {
    const row = make("tr");
    const cell = make("td");
    line[1].split(" ").forEach((san, step) => {
      const { number, isWhite } = place(index + step);
      const text = isWhite ? `${number}. ${san}` : step === 0 ? `${number}... ${san}` : san;
      const isHere = variation && variation.index === index && variation.line === line && variation.shown === step + 1;
      const button = make("button", text, isHere ? "here" : "");
      button.addEventListener("click", () => { variation = { line, index, shown: step + 1 }; show(); });
      cell.append(button);
    });
    row.append(cell);
    const { isWhite } = place(index);
    const score = (chances) => (isWhite ? expected(chances) : 100 - expected(chances)).toFixed(1) + " %";
    const forMover = (chances) => (chances ? score(chances) : "–");
    const mate = line[4] && (isWhite ? line[4] : -line[4]);
    row.append(make("td", mate ? (mate > 0 ? `mate in ${mate}` : `mated in ${-mate}`) : forMover(bestPlay(line))));
    if (DATA.practical) row.append(make("td", forMover(line[2])));
    return row;
  }

  function table(caption, lines, index) {
    const element = make("table");
    element.append(make("caption", caption));
    const head = make("tr");
    COLUMNS.forEach((text, column) => {
      const cell = make(column ? "th" : "td", text);
      if (column) cell.scope = "col";
      head.append(cell);
    });
    element.append(head);
    for (const line of lines) element.append(lineRow(line, index));
    return element;
  }

  /** The analysis before the last played move, and at the end of the game the one after it; at the start, before the
   * first one. */
  function drawLines() {
    const verdict = at("verdict");
    const lines = at("lines");
    verdict.textContent = "";
    lines.textContent = "";
    const index = Math.max(0, ply - 1);
    const move = game.moves[index];
    if (!move) return;
    if (ply === 0) {
      verdict.append("Before the first move.");
      lines.append(table("Lines", move.l, 0));
      return;
    }
    verdict.append(make("b", numbered(index, move.s)));
    if (move.j) verdict.append(" ", make("span", `${JUDGED[move.j]}: −${move.x} % winning chances (lichess's formula).`, "j" + move.j));
    if (move.n) verdict.append(` ${move.n}.`);
    if (move.t) verdict.append(" ", make("span", MARKS[move.t], "t " + move.t), ` ${move.e}.`);
    const isPlayed = (line) => uciOf(line)[0] === move.u;
    if (!move.j && !move.t && move.l[0] && isPlayed(move.l[0])) verdict.append(" The best move.");
    const played = move.l.filter(isPlayed);
    if (played.length) lines.append(table("Played", played, index));
    const others = move.l.filter((line) => !isPlayed(line));
    if (others.length) lines.append(table("Instead", others, index));
    if (ply === game.moves.length && game.end) lines.append(table("Final position", game.end, ply));
  }

  function drawBar() {
    const found = variation ? null : scoreAt(ply);
    const { score, mate } = variation
      ? { score: scoreOf(variation.line), mate: variation.line[4] }
      : found || { score: 50, mate: 0 };
    at("fill").style.height = (score ?? 50) + "%";
    const text = at("bar-text");
    const isKnown = score !== null;
    text.textContent = mate ? "#" + Math.abs(mate) : isKnown ? score.toFixed(0) : "–";
    const isBottom = ((score ?? 50) >= 50) !== at("bar").classList.contains("flipped");
    text.style.bottom = isBottom ? "2px" : "auto";
    text.style.top = isBottom ? "auto" : "2px";
    text.style.color = (score ?? 50) >= 50 ? "#222" : "#fff";
    const known = isKnown ? `${score.toFixed(0)} %` : "is not known";
    at("bar").setAttribute("aria-label", mate ? `Mate in ${Math.abs(mate)}` : `White's expected score ${known}`);
  }

  function drawBoard() {
    let fen = fenAt(ply);
    let lastUci = ply > 0 ? game.moves[ply - 1].u : "";
    let turn = place(ply).isWhite;
    const next = !variation && positions()[ply]?.[0];
    let best = next ? uciOf(next)[0] : "";
    if (variation) {
      const moves = uciOf(variation.line);
      fen = moves.slice(0, variation.shown).reduce(afterMove, fenAt(variation.index));
      lastUci = moves[variation.shown - 1];
      best = moves[variation.shown] || "";
      turn = place(variation.index + variation.shown).isWhite;
    }
    board.set({
      fen,
      lastMove: lastUci ? [lastUci.slice(0, 2), lastUci.slice(2, 4)] : undefined,
      turnColor: turn ? "white" : "black",
    });
    board.setAutoShapes(best ? [{ orig: best.slice(0, 2), dest: best.slice(2, 4), brush: "paleBlue" }] : []);
  }

  function show() {
    drawBoard();
    at("moves").querySelectorAll("button").forEach((button) => {
      const isHere = Number(button.dataset.ply) === ply;
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
    drawBar();
    if (graph) graph.redraw(false);
  }

  function go(to) {
    variation = null;
    ply = Math.min(Math.max(0, to), game.moves.length);
    show();
  }

  /** Within a line its next or last move, otherwise the game's. */
  function step(by) {
    if (!variation) return go(ply + by);
    const shown = variation.shown + by;
    if (shown < 1) return go(ply);
    variation.shown = Math.min(shown, uciOf(variation.line).length);
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
    variation = null;
    at("games").value = String(index);
    at("about").textContent = [game.event, game.date, game.result.replace("-", "\u2011")].filter((text) => text && text !== "?" && text !== "????.??.??").join(", ");
    drawPlayers();
    drawMoves();
    drawGraph();
    show();
  }

  const flip = () => { board.toggleOrientation(); drawPlayers(); drawBar(); };
  for (const [id, action] of Object.entries({
    first: () => go(0), back: () => step(-1), on: () => step(1), last: () => go(game.moves.length), moment: nextMoment, flip,
  })) at(id).addEventListener("click", action);
  at("games").addEventListener("change", (event) => choose(Number(event.target.value)));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.target.tagName === "SELECT") return;
    const current = DATA.games.indexOf(game);
    const action = {
      ArrowLeft: () => step(-1), ArrowRight: () => step(1), Home: () => go(0), End: () => go(game.moves.length),
      Escape: () => go(ply), f: flip, t: nextMoment,
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
  at("how").textContent = `${DATA.source}: ${DATA.how}. Keys: ← → Home End, t next trap or mistake, f flips the board, n p next and previous game, Esc back to the game.`;
  at("legend").open = innerWidth > 768;
  if (!DATA.practical) at("legend").querySelectorAll(".practical").forEach((element) => element.remove());
  if (DATA.games.length) choose(0);
})();
