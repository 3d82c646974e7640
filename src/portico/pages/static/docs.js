/* Enhancements of the reference: one language at a time, copy buttons, search, trying out operations in place.
   The reference can be read, and operations tried out, without script. */
"use strict";

const root = document.documentElement;
const LANGUAGES = ["curl", "python", "typescript"];
const REMEMBERED = "portico.language";
const THEME = "portico.theme";
const MOST_FOUND = 12;

/** An element with these attributes and this text. */
function made(name, attributes, text = "") {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.textContent = text;
  return element;
}

function remembered(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null; // Without storage, the first language shows.
  }
}

// The reference is the same for all users; its theme is that of the dashboard last seen in this browser.
root.dataset.theme ??= remembered(THEME) ?? "system";

// At first the page shows the language that was selected before.
root.dataset.language = LANGUAGES.find((language) => language === remembered(REMEMBERED)) ?? LANGUAGES[0];

/** Show all examples in one language; the clicked tab stays at its place on the screen. */
function choose(language, used) {
  const before = used?.getBoundingClientRect().top;
  root.dataset.language = language;
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const chosen = tab.dataset.language === language;
    tab.setAttribute("aria-selected", chosen);
    tab.tabIndex = chosen ? 0 : -1;
  }
  if (used) scrollBy({ top: used.getBoundingClientRect().top - before, behavior: "instant" });
}

function offerLanguages() {
  for (const [number, block] of document.querySelectorAll(".examples:not(.alone)").entries()) {
    const tabs = made("div", { class: "tabs", role: "tablist", "aria-label": "Language" });
    for (const panel of block.querySelectorAll(".example")) {
      const { language } = panel.dataset;
      const id = `example-${number}-${language}`;
      const tab = made("button", { type: "button", role: "tab", id: `${id}-tab`, "aria-controls": id });
      tab.dataset.language = language;
      tab.textContent = panel.querySelector("h3").textContent;
      panel.id = id;
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      tabs.append(tab);
    }
    block.prepend(tabs);
  }
  choose(root.dataset.language);
}

function use(tab) {
  choose(tab.dataset.language, tab);
  tab.focus({ preventScroll: true });
  try {
    localStorage.setItem(REMEMBERED, tab.dataset.language);
  } catch {
    // Without storage, it applies to this page only.
  }
}

document.addEventListener("click", (event) => {
  const tab = event.target.closest("[role=tab]");
  if (tab) use(tab);
});

document.addEventListener("keydown", (event) => {
  const tabs = event.target.closest("[role=tablist]")?.querySelectorAll("[role=tab]");
  if (!tabs) return;
  const at = [...tabs].indexOf(event.target);
  const next = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: -1 }[event.key];
  if (next === undefined) return;
  event.preventDefault();
  use([...tabs].at(next % tabs.length));
});

const announced = made("p", { class: "hidden", role: "status" });

/** Add a copy button to every piece of code below `place`, if the browser can copy. */
function offerCopies(place) {
  if (!navigator.clipboard) return;
  for (const code of place.querySelectorAll("pre")) {
    const box = made("div", { class: "copied" });
    const button = made("button", { type: "button", class: "copy" }, "Copy");
    code.replaceWith(box);
    box.append(code, button);
  }
  document.querySelector("main").append(announced);
}

// The result is announced too, since screen readers do not announce the new text of a focused button.
document.addEventListener("click", async (event) => {
  const button = event.target.closest(".copy");
  if (!button) return;
  const code = button.parentElement.querySelector("pre");
  const tell = (words) => (announced.textContent = button.textContent = words);
  try {
    await navigator.clipboard.writeText(code.textContent);
    tell("Copied");
  } catch {
    tell("Press Ctrl+C");
    getSelection().selectAllChildren(code);
  }
  setTimeout(() => {
    button.textContent = "Copy";
    announced.textContent = "";
  }, 2500);
});

/** The entries of the search, each with a title, more text and an address. They come from the first page of the reference,
    which is at `index`. */
async function findable(index) {
  let page = document;
  if (!page.querySelector(".hero")) {
    page = new DOMParser().parseFromString(await (await fetch(index)).text(), "text/html");
  }
  const texts = (place, ...parts) => parts.map((part) => place.querySelector(part)?.textContent ?? "");
  const found = [];
  const add = (title, method, detail, address) => {
    const text = `${title} ${method} ${detail} ${address}`.toLowerCase();
    found.push({ title, about: `${method} ${detail}`.trim(), text, href: new URL(address, index).href });
  };
  for (const part of page.querySelectorAll(".guide, .tag")) {
    add(part.querySelector("h2").textContent, "", "", `#${part.id}`);
  }
  for (const line of page.querySelectorAll(".operations > li")) {
    const [title, method, path] = texts(line, "a", ".method", ".path");
    add(title, method, path, `${line.querySelector("a").getAttribute("href")}#main`);
  }
  for (const row of page.querySelectorAll("tr[id]")) {
    const [status, title, meaning] = texts(row, "td", "code", "span");
    add(title, "", `${status} ${meaning}`, `#${row.id}`);
  }
  return found;
}

function offerSearch() {
  const field = document.querySelector("#search");
  const list = document.querySelector("#found");
  if (!field) return;
  field.parentElement.hidden = false;
  const index = document.querySelector(".brand").href;
  let all; // a promise, from the first search on
  let at = 0;

  function mark(number) {
    const options = list.querySelectorAll("[role=option]");
    if (!options.length) return field.removeAttribute("aria-activedescendant");
    at = (number + options.length) % options.length;
    for (const [place, option] of options.entries()) option.setAttribute("aria-selected", place === at);
    field.setAttribute("aria-activedescendant", options[at].id);
    options[at].scrollIntoView({ block: "nearest" });
  }

  function close() {
    list.hidden = true;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  }

  async function show() {
    all ??= findable(index);
    let known;
    try {
      known = await all;
    } catch {
      all = undefined; // The next key press tries again.
      return close();
    }
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    if (!words.length || document.activeElement !== field) return close();
    const found = known.filter(({ text }) => words.every((word) => text.includes(word)));
    const first = ({ title }) => (title.toLowerCase().includes(words[0]) ? 0 : 1);
    found.sort((one, other) => first(one) - first(other));
    list.replaceChildren(
      ...found.slice(0, MOST_FOUND).map(({ title, about, href }, number) => {
        const option = made("li", { role: "option", id: `found-${number}`, "data-href": href });
        option.append(made("b", {}, title), made("small", {}, about));
        return option;
      }),
    );
    if (!found.length) list.append(made("li", { class: "none", role: "option", "aria-disabled": "true" }, "Nothing found"));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    mark(0);
  }

  function go(option) {
    if (!option?.dataset.href) return;
    close();
    field.value = "";
    field.blur();
    location.assign(option.dataset.href);
  }

  field.addEventListener("input", show);
  field.addEventListener("focus", show);
  field.addEventListener("blur", close);
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") {
      field.value = "";
      close();
    } else if (event.key === "Enter") {
      go(list.querySelector("[aria-selected=true]"));
    } else if (event.key === "ArrowDown") {
      mark(at + 1);
    } else if (event.key === "ArrowUp") {
      mark(at - 1);
    } else return;
    event.preventDefault();
  });
  // Before the field loses the focus, which closes the list.
  list.addEventListener("pointerdown", (event) => {
    event.preventDefault();
    go(event.target.closest("[role=option]"));
  });
  document.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey, shiftKey } = event;
    if (key !== "k" || ctrlKey === metaKey || altKey || shiftKey) return;
    event.preventDefault();
    field.focus();
    field.select();
  });
}

/** The part of a page that tries out an operation or asks the user to sign in; of any other page, its message. */
async function tried(answer) {
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const part = page.querySelector(".trying, .card:has([name=step_up])");
  if (part) {
    part.classList.add("trying");
    return document.adoptNode(part);
  }
  const said = made("p", { class: "notice bad", role: "alert" });
  said.textContent = [...page.querySelectorAll("main h1, main h1 + p")].map((one) => one.textContent).join(": ");
  return said;
}

// The form is fetched from the page that the link leads to, if that has this origin.
document.addEventListener("click", async (event) => {
  const link = event.target.closest("a.try");
  if (!link || link.origin !== location.origin || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  const place = link.parentElement;
  const open = place.nextElementSibling?.matches(".trying, .notice") ? place.nextElementSibling : null;
  link.setAttribute("aria-expanded", !open);
  if (open) return open.remove();
  try {
    const part = await tried(await fetch(link.href));
    place.after(part);
    offerCopies(part);
    part.querySelector("input:not([type=hidden]), select, textarea, button, a")?.focus();
  } catch {
    location.assign(link.href);
  }
});

document.addEventListener("submit", async (event) => {
  const form = event.target;
  const part = form.closest(".trying");
  if (!part) return;
  event.preventDefault();
  const sent = new URLSearchParams(new FormData(form, event.submitter));
  const button = form.querySelector("button");
  button.disabled = true;
  let next;
  try {
    next = await tried(await fetch(form.action, { method: "POST", body: sent }));
  } catch {
    next = made("p", { class: "notice bad", role: "alert" }, "The server did not answer. Nothing is known of the request.");
  }
  button.disabled = false;
  part.querySelector(":scope > .notice, .came")?.remove();
  if (!next.querySelector("form")) return part.append(next); // Keep what was typed.
  part.replaceWith(next);
  offerCopies(next);
  next.querySelector("[aria-invalid], [type=password], .outcome")?.focus();
});

// After signing out, or the end of the session, going back shows no filled form from the browser's memory.
window.addEventListener("pageshow", (event) => {
  if (event.persisted && document.querySelector(".trying")) location.reload();
});

/** Old links lead to an operation's line on the first page: go on to its own page. */
function leadOn() {
  const line = document.getElementById(location.hash.slice(1));
  if (line?.matches(".operations > li")) location.replace(line.querySelector("a").href);
}
window.addEventListener("hashchange", leadOn);

document.addEventListener("DOMContentLoaded", () => {
  leadOn();
  offerLanguages();
  offerCopies(document);
  offerSearch();
});
