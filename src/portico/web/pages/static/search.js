
// The search over everything: Ctrl K or "/" opens it as a dialog. There and on its own page it finds while one types; the
// arrows go through what it has found, and Enter opens the first.
const finder = document.getElementById("finder"); // its own page has none

// "/" alone can be switched off, since speech input and slips press single keys (WCAG 2.1.4).
const SLASH = "portico.slash";
let hasSlash = true;
function tellSlash() {
  for (const box of document.querySelectorAll("[data-slash]")) {
    box.checked = hasSlash;
    box.parentElement.hidden = false;
  }
  for (const link of document.querySelectorAll("a.finder")) link.ariaKeyShortcuts = hasSlash ? "Control+K /" : "Control+K";
}
addEventListener("load", () => oncePainted(() => {
  try {
    hasSlash = localStorage.getItem(SLASH) !== "false";
  } catch {
    // Without storage, it is on.
  }
  tellSlash();
}));
document.addEventListener("change", ({ target }) => {
  if (!target.matches("[data-slash]")) return;
  hasSlash = target.checked;
  tellSlash();
  try {
    localStorage.setItem(SLASH, hasSlash);
  } catch {
    // Without storage, it applies to this page only.
  }
});

function findIn(root) {
  const form = root.querySelector(".everything");
  const field = form.elements.q;
  const [count, hits] = root.querySelectorAll("#hit-count, #hits");
  let shownFor = finder ? null : field.defaultValue;
  let later, request;
  async function look() {
    clearTimeout(later);
    request?.abort();
    request = new AbortController();
    const text = field.value;
    const address = `${form.action}?${new URLSearchParams({ q: text })}`;
    try {
      const answer = await fetch(address, { signal: request.signal });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const found = page.getElementById("hits");
      if (!found) return location.assign(address); // it says why, or leads to sign-in
      hits.replaceChildren(...found.childNodes);
      count.textContent = page.getElementById("hit-count").textContent;
      shownFor = text;
    } catch ({ name }) {
      document.getElementById("unreached").hidden = name === "AbortError";
    }
  }
  field.addEventListener("input", () => {
    clearTimeout(later);
    later = setTimeout(look, 150);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (shownFor !== field.value) await look();
    if (shownFor === field.value) hits.querySelector("a")?.click();
  });
  root.addEventListener("keydown", (event) => {
    const { key, ctrlKey, metaKey, altKey } = event;
    const step = { ArrowDown: 1, ArrowUp: -1 }[key];
    const stops = [field, ...hits.querySelectorAll("a")];
    const at = stops.indexOf(document.activeElement);
    if (step && at >= 0) {
      event.preventDefault();
      stops.at((at + step) % stops.length).focus();
    } else if (at > 0 && key.length === 1 && !ctrlKey && !metaKey && !altKey) {
      field.focus(); // where the character goes
    }
  });
  tellSlash();
  return look;
}

let lookAgain;
function openFinder() {
  if (!finder) return document.getElementById("q").focus();
  if (document.querySelector("dialog:modal")) return;
  let dialog = document.querySelector("dialog.finder");
  if (!dialog) {
    document.body.append(finder.content);
    dialog = document.body.lastElementChild;
    lookAgain = findIn(dialog);
  }
  dialog.showModal();
  const field = document.getElementById("q");
  field.focus();
  field.select();
  lookAgain();
}
if (!finder && document.querySelector(".everything")) findIn(document.getElementById("main"));

document.addEventListener("keydown", (event) => {
  const { key, ctrlKey, metaKey, altKey, shiftKey, target } = event;
  const isChord = key.toLowerCase() === "k" && (ctrlKey || metaKey) && !altKey && !shiftKey;
  const isSlash = hasSlash && key === "/" && !ctrlKey && !metaKey && !altKey && !target.closest("input, select, textarea");
  if (!isChord && !isSlash) return;
  event.preventDefault();
  openFinder();
});
for (const link of document.querySelectorAll("a.finder")) {
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openFinder();
  });
  const hint = link.querySelector("kbd");
  if (/Mac|iP/.test(navigator.platform)) hint.textContent = "⌘ K";
  hint.hidden = false;
}
