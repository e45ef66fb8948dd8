#!/usr/bin/env python3
"""Watches one figure of a run: stats_client.py HOST:PORT [TOPIC]"""
import json
import socket
import sys


def watch(address, topic):
    """Prints each new value until the run ends. Returns what went wrong, if anything did."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdigit():
        return f"{address}: not HOST:PORT, as `troupe train` prints it behind \"statistics\""
    try:
        connection = socket.create_connection((host.strip("[]"), int(port)), timeout=10)
    except (OSError, OverflowError) as error:
        return f"{address}: cannot connect: {error}"
    greeted = False
    with connection:
        connection.settimeout(None)
        try:
            connection.sendall(json.dumps({"type": "subscribe", "topic": topic}).encode() + b"\n")
            for line in connection.makefile("rb"):
                message = json.loads(line)
                if message["type"] == "hello":
                    greeted = True
                    print("run", message["run"], "seed", message["config"].get("seed"), flush=True)
                elif message["type"] == "subscribed":
                    print("watching", message["topic"], flush=True)
                elif message["type"] == "topic":
                    print(message["sequence"], message["value"], flush=True)
                elif message["type"] == "error":
                    return "refused: " + message["reason"]
        except OSError as error:
            return f"{address}: the connection is lost: {error}"
        except (ValueError, KeyError, TypeError):
            greeted = False
    if not greeted:
        return f"{address}: not the statistics port of a run"
    print("the run has ended", flush=True)
    return None


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        print("usage: stats_client.py HOST:PORT [TOPIC]", file=sys.stderr)
        sys.exit(2)
    try:
        sys.exit(watch(sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "env_steps_per_second"))
    except KeyboardInterrupt:
        sys.exit(130)
