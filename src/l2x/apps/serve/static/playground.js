// The behaviour of the form: sliders next to numbers, a canvas, a link that contains the row, buttons that copy.
// htmx sends the form and shows the result, which the server renders.
"use strict";

const form = document.getElementById("form");
const changed = () => form.dispatchEvent(new Event("input", { bubbles: true }));
const announce = (text) => { document.getElementById("status").textContent = text; };

// A slider and its number show the same value.
for (const slider of form.querySelectorAll("input[type=range][data-for]")) {
  const number = document.getElementById(slider.dataset.for);
  slider.addEventListener("input", () => { number.value = slider.value; });
  number.addEventListener("input", () => { if (number.value !== "") slider.value = number.value; });
}

// Changing the number or the slider of a missing cell makes it present again.
for (const box of form.querySelectorAll("input[data-missing]")) {
  const number = document.getElementById(box.dataset.missing);
  const slider = document.getElementById(`${box.dataset.missing}-slider`);
  for (const control of [number, slider]) control.addEventListener("input", () => { box.checked = false; });
}

// The canvas has as many pixels as the image; the style sheet enlarges it.
const canvas = document.getElementById("canvas");
let drawing = null;
if (canvas) {
  const field = document.getElementById("pixels");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const { width, height } = canvas;
  let cursor = [Math.floor(width / 2), Math.floor(height / 2)];
  let last = null;

  const bytes = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const show = () => {
    const colours = bytes(field.value);
    const image = context.createImageData(width, height);
    for (let i = 0; i < width * height; i++) {
      image.data.set([colours[3 * i], colours[3 * i + 1], colours[3 * i + 2], 255], 4 * i);
    }
    context.putImageData(image, 0, 0);
  };
  const store = () => {
    const { data } = context.getImageData(0, 0, width, height);
    let text = "";
    for (let i = 0; i < data.length; i += 4) text += String.fromCharCode(data[i], data[i + 1], data[i + 2]);
    field.value = btoa(text);
    changed();
  };
  const clear = () => { context.fillStyle = "#000"; context.fillRect(0, 0, width, height); };
  const at = (event) => {
    const box = canvas.getBoundingClientRect();
    return [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * height / box.height];
  };
  const stroke = (from, to) => {
    context.strokeStyle = "#fff";
    context.lineWidth = Math.max(1, width / 14);
    context.lineCap = "round";
    context.beginPath();
    context.moveTo(...from);
    context.lineTo(to[0] + 0.01, to[1]);
    context.stroke();
  };
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    last = at(event);
    stroke(last, last);
    event.preventDefault();
    canvas.focus();
  });
  canvas.addEventListener("pointermove", (event) => {
    if (!last) return;
    const here = at(event);
    stroke(last, here);
    last = here;
    store();
  });
  for (const end of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(end, () => { if (last) { last = null; store(); } });
  }
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  canvas.addEventListener("keydown", (event) => {
    if (moves[event.key]) {
      cursor = [
        Math.min(width - 1, Math.max(0, cursor[0] + moves[event.key][0])),
        Math.min(height - 1, Math.max(0, cursor[1] + moves[event.key][1])),
      ];
      announce(`column ${cursor[0] + 1}, row ${cursor[1] + 1}`);
    } else if (event.key === " " || event.key === "Backspace") {
      context.fillStyle = event.key === " " ? "#fff" : "#000";
      context.fillRect(cursor[0], cursor[1], 1, 1);
      store();
    } else return;
    event.preventDefault();
  });
  const open = async (file) => {
    try {
      const picture = await createImageBitmap(file);
      clear();
      context.imageSmoothingQuality = "high";
      context.drawImage(picture, 0, 0, width, height);
      store();
    } catch {
      announce("The browser cannot read this file as an image.");
    }
  };
  document.getElementById("file").addEventListener("change", (event) => {
    if (event.target.files[0]) open(event.target.files[0]);
    event.target.value = "";
  });
  canvas.closest(".card").addEventListener("dragover", (event) => event.preventDefault());
  canvas.closest(".card").addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer.files[0]) open(event.dataTransfer.files[0]);
  });
  document.getElementById("clear").addEventListener("click", () => { clear(); store(); });
  drawing = { show };
  show();
}

// The link contains the row after the #, which browsers do not send to a server.
const letters = (bytes) => Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
const encode = (text) => btoa(letters(new TextEncoder().encode(text)))
  .replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
const decode = (text) => new TextDecoder().decode(
  Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), (letter) => letter.charCodeAt(0)));
const state = () => Object.fromEntries(new FormData(form));

const restore = () => {
  if (location.hash.length < 2) return;
  let fields;
  try {
    fields = JSON.parse(decode(location.hash.slice(1)));
  } catch {
    announce("The link is damaged.");
    return;
  }
  for (const control of form.elements) {
    if (!control.name) continue;
    if (control.type === "checkbox") control.checked = control.name in fields;
    else if (control.name in fields) control.value = String(fields[control.name]);
    const slider = document.getElementById(`${control.id}-slider`);
    if (slider) slider.value = control.value;
  }
  if (drawing) drawing.show();
  changed();
};
const first = JSON.stringify(state());
form.addEventListener("input", () => {
  const now = JSON.stringify(state());
  const hash = now === first ? "" : `#${encode(now)}`;
  history.replaceState(null, "", `${location.pathname}${location.search}${hash}`);
});
window.addEventListener("hashchange", restore);

const copy = async (text, what) => {
  try {
    await navigator.clipboard.writeText(text);
    announce(`${what} copied.`);
  } catch {
    announce(`The browser does not allow pages to copy; select ${what.toLowerCase()} by hand.`);
  }
};
document.getElementById("link").addEventListener("click", () => {
  history.replaceState(null, "", `${location.pathname}${location.search}#${encode(JSON.stringify(state()))}`);
  copy(location.href, "The link");
});
document.getElementById("reset").addEventListener("click", () => location.assign(location.pathname));
document.addEventListener("click", (event) => {
  const which = event.target.dataset && event.target.dataset.copy;
  if (which) copy(document.getElementById(which).textContent, which === "curl" ? "The command" : "The program");
});
// A new result does not close the request that is open.
let opened = false;
document.addEventListener("htmx:beforeSwap", () => {
  const request = document.querySelector("#result .request");
  opened = Boolean(request && request.open);
});
document.addEventListener("htmx:afterSwap", () => {
  const request = document.querySelector("#result .request");
  if (request) request.open = opened;
});
// After htmx has started to listen.
document.addEventListener("DOMContentLoaded", restore);
