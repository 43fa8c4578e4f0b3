// A picture of the answer: the verdict and the map of where joining pays, as a PNG.

import { h, svg } from "../dom.js";
import { drawing } from "./frontier.js";

const WIDTH = 900;
const KEPT = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-family", "font-size", "font-weight", "paint-order", "stroke-linejoin"];

/** A drawing with its style written into it, so that it looks the same without the page; "light" for white paper. */
export function standalone(drawn, scheme = "") {
  const stage = h("div", { class: `card stage ${scheme}` }, drawn);
  document.body.append(stage);
  for (const part of drawn.querySelectorAll("*")) {
    const style = getComputedStyle(part);
    for (const name of KEPT) part.setAttribute(name, style.getPropertyValue(name));
  }
  const paper = getComputedStyle(stage);
  const colours = { paper: paper.backgroundColor, ink: paper.color, font: paper.fontFamily };
  stage.remove();
  return { drawn, colours };
}

export async function picture(view) {
  const { drawn, colours } = standalone(drawing(view, WIDTH - 60));
  const text = (id) => document.getElementById(id).textContent;
  let y = 20;
  const written = (id, most, size, weight) => {
    y += 0.5 * size;
    return wrapped(text(id), most).map((one) => {
      y += 1.4 * size;
      return svg("text", { x: 30, y, "font-size": size, "font-weight": weight, fill: colours.ink, "font-family": colours.font }, one);
    });
  };
  const said = [written("verdict", 62, 20, 600), written("verdict-numbers", 96, 15, 400), written("verdict-notes", 96, 15, 400)];
  drawn.setAttribute("x", 30);
  drawn.setAttribute("y", y + 20);
  const height = y + 370;
  const whole = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width: WIDTH, height, viewBox: `0 0 ${WIDTH} ${height}` },
    svg("rect", { width: WIDTH, height, fill: colours.paper }), said.flat(), drawn);
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(new XMLSerializer().serializeToString(whole))}`;
  await image.decode();
  const canvas = h("canvas", { width: 2 * WIDTH, height: 2 * height });
  canvas.getContext("2d").drawImage(image, 0, 0, 2 * WIDTH, 2 * height);
  return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
}

function wrapped(text, most) {
  const lines = [""];
  for (const word of text.split(" ")) {
    if (lines.at(-1).length + word.length > most) lines.push("");
    lines[lines.length - 1] += `${lines.at(-1) ? " " : ""}${word}`;
  }
  return lines;
}
