/* What pages do beyond plain HTML: copy, and ask in a dialog. All of it works without. */
"use strict";

// A secret is copied by a button that shows only where that can work.
for (const button of document.querySelectorAll("[data-copy]")) {
  button.hidden = !navigator.clipboard;
  button.addEventListener("click", async () => {
    const text = document.querySelector(button.dataset.copy).textContent;
    const said = button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      button.textContent = "Press Ctrl+C";
      getSelection().selectAllChildren(document.querySelector(button.dataset.copy));
    }
    setTimeout(() => (button.textContent = said), 2500);
  });
}

// The page that asks for confirmation is shown in a dialog: htmx fetches it, this opens it.
const dialog = document.querySelector("dialog");
document.body.addEventListener("htmx:afterSwap", (event) => {
  if (event.detail.target === dialog && dialog.firstElementChild) dialog.showModal();
});
dialog?.addEventListener("click", (event) => {
  if (event.target.closest("[data-close]")) {
    event.preventDefault();
    dialog.close();
  }
});

// A box that chooses all the others of its form shows only where that can work.
function offerAll() {
  for (const all of document.querySelectorAll("[data-all]")) all.hidden = false;
}
offerAll();
document.body.addEventListener("htmx:afterSwap", offerAll);
document.addEventListener("change", (event) => {
  const { form, dataset, checked } = event.target;
  if (!dataset.all) return;
  for (const box of form.querySelectorAll(`[name="${dataset.all}"]`)) box.checked = checked;
});

// What signing out, or the end of the session, has left in the browser's memory is not shown again.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
