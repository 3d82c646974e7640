"""A device that makes a passkey, and the people who have one."""

import json
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from html import unescape
from typing import Any

import cbor2
import httpx
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256

from driving import Api
from second_factor import (
    DASHBOARD,
    HERE,
    Person,
    csrf_in,
    session_in,
)
from signing_in import PASSWORD

PRESENT, VERIFIED, ELIGIBLE, BACKED_UP, ATTESTED = 0x01, 0x04, 0x08, 0x10, 0x40
"""Flags of an authenticator (WebAuthn §6.1)."""


def b64(data: bytes) -> str:
    """Bytes as WebAuthn writes them in JSON."""
    return urlsafe_b64encode(data).decode().rstrip("=")


def raw(text: str) -> bytes:
    """What `b64` was made of."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


class Authenticator:
    """A device that makes one passkey, and signs with it."""

    def __init__(self, algorithm: str = "ES256") -> None:
        self.id = sha256(algorithm.encode()).digest()
        self.count = 1
        self.flags = PRESENT | VERIFIED
        self.origin = HERE
        self.rp = "localhost"
        self.framed: dict[str, Any] = {}
        self.attested: tuple[str, Any] = ("none", {})
        self.sign: Callable[[bytes], bytes]
        if algorithm == "ES256":
            key = ec.generate_private_key(ec.SECP256R1())
            point = key.public_key().public_numbers()
            x, y = point.x.to_bytes(32, "big"), point.y.to_bytes(32, "big")
            self.cose: Any = {1: 2, 3: -7, -1: 1, -2: x, -3: y}
            self.sign = lambda data: key.sign(data, ec.ECDSA(SHA256()))
        elif algorithm == "EdDSA":
            own = ed25519.Ed25519PrivateKey.generate()
            self.cose = {1: 1, 3: -8, -1: 6, -2: own.public_key().public_bytes_raw()}
            self.sign = own.sign
        else:
            big = rsa.generate_private_key(65537, 2048)
            n = big.public_key().public_numbers().n.to_bytes(256, "big")
            self.cose = {1: 3, 3: -257, -1: n, -2: b"\x01\x00\x01"}
            self.sign = lambda data: big.sign(data, padding.PKCS1v15(), SHA256())

    def _data(self, flags: int, more: bytes = b"") -> bytes:
        return sha256(self.rp.encode()).digest() + bytes([flags]) + self.count.to_bytes(4) + more

    def _client(self, kind: str, challenge: str) -> bytes:
        data = {"type": kind, "challenge": challenge, "origin": self.origin, **self.framed}
        return json.dumps(data).encode()

    def create(self, options: dict[str, Any]) -> str:
        """The answer of `navigator.credentials.create`."""
        credential = bytes(16) + len(self.id).to_bytes(2) + self.id + cbor2.dumps(self.cose)
        attestation = {
            "fmt": self.attested[0],
            "attStmt": self.attested[1],
            "authData": self._data(self.flags | ATTESTED, credential),
        }
        return self._answer(
            clientDataJSON=b64(self._client("webauthn.create", options["challenge"])),
            attestationObject=b64(cbor2.dumps(attestation)),
        )

    def get(self, options: dict[str, Any]) -> str:
        """The answer of `navigator.credentials.get`."""
        self.count += 1
        data = self._data(self.flags)
        client = self._client("webauthn.get", options["challenge"])
        return self._answer(
            clientDataJSON=b64(client),
            authenticatorData=b64(data),
            signature=b64(self.sign(data + sha256(client).digest())),
            userHandle=None,
        )

    def _answer(self, **response: str | None) -> str:
        known = {"id": b64(self.id), "rawId": b64(self.id), "type": "public-key"}
        return json.dumps({**known, "response": response, "clientExtensionResults": {}})


def options_in(page: httpx.Response) -> dict[str, Any]:
    """What a page hands to the browser."""
    found = re.search(r'data-options="(.*?)"', page.text)
    assert found, page.text
    return dict(json.loads(unescape(found[1])))


async def register(
    person: Person, device: Authenticator, name: str = "Laptop", **more: str
) -> httpx.Response:
    """What comes of the form that keeps a passkey."""
    page = await person.browser.get(f"{DASHBOARD}/security/passkey")
    csrf = csrf_in(page)
    form = {"csrf": csrf, "name": name, "credential": device.create(options_in(page)), **more}
    return await person.post("/security/passkey", **form)


async def sign_in_by(api: Api, device: Authenticator, at: str = DASHBOARD) -> httpx.Response:
    """What comes of signing in by a passkey, in a new browser."""
    person = Person(api, at)
    options = options_in(await person.browser.get(f"{at}/sign-in"))
    return await person.post("/sign-in/passkey", credential=device.get(options))


async def owner(api: Api, device: Authenticator) -> Any:
    """Somebody with this passkey and nothing else, and their recovery codes."""
    user = await api.account(password=PASSWORD)
    person = Person(api, DASHBOARD)
    assert session_in(await person.password(user))
    made = await register(person, device)
    assert made.status_code == 303, made.text
    shown = await person.browser.get(HERE + made.headers["location"])
    codes = re.findall(r"[a-z2-7]{4}(?:-[a-z2-7]{4}){5}", shown.text)
    assert len(codes) == 10
    return user, person, codes
