/* Passkeys: the browser's credential or signature goes into a field of the form. Without script, passwords still work. */
"use strict";

const able = window.PublicKeyCredential?.parseRequestOptionsFromJSON;
let waiting = new AbortController();

for (const form of able ? document.querySelectorAll("form[data-passkey]") : []) {
  const creates = form.dataset.passkey === "create";
  const options = JSON.parse(form.dataset.options);
  const publicKey = creates
    ? PublicKeyCredential.parseCreationOptionsFromJSON(options)
    : PublicKeyCredential.parseRequestOptionsFromJSON(options);

  const send = (credential) => {
    form.elements[form.dataset.field].value = JSON.stringify(credential);
    form.submit();
  };

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
      const wish = { publicKey, signal: waiting.signal };
      send(await (creates ? navigator.credentials.create(wish) : navigator.credentials.get(wish)));
    } catch {
      fault.hidden = false;
    }
  });

  // If supported, the browser offers passkeys when it fills in the e-mail.
  if (!creates && document.querySelector("[autocomplete~=webauthn]")) {
    (async () => {
      if (!(await PublicKeyCredential.isConditionalMediationAvailable?.())) return;
      const wish = { publicKey, mediation: "conditional", signal: waiting.signal };
      navigator.credentials.get(wish).then(send, () => {}); // the user may sign in another way
    })();
  }
}
