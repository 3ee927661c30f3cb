"""Answers requests with pika, as any responder does: to reply-to, with the request's message-id as correlation-id."""

import sys

import pika

uri, queue, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
connection = pika.BlockingConnection(pika.URLParameters(uri))
channel = connection.channel()
channel.basic_qos(prefetch_count=100)
answered = set()
for method, properties, body in channel.consume(queue, inactivity_timeout=30):
    if method is None:
        sys.exit(f"only {len(answered)} of {count} requests came")
    channel.basic_publish(
        "", properties.reply_to, b"answer to " + body,
        pika.BasicProperties(
            correlation_id=properties.message_id, message_id="answer-" + properties.message_id, delivery_mode=2))
    channel.basic_ack(method.delivery_tag)
    answered.add(properties.message_id)
    if len(answered) == count:
        break
channel.cancel()
connection.close()
