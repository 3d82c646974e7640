/* What pages do beyond plain HTML: copy, choose dates, and ask in a dialog. All of it works without. */
"use strict";

// htmx is fetched once the page has been painted, since it takes as long as to lay a page out. What somebody
// has typed or chosen by then is looked for as soon as it is there.
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

// What a browser remembers is asked for once the page has been painted: it takes a while. The reference, where it is on this
// host, shows itself in the theme that was seen here last, also where the page is left before that.
function rememberTheme() {
  removeEventListener("pagehide", rememberTheme);
  try {
    localStorage.setItem("portico.theme", document.documentElement.dataset.theme);
  } catch {
    // In a browser that keeps nothing it is as the system is.
  }
}
addEventListener("pagehide", rememberTheme);
addEventListener("load", () => oncePainted(() => (rememberTheme(), recallLocal())));

// A secret is copied by a button that shows only where that can work. What came of it is announced as well: new words of a
// button that has the focus are not.
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

// The page that asks for confirmation is shown in a dialog: htmx fetches it, this opens it at its beginning, from which
// the focus on a button at its end would scroll it.
document.addEventListener("htmx:afterSwap", (event) => {
  const { target } = event.detail;
  if (!target.matches("dialog") || !target.firstElementChild) return;
  target.showModal();
  target.scrollTop = 0;
});

// What htmx was refused is visited without it, so that the page says why; what no server has answered
// is told in words. Both for what somebody has asked for: what asks by itself goes on asking.
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
// What a part tells again and again as its page is looked up is told once.
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

// A box that chooses all the others of its form shows only where that can work.
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

// On a box the Enter key would press the first of the buttons that do something with what is chosen.
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.matches(".several [type=checkbox]")) event.preventDefault();
});

// Addresses of what is searched have no more than what is asked for.
document.addEventListener("htmx:configRequest", ({ detail: { verb, formData } }) => {
  if (verb !== "get") return;
  for (const name of new Set(formData.keys())) {
    if (formData.getAll(name).join("") === "") formData.delete(name);
  }
});

// What is wrong with a filter comes beside its field, which says so too.
document.addEventListener("htmx:afterSettle", () => {
  for (const field of document.querySelectorAll(".filters [aria-describedby]")) {
    const told = document.getElementById(field.getAttribute("aria-describedby"));
    field.ariaInvalid = String(told.textContent !== "");
  }
});

// A date is chosen in the browser's own field, which costs the page a tenth of its time: so all of a form become
// such only for whoever begins with one, by the mouse before the focus is there.
for (const begins of ["pointerdown", "focusin"]) {
  document.addEventListener(begins, ({ target }) => {
    if (!target.matches("[data-date]")) return;
    for (const field of target.form.querySelectorAll("[data-date]")) field.type = "date";
  });
}

// Times are shown in UTC, as the API and its filters have them; to whoever asks for it, as the clock is here. Where the
// mouse rests on one, it says so anyway.
const LOCAL = "portico.local";
let clock, isLocal = false;
function here({ dateTime }) {
  clock ??= new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "long" }); // 15 Mar 2026, 13:00:07 CET
  return clock.format(new Date(dateTime));
}
function tellTimes() {
  for (const button of document.querySelectorAll("[data-local]")) {
    button.ariaPressed = isLocal;
    button.hidden = false;
  }
  for (const time of document.querySelectorAll(isLocal ? "time" : "time[data-told]")) {
    time.dataset.told ??= time.textContent;
    time.textContent = isLocal ? here(time) : time.dataset.told;
  }
}
function recallLocal() {
  try {
    isLocal = localStorage.getItem(LOCAL) === "true";
  } catch {
    // In a browser that keeps nothing they are in UTC.
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
    // It holds for this page.
  }
});
document.addEventListener("htmx:afterSwap", tellTimes);
document.addEventListener("pointerover", ({ target }) => {
  const time = target.closest("time");
  if (!time || time.dataset.here || !new Date(time.dateTime).getTimezoneOffset()) return;
  time.dataset.here = here(time);
  time.title += `; here ${time.dataset.here}`;
});

offerCopies();
offerAll();
tellTimes();

// What was done is told once, not again where the page is loaded again.
const shown = new URL(location);
if (shown.searchParams.has("done")) {
  for (const name of ["done", "count"]) shown.searchParams.delete(name);
  history.replaceState(history.state, "", shown);
}

// What signing out, or the end of the session, has left in the browser's memory is not shown again.
window.addEventListener("pageshow", (event) => {
  if (event.persisted) location.reload();
});
