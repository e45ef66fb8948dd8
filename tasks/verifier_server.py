"""Verifier server: the process in which troupe runs a verifier that is written in Python.

troupe starts it as `PYTHON verifier_server.py DESCRIPTOR TARGET`, where DESCRIPTOR is one end of a socket pair and TARGET
is "MODULE:CALLABLE" or "FILE.py:CALLABLE". It needs Python 3.9 and nothing else. The other side is
tasks/verifier_process.h.

Every message is one line of JSON. The server first writes {"ready": true, "needs": [[PARAMETER, [KEY, ...]], ...], "replies": BOOLEAN},
where each prompt must have one of the keys of a parameter, or {"error": TEXT} and ends. A request is
{"id": N, "items": [{"prompt": TEXT, "truth": TEXT, "answer": TEXT, "columns": OBJECT}, ...]}, with "turns": [{"answer": TEXT, "message":
TEXT}, ...] in each item if answers have several turns: those before the answer. The reply is
{"id": N, "scores": [...]} with one value for each item, or {"id": N, "error": TEXT}. A value is a number, an object
{"reward": NUMBER, "right": BOOLEAN, "parts": {NAME: NUMBER}}, null for an answer that is not scored, or {"failed": TEXT}.
An error, and a failed answer, can have the lines of a traceback as "traceback", and as "place" a text that is the same for all failures of
one kind.

The parts are in the folder troupe_verifier_server. The forms of callables are told apart by their parameters
(forms.caller_of).

With a third argument, a JSON object of parameters, the callable makes a whole task (`task_of` in tasks.py), which is asked for prompts
too: the reply to {"id": N, "prompts": [FIRST, END]} is {"id": N, "prompts": [TEXT, ...]}, where each text is the JSON object of a prompt.

With the argument --replies, the callable gives messages after answers in place of scores, as the method `reply` of a task may do. A request
has "reply": true then, and its reply is {"id": N, "replies": [...]} with a text, {"role": "tool", "content": TEXT}, null or
{"failed": TEXT} for each item.
"""

import importlib
import importlib.util
import inspect
import json
import os
import socket
import sys

# Its parts are beside this file, whose folder is not left in sys.path, where verifiers find their modules. Bytecode would be written into
# the folder where troupe is installed.
_folder, _writes_bytecode = os.path.dirname(os.path.abspath(__file__)), sys.dont_write_bytecode
sys.path = [_folder] + [path for path in sys.path if os.path.abspath(path) != _folder]
sys.dont_write_bytecode = True
from troupe_verifier_server.errors import Refused, problem_of, text_of  # noqa: E402
from troupe_verifier_server.forms import ReplyCaller, caller_of  # noqa: E402
from troupe_verifier_server.tasks import prompts_between, task_of  # noqa: E402

sys.dont_write_bytecode = _writes_bytecode
sys.path.remove(_folder)


def failure(error):
    return {"error": text_of(error), **problem_of(error)}


def find(target):
    """What "module:name" or "path/file.py:name" refers to."""
    module_name, _, name = target.rpartition(":")
    if module_name.endswith(".py"):
        path = os.path.abspath(module_name)
        if not os.path.isfile(path):
            raise Refused(f"there is no file {path}")
        sys.path.insert(0, os.path.dirname(path))
        spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        spec.loader.exec_module(module)
    else:
        sys.path.insert(0, os.getcwd())
        module = importlib.import_module(module_name)
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if found is None:
        raise Refused(f"{module_name} has no function {name}")
    return found


def find_function(target):
    found, (module_name, _, name) = find(target), target.rpartition(":")
    if not callable(found) or inspect.isclass(found):
        kind = "a class" if inspect.isclass(found) else f"of type {type(found).__name__}"
        raise Refused(f"{name} in {module_name} is {kind}, expected a function or an object that can be called")
    return found


def reply_to(request, call, reply, task):
    if "prompts" in request:
        return {"prompts": prompts_between(task, *request["prompts"])}
    if "reply" in request:
        return {"replies": reply(request["items"])}
    return {"scores": call(request["items"]) if request["items"] else []}


def serve(connection, call, reply, task):
    """Answers requests until the connection is closed."""
    for line in connection:
        request = json.loads(line)
        try:
            result = reply_to(request, call, reply, task)
        except Exception as error:
            result = failure(error)
        send(connection, {"id": request["id"], **result})


def send(connection, message):
    """Writes one line."""
    connection.write(json.dumps(message).encode() + b"\n")
    connection.flush()


def main():
    """Loads the verifier and serves it."""
    end = socket.socket(fileno=int(sys.argv[1]))
    end.set_inheritable(False)
    connection = end.makefile("rwb")
    target, more, call, reply, task = sys.argv[2], sys.argv[3:], None, None, None
    try:
        if more == ["--replies"]:
            reply = ReplyCaller(find_function(target))
        elif more:
            task = task_of(find(target), json.loads(more[0]))
            call, reply = task.score, task.reply
        else:
            call = caller_of(find_function(target))
    except Exception as error:
        return send(connection, failure(error))
    send(connection, {"ready": True, "needs": list(getattr(call, "needs", ())), "replies": reply is not None})
    serve(connection, call, reply, task)


if __name__ == "__main__":
    main()
