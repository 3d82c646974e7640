/* Passkeys: the browser's credential or signature goes into a field of the form. Without script, passwords still work. */
"use strict";

const able = window.PublicKeyCredential?.parseRequestOptionsFromJSON;
const AGE_CHECKS = 15_000; // milliseconds
const QUICKEST_CHOICE = 1_000;
let waiting = new AbortController();

function base64url(value) {
  const bytes = String.fromCharCode(...new Uint8Array(value));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

// Not by `toJSON`: a password manager's credential may be a plain object, or have one that throws.
function written({ rawId, response }) {
  const names = ["clientDataJSON", "attestationObject", "authenticatorData", "signature", "userHandle"];
  const sent = names.filter((name) => response[name]).map((name) => [name, base64url(response[name])]);
  const id = base64url(rawId);
  return JSON.stringify({ id, rawId: id, type: "public-key", response: Object.fromEntries(sent) });
}

for (const form of able ? document.querySelectorAll("form[data-passkey]") : []) {
  const { passkey, field, options, renewal } = form.dataset;
  const creates = passkey === "create";
  const parsed = (json) =>
    creates
      ? PublicKeyCredential.parseCreationOptionsFromJSON(json)
      : PublicKeyCredential.parseRequestOptionsFromJSON(json);
  let publicKey = parsed(JSON.parse(options));
  let since = Date.now();

  // A page may be open for longer than its challenge is valid. If the server does not answer, it will refuse the old one.
  const isOld = () => Date.now() - since > publicKey.timeout * 0.9;
  async function renew() {
    try {
      publicKey = parsed(await (await fetch(renewal)).json());
      since = Date.now();
    } catch {}
  }

  async function send(wish) {
    if (isOld()) await renew();
    const asked = { ...wish, publicKey };
    const credential = await (creates ? navigator.credentials.create(asked) : navigator.credentials.get(asked));
    form.elements[field].value = written(credential);
    form.submit();
  }

  form.hidden = false;
  form.querySelector("[data-passkey-button]").hidden = false;
  form.querySelector("[data-passkey-none]")?.remove();
  const fault = form.querySelector("[data-passkey-fault]");
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    fault.hidden = true;
    waiting.abort();
    waiting = new AbortController();
    try {
      await send({ signal: waiting.signal });
    } catch {
      fault.hidden = false;
    }
  });

  // If supported, the browser offers passkeys when it fills in the e-mail.
  async function offer() {
    const offered = (waiting = new AbortController());
    const begun = Date.now();
    // A timer of the whole time would not run while the computer sleeps.
    const check = setInterval(() => {
      if (!isOld()) return;
      offered.abort();
      offer();
    }, AGE_CHECKS);
    try {
      await send({ mediation: "conditional", signal: offered.signal });
    } catch ({ name }) {
      // At once, the browser has only refused to offer passkeys, as with a certificate that it distrusts.
      if (name !== "AbortError" && Date.now() - begun > QUICKEST_CHOICE) fault.hidden = false;
    } finally {
      clearInterval(check);
    }
  }
  if (!creates && document.querySelector("[autocomplete~=webauthn]")) {
    PublicKeyCredential.isConditionalMediationAvailable?.().then((is) => is && offer());
  }
}
