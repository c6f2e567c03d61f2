// Keys for the buttons, one request at a time, and focus on the question when it changes, so that screen readers
// read it out. Without this file the pages work as plain forms.
"use strict";
(() => {
  let busy = false;

  document.addEventListener("keydown", (event) => {
    if (event.repeat || event.ctrlKey || event.altKey || event.metaKey || busy) return;
    if (event.target.closest("input, textarea, select")) return;
    // Enter and space press the button that has the focus.
    if (event.target.closest("button, a") && (event.key === "Enter" || event.key === " ")) return;
    const wanted = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    for (const button of document.querySelectorAll("button[data-key]")) {
      if (button.dataset.key === wanted) {
        event.preventDefault();
        button.click();
        return;
      }
    }
  });

  const hideTrouble = (hidden) => {
    const note = document.getElementById("trouble");
    if (note) note.hidden = hidden;
  };
  document.addEventListener("htmx:beforeRequest", (event) => {
    if (busy && event.target.closest("form")) event.preventDefault();
    else busy = Boolean(event.target.closest("form"));
    hideTrouble(true);
  });
  // htmx handles the forms of a new page only after it has settled: stay busy until then.
  document.addEventListener("htmx:afterRequest", (event) => { if (!event.detail.successful) busy = false; });
  document.addEventListener("htmx:sendError", () => { hideTrouble(false); });
  // Errors are pages, too: show their sentence.
  document.addEventListener("htmx:beforeSwap", (event) => { event.detail.shouldSwap = true; });
  document.addEventListener("htmx:afterSettle", () => {
    busy = false;
    document.querySelector("[data-focus]")?.focus({ preventScroll: true });
  });
})();
