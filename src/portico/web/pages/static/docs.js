/* Enhancements of the reference: one language at a time, copy buttons, search, trying out operations in place.
   The reference can be read without script. */
"use strict";

const root = document.documentElement;
const REMEMBERED = "portico.language";
const THEME = "portico.theme";
const MOST_FOUND = 12;
const MOST_SHOWN = 65_536;

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

// The page shows one language, at first the one that was selected before. A sheet says which, since any may come.
const chosenSheet = new CSSStyleSheet();
document.adoptedStyleSheets.push(chosenSheet);

function show(language) {
  const others = `.examples:not(.alone) .example:not([data-language="${CSS.escape(language)}"])`;
  chosenSheet.replaceSync(`${others}, .example h3 { display: none; }`);
}

show(remembered(REMEMBERED) ?? "curl");

/** Show all examples in one language; the clicked tab stays at its place on the screen. */
function choose(language, used) {
  const before = used?.getBoundingClientRect().top;
  show(language);
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
  const offered = [...document.querySelectorAll("[role=tab]")].map((tab) => tab.dataset.language);
  if (offered.length) choose(offered.find((language) => language === remembered(REMEMBERED)) ?? offered[0]);
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
  for (const part of page.querySelectorAll(":is(.guide, .tag)[id]")) {
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

/** The request that a form describes. Whatever its fields hold, it goes to the path that the form has. */
function described(form) {
  const { server, method, type } = form.dataset;
  const options = { method, headers: new Headers(), redirect: "error", cache: "no-store" };
  options.credentials = "cookie" in form.dataset ? "same-origin" : "omit";
  let path = form.dataset.path;
  const query = new URLSearchParams();
  for (const { dataset, value } of form.elements) {
    if (!dataset.in || !value) continue;
    const text = (dataset.start ?? "") + (dataset.in === "basic" ? btoa(value) : value);
    if (dataset.in === "path") {
      // Browsers would leave such a part out, and one before it: the request would go elsewhere.
      if (/^\.{1,2}$/.test(text)) throw new Error(`${dataset.name} must not be ${text}`);
      path = path.replaceAll(`{${dataset.name}}`, () => encodeURIComponent(text));
    }
    if (dataset.in === "query") query.append(dataset.name, text);
    if (dataset.in === "body") options.body = text;
    if (["header", "basic"].includes(dataset.in)) options.headers.set(dataset.name, text);
    if ("start" in dataset) options.credentials = "omit"; // A key that was typed goes alone.
  }
  if (options.body) options.headers.set("Content-Type", type);
  const address = new URL(server + path);
  address.search = query;
  return [address, options];
}

const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|([[{])\s*([\]}])|[[{\]},]|[^\s"[\]{},]+/g;

/** A body for reading: JSON is indented and coloured, its values as they came. */
function readable(body) {
  const code = made("code", {});
  try {
    JSON.parse(body);
  } catch {
    code.textContent = body;
    return code;
  }
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  for (const [token, string, colon, opened] of body.matchAll(TOKEN)) {
    if (string) code.append(made("span", { class: colon ? "key" : "text" }, string), colon ? ": " : "");
    else if (opened) code.append(token.replace(/\s/g, ""));
    else if (token === ",") code.append(`,${line()}`);
    else if ("[{".includes(token)) depth++, code.append(token + line());
    else if ("]}".includes(token)) depth--, code.append(line() + token);
    else code.append(made("span", { class: /^[-\d]/.test(token) ? "number" : "word" }, token));
  }
  return code;
}

/** What came of a request, for its reader. */
async function told(address, options) {
  const answer = await fetch(address, options);
  const body = await answer.text();
  const came = made("div", { class: "came" });
  const outcome = made("p", { tabindex: -1, class: `outcome ${answer.ok ? "good" : "bad"}` });
  // HTTP/2 has no phrase beside the status; the response that is documented has.
  const known = [...document.querySelectorAll(".answer summary")].find((one) => one.firstChild.textContent === `${answer.status}`);
  outcome.append(made("b", {}, answer.status), known?.lastChild.textContent ?? "");
  const line = made("p", { class: "line" });
  line.append(made("span", { class: `method ${options.method.toLowerCase()}` }, options.method), made("code", { class: "path" }, address));
  const headers = made("dl", { class: "headers" });
  for (const [name, value] of answer.headers) {
    const pair = made("div", {});
    pair.append(made("dt", {}, name), made("dd", {}, value));
    headers.append(pair);
  }
  came.append(outcome, line, headers);
  if (body) {
    const code = made("pre", { tabindex: 0 });
    code.append(readable(body.length > MOST_SHOWN ? `${body.slice(0, MOST_SHOWN)}…` : body));
    came.append(code);
  } else came.append(made("p", { class: "hint" }, "No body."));
  return came;
}

document.addEventListener("submit", async (event) => {
  const form = event.target.closest(".trying form");
  if (!form) return;
  event.preventDefault();
  const button = form.querySelector("button");
  button.disabled = true;
  let next;
  try {
    next = await told(...described(form));
  } catch (error) {
    next = made("p", { class: "notice bad", role: "alert" }, `No answer came: ${error.message}`);
  }
  button.disabled = false;
  form.parentElement.querySelector(":scope > :is(.notice, .came)")?.remove();
  form.after(next);
  offerCopies(next);
  next.querySelector(".outcome")?.focus();
});

// Whoever comes back to the page finds no key in it.
window.addEventListener("pagehide", () => {
  for (const field of document.querySelectorAll(".secret")) field.value = "";
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
  for (const form of document.querySelectorAll(".trying")) form.hidden = false;
});
