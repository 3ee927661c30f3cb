"""Reads messages with pika and prints each as a line of JSON: what a consumer in another language sees."""

import base64
import json
import sys

import pika


def plain(value):
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {key: plain(inner) for key, inner in value.items()}
    return value


uri, queue, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = pika.BlockingConnection(pika.URLParameters(uri))
channel = connection.channel()
seen = 0
for method, properties, body in channel.consume(queue, inactivity_timeout=30):
    if method is None:
        sys.exit(f"only {seen} of {count} messages came")
    print(json.dumps({
        "routing_key": method.routing_key,
        "body": base64.b64encode(body).decode(),
        "headers": {name: plain(value) for name, value in (properties.headers or {}).items()},
        **{name: getattr(properties, name) for name in (
            "message_id", "correlation_id", "reply_to", "timestamp", "priority", "delivery_mode", "expiration",
            "content_type")},
    }), flush=True)
    channel.basic_ack(method.delivery_tag)
    seen += 1
    if seen == count:
        break
channel.cancel()
connection.close()
