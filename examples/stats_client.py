#!/usr/bin/env python3
"""Watches one figure of a run: stats_client.py HOST:PORT [TOPIC]"""
import json
import socket
import sys

host, port = sys.argv[1].rsplit(":", 1)
topic = sys.argv[2] if len(sys.argv) > 2 else "env_steps_per_second"
with socket.create_connection((host.strip("[]"), int(port))) as connection:
    request = {"type": "subscribe", "topic": topic}
    connection.sendall(json.dumps(request).encode() + b"\n")
    for line in connection.makefile("rb"):
        message = json.loads(line)
        if message["type"] == "hello":
            print("run", message["run"], "seed", message["config"].get("seed"), flush=True)
        elif message["type"] == "subscribed":
            print("watching", message["topic"], flush=True)
        elif message["type"] == "topic":
            print(message["sequence"], message["value"], flush=True)
        elif message["type"] == "error":
            sys.exit("refused: " + message["reason"])
