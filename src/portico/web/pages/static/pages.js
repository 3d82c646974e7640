/* Enhancements of the pages: copy buttons, date fields, dialogs. Everything works without script. */
"use strict";

// htmx loads after the first paint, since it takes as long as laying out the page. A search that was typed before that is sent
// once htmx is there.
const { htmx: address } = document.currentScript.dataset;
let begun;
const begin = ({ target }) => (begun ??= target.closest(".filters[hx-get]"));
function fetchHtmx() {
  const script = document.createElement("script");
  script.src = address;
  script.addEventListener("load", () => {
    document.removeEventListener("input", begin);
    begun?.requestSubmit();
  });
  document.head.append(script);
}
function oncePainted(does) {
  const seen = (_, observer) => (observer.disconnect(), does());
  new PerformanceObserver(seen).observe({ type: "paint", buffered: true });
}
if (address) {
  document.addEventListener("input", begin);
  addEventListener("load", () => oncePainted(fetchHtmx));
}

// Local storage is read after the first paint, since it takes a while. The theme is stored for the reference, if that is on this
// host; leaving the page early stores it too.
function rememberTheme() {
  removeEventListener("pagehide", rememberTheme);
  try {
    localStorage.setItem("portico.theme", document.documentElement.dataset.theme);
  } catch {
    // Without storage, the reference uses the system's theme.
  }
}
addEventListener("pagehide", rememberTheme);
addEventListener("load", () => oncePainted(() => (rememberTheme(), recallLocal())));

// Copy buttons show only if the browser can copy. The result is announced too, since screen readers do not announce the new
// text of a focused button.
const announced = document.createElement("p");
announced.className = "hidden";
announced.setAttribute("role", "status");
function offerCopies() {
  const buttons = document.querySelectorAll("[data-copy]");
  for (const button of buttons) button.hidden = !navigator.clipboard;
  if (buttons.length) document.querySelector("main").append(announced);
}
document.addEventListener("click", async (event) => {
  const button = event.target.closest("[data-copy]");
  if (!button) return;
  const { dataset } = button;
  const secret = document.querySelector(dataset.copy);
  const tell = (words) => (announced.textContent = button.textContent = words);
  dataset.said ??= button.textContent;
  button.style.minWidth = `${button.offsetWidth}px`; // no shorter word draws what is beside it under the pointer
  try {
    await navigator.clipboard.writeText(secret.textContent);
    tell("Copied");
  } catch {
    tell("Press Ctrl+C");
    getSelection().selectAllChildren(secret);
  }
  setTimeout(() => {
    button.textContent = dataset.said;
    announced.textContent = "";
  }, 2500);
});

// htmx fetches a confirmation page into the dialog, and this opens it. It scrolls to the top, since focusing a button at the
// end scrolls down.
document.addEventListener("htmx:afterSwap", (event) => {
  const { target } = event.detail;
  if (!target.matches("dialog") || !target.firstElementChild) return;
  target.showModal();
  target.scrollTop = 0;
});

// A refused htmx request is loaded as a page, so that it says why; if no server answers, a message says so. Neither happens for
// automatic refreshes, which just go on.
const asked = ({ elt, requestConfig }) => requestConfig.verb === "get" && !elt.matches("[hx-trigger^=every]");
document.addEventListener("htmx:responseError", ({ detail }) => {
  if (asked(detail)) location.assign(detail.pathInfo.finalRequestPath);
});
document.addEventListener("htmx:sendError", ({ detail }) => {
  document.getElementById("unreached").hidden = !asked(detail);
});
document.addEventListener("htmx:beforeSwap", () => {
  document.getElementById("unreached").hidden = true;
});
// A status that a refresh repeats is announced only once.
document.addEventListener("htmx:oobBeforeSwap", ({ detail }) => {
  const { target, fragment } = detail;
  if (target.id === "told") detail.shouldSwap = target.textContent !== fragment.textContent;
});
document.addEventListener("click", (event) => {
  const button = event.target.closest("dialog [data-close]");
  if (!button) return;
  event.preventDefault();
  button.closest("dialog").close();
});

// "Select all" needs this script, so it is hidden without it.
function offerAll() {
  for (const all of document.querySelectorAll("[data-all]")) all.hidden = false;
}
document.addEventListener("htmx:afterSwap", offerAll);
document.addEventListener("change", (event) => {
  const { form, dataset, name, checked } = event.target;
  const boxes = (its) => [...form.querySelectorAll(`[name="${its}"]`)];
  if (dataset.all) for (const box of boxes(dataset.all)) box.checked = checked;
  const all = form?.querySelector(`[data-all="${name}"]`);
  if (all) all.checked = boxes(name).every((box) => box.checked);
});

// A list that was searched while one typed is not loaded again when one leaves the field: what is selected would be lost.
document.addEventListener("change", (event) => {
  if (event.target.matches(".filters [type=search]")) event.stopPropagation();
}, true);

// On a checkbox, Enter would press the first of the buttons for the selected rows.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches(".several [type=checkbox]")) event.preventDefault();
});

// Empty filters are left out of addresses.
document.addEventListener("htmx:configRequest", ({ detail: { verb, formData } }) => {
  if (verb !== "get") return;
  for (const name of new Set(formData.keys())) {
    if (formData.getAll(name).join("") === "") formData.delete(name);
  }
});

// A filter with a fault is marked as invalid.
document.addEventListener("htmx:afterSettle", () => {
  for (const field of document.querySelectorAll(".filters [aria-describedby]")) {
    const told = document.getElementById(field.getAttribute("aria-describedby"));
    field.ariaInvalid = String(told.textContent !== "");
  }
});

// Text fields for dates become date fields on first use, since date fields take a tenth of the page's load time. The mouse
// triggers it before the focus moves.
for (const begins of ["pointerdown", "focusin"]) {
  document.addEventListener(begins, ({ target }) => {
    if (!target.matches("[data-date]")) return;
    for (const field of target.form.querySelectorAll("[data-date]")) field.type = "date";
  });
}

// Times are in UTC, as in the API and the filters. "Local times" shows them by the browser's clock, to the same unit,
// so that nothing moves; "5 minutes ago" stays. The title of a time under the mouse has the local time anyway.
const LOCAL = "portico.local";
const DATE = { dateStyle: "medium" }; // 15 Mar 2026
const SECOND = { ...DATE, timeStyle: "long" }; // 15 Mar 2026, 13:00:07 CET
const MINUTE = { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
const clocks = new Map();
let isLocal = false;
function here({ dateTime }, exact) {
  if (!clocks.has(exact)) clocks.set(exact, new Intl.DateTimeFormat("en-GB", exact));
  return clocks.get(exact).format(new Date(dateTime));
}
function local(time, told) {
  const [hasYear, hasMinutes, hasSeconds] = [/\d{4}/, /:/, /:.*:/].map((part) => part.test(told));
  return hasYear ? here(time, hasSeconds ? SECOND : hasMinutes ? MINUTE : DATE) : told;
}
function tellTimes() {
  for (const button of document.querySelectorAll("[data-local]")) {
    button.ariaPressed = isLocal;
    button.hidden = false;
  }
  for (const time of document.querySelectorAll(isLocal ? "time" : "time[data-told]")) {
    const told = time.dataset.told ?? time.textContent;
    const words = isLocal ? local(time, told) : told;
    if (words === time.textContent) continue;
    time.dataset.told = told;
    time.textContent = words;
  }
}
function recallLocal() {
  try {
    isLocal = localStorage.getItem(LOCAL) === "true";
  } catch {
    // Without storage, times are in UTC.
  }
  if (isLocal) tellTimes();
}
document.addEventListener("click", ({ target }) => {
  if (!target.closest("[data-local]")) return;
  isLocal = !isLocal;
  tellTimes();
  try {
    localStorage.setItem(LOCAL, isLocal);
  } catch {
    // Without storage, it applies to this page only.
  }
});
document.addEventListener("htmx:afterSwap", tellTimes);
document.addEventListener("pointerover", ({ target }) => {
  const time = target.closest("time");
  if (!time || time.dataset.here || !new Date(time.dateTime).getTimezoneOffset()) return;
  time.dataset.here = here(time, SECOND);
  time.title += `; here ${time.dataset.here}`;
});

offerCopies();
offerAll();
tellTimes();

// Reloading the page does not repeat its notice.
const shown = new URL(location);
if (shown.searchParams.has("done")) {
  for (const name of ["done", "count"]) shown.searchParams.delete(name);
  history.replaceState(history.state, "", shown);
}

// After signing out, or the end of the session, going back shows no page from the browser's memory.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
