"""Reads an MHTML file with the email package of Python, and prints each part as a line of JSON."""

import email
import email.policy
import json
import sys

message = email.message_from_bytes(sys.stdin.buffer.read(), policy=email.policy.default)
assert message.get_content_type() == "multipart/related", message.get_content_type()
assert not message.defects, message.defects
for part in message.iter_parts():
    assert not part.defects, part.defects
    print(json.dumps({
        "url": part["Content-Location"],
        "type": part.get_content_type(),
        "status": part["Nephila-Status"],
        "hex": part.get_payload(decode=True).hex(),
    }))
