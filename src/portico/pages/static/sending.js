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

/* Nor does it send where the mouse has come to the page less than half a second before it is pressed: the first click
   of a double click may have closed another site's window above, and the second falls on what nobody has read. Where
   the page is shown with the focus nothing is above, and the mouse may rest on a button: it came as the page did.
   A form into which something was typed has been read. */
let came, isEarly;
const typed = new WeakSet();
document.addEventListener("input", ({ target }) => target.form && typed.add(target.form));
const note = ({ timeStamp }) => (came ??= timeStamp);
const press = ({ pointerType, timeStamp }) => (isEarly = pointerType === "mouse" && timeStamp - came < 500);
for (const [name, does] of [["pointermove", note], ["pointerdown", note], ["pointerdown", press]]) {
  document.addEventListener(name, does, true);
}
addEventListener("focus", () => (came = undefined));
addEventListener("pageshow", ({ timeStamp }) => (came = document.hasFocus() ? timeStamp : undefined));
document.addEventListener("click", (event) => {
  const { target, detail } = event;
  const isMouses = detail > 0; // the keyboard's clicks have no count
  const form = target.closest("button")?.form;
  if (isEarly && isMouses && form?.method === "post" && !typed.has(form)) event.preventDefault();
});
