/* Pressing a button twice sends its form once: otherwise the browser would drop the first response and show why the
   second was refused. The button works again after five seconds, or when the page comes back from the browser's memory. */
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

/* A page that answers a form at the form's own path takes the address of the form's page, or the one that it names itself.
   Otherwise the browser would ask whether to send the form once more when the user goes back to the page or reloads it. */
const pathOf = (address) => address.replace(/[?#].*/, "");
const { sent } = document.body.dataset;
if (sent !== undefined && pathOf(document.referrer) === pathOf(location.href)) {
  history.replaceState(history.state, "", sent || document.referrer);
}

/* A page that only takes an answer to another site does so by itself. */
document.querySelector("form[data-leaves]")?.submit();

/* A click within half a second after the mouse reached the page does not send a form either. The first click of a double
   click may have closed another site's window above the page, so that the second hits a button that the user has not seen
   (clickjacking). A page that is shown with the focus has nothing above it, so the mouse counts as there since then. A form
   with typed input was seen by the user. */
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
