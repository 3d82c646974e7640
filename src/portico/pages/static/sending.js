/* A button that is pressed twice sends its form once: the browser would give up the first answer, and show what the
   second was refused for. After five seconds, or where the page comes back from the browser's memory, it sends again. */
"use strict";

const pressed = new Map();
document.addEventListener("submit", (event) => {
  const { target, submitter } = event;
  if (event.defaultPrevented || target.getAttribute("method") !== "post") return;
  if (pressed.get(target) === submitter) {
    event.preventDefault();
    return;
  }
  pressed.set(target, submitter);
  setTimeout(() => pressed.delete(target), 5000);
});
addEventListener("pageshow", () => pressed.clear());
