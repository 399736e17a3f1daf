"""Checks signed requests with an implementation of RFC 9421 that is not ours.

Standard input: {"directory": what `nephila identity directory` prints, "requests": [{"method", "url", "fields"}]}.
Prints one JSON object per request: {"ok": true, "keyid", "covered"} or {"ok": false, "why"}.
"""

import base64
import json
import sys

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from http_message_signatures import HTTPMessageVerifier, HTTPSignatureKeyResolver, algorithms


class Keys(HTTPSignatureKeyResolver):
    def __init__(self, directory):
        self.keys = {}
        for key in directory["keys"]:
            x = base64.urlsafe_b64decode(key["x"] + "=")
            self.keys[key["kid"]] = Ed25519PublicKey.from_public_bytes(x)

    def resolve_public_key(self, key_id):
        return self.keys[key_id]


class Request:
    def __init__(self, seen):
        self.method, self.url, self.headers = seen["method"], seen["url"], dict(seen["fields"])


given = json.load(sys.stdin)
verifier = HTTPMessageVerifier(signature_algorithm=algorithms.ED25519, key_resolver=Keys(given["directory"]))
for seen in given["requests"]:
    try:
        (result,) = verifier.verify(
            Request(seen), expect_tag="web-bot-auth", require_components=("@authority", "@method", "@path")
        )
        answer = {
            "ok": True,
            "keyid": result.parameters["keyid"],
            "covered": list(result.covered_components),
            "seconds": result.parameters["expires"] - result.parameters["created"],
        }
    except Exception as error:
        answer = {"ok": False, "why": f"{type(error).__name__}: {error}"}
    print(json.dumps(answer))
