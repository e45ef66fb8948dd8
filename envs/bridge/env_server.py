"""Environment server: the process in which troupe runs environments that are written in Python.

troupe starts it as `PYTHON env_server.py DESCRIPTOR TRACE`. DESCRIPTOR is one end of a socket pair; TRACE is a file for the
stack of this process if it crashes or is aborted. It needs Python 3.9 and numpy, and the library that the scheme of the
id names. Its parts are in the folder troupe_env_server. The other side is envs/bridge/server_process.h.

A message on the socket is the byte "j", four bytes with a length, and as many bytes of JSON. The first one asks for the
spaces of the environment. The second one brings a block of shared memory and two eventfds. From then on, each request
comes by the first eventfd, its kind is in the header of the block, and the second eventfd answers that it is done. All
arrays of a step are in the block.
"""

import faulthandler
import gc
import json
import mmap
import os
import socket
import struct
import sys

# Its parts are beside this file. A process that the environment spawns imports this file too, without its folder in sys.path. Bytecode
# would be written into the folder where troupe is installed.
_folder, _writes_bytecode = os.path.dirname(os.path.abspath(__file__)), sys.dont_write_bytecode
sys.path.insert(0, _folder)
sys.dont_write_bytecode = True
from troupe_env_server import np  # noqa: E402
from troupe_env_server.makers import MujocoImport, maker_of  # noqa: E402
from troupe_env_server.rows import Rows  # noqa: E402
from troupe_env_server.spaces import Spaces, mode_of, require_members  # noqa: E402
from troupe_env_server.trials import Trial, VectorTrial, ZooTrial  # noqa: E402
from troupe_env_server.values import Refused, lines_of, printable, text_of  # noqa: E402
from troupe_env_server.vector_rows import VectorRows  # noqa: E402
from troupe_env_server.zoo_rows import ZooRows  # noqa: E402

sys.dont_write_bytecode = _writes_bytecode
sys.path.remove(_folder)

STEP_ROWS, MESSAGE, CLOSE, STEP_ALL = 1, 2, 3, 4  # what a request asks for


class Connection:
    def __init__(self, descriptor):
        self.socket = socket.socket(fileno=descriptor)
        self.socket.setblocking(True)
        self.files = []

    def read(self, count):
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                sys.exit(0)  # troupe has closed its end
            data += part
        return data

    def read_json(self):
        return json.loads(self.read(struct.unpack("<I", self.read(4))[0]))

    def read_request(self):
        """The next request, which is JSON. Files that come with it are added to `files`."""
        first, files, _, _ = socket.recv_fds(self.socket, 1, 3)
        self.files += files
        if first != b"j":
            sys.exit(0 if not first else f"unexpected message {first!r}")
        return self.read_json()

    def send_json(self, value):
        data = json.dumps(value).encode()
        self.socket.sendall(b"j" + struct.pack("<I", len(data)) + data)


def single_description(env):
    """The spaces of an environment and the class of its rows."""
    require_members(env, ("observation_space", "action_space", "reset", "step"))
    limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return Spaces(env.observation_space, env.action_space, limit), Rows


def vector_description(env, rows):
    require_members(env, ("single_action_space", "num_envs", "reset", "step"))
    mode_of(env)
    if int(env.num_envs) != rows:
        raise Refused(
            "make",
            f"the vector environment {type(env).__name__} has {env.num_envs} rows, expected {rows}; give the callable "
            "a parameter num_envs, which troupe sets",
        )
    limit = getattr(env, "max_episode_steps", None) or getattr(getattr(env, "spec", None), "max_episode_steps", None)
    return Spaces(env.single_observation_space, env.single_action_space, limit), VectorRows


def parallel_description(env):
    for name in ("possible_agents", "observation_space", "action_space", "reset", "step"):
        if not hasattr(env, name):
            raise Refused("make", f"{type(env).__name__} has no {name}, expected a parallel environment as PettingZoo has them")
    agents = list(env.possible_agents)
    if not agents:
        raise Refused("make", f"{type(env).__name__} has no possible_agents, expected at least one")
    spaces = [Spaces(env.observation_space(agent), env.action_space(agent)) for agent in agents]
    for agent, other in zip(agents, spaces):
        for part, text in (("observations", "observation"), ("action", "action")):
            if other.describe()[part] != spaces[0].describe()[part]:
                raise Refused(
                    "space",
                    f"the agents {agents[0]} and {agent} have different {text} spaces, expected the same for all "
                    "agents, because they share one policy; wrappers of the package supersuit can pad them",
                )
    return spaces[0], ZooRows


def describe(request):
    """The answer to the first request, and what is needed for the second: make, a first environment, its spaces, the
    class of its rows."""
    if np is None:
        return {"error": {"kind": "no_numpy", "text": "numpy is not installed", "traceback": []}}, None
    try:
        make = maker_of(request["id"], request["params"], request["rows"])
        env = make()
        if request["id"].startswith("zoo:"):
            spaces, kind = parallel_description(env)
        elif hasattr(env, "single_observation_space"):
            spaces, kind = vector_description(env, request["rows"])
        else:
            spaces, kind = single_description(env)
        answer = spaces.describe()
        answer["shared"] = kind is not Rows
        answer["seeds_alone"] = kind is not VectorRows
        answer["agents"] = len(env.possible_agents) if kind is ZooRows else 1
        if request["probe"]:
            trial = {Rows: Trial, VectorRows: VectorTrial, ZooRows: ZooTrial}[kind]
            answer["reports_success"] = trial(env, spaces).reports_success()
        return {"spaces": answer}, (make, env, spaces, kind)
    except Refused as error:
        return {"error": {"kind": error.kind, "text": printable(str(error)), "traceback": []}}, None
    except (Exception, SystemExit) as error:
        return {"error": {"kind": "make", "text": text_of(error), "traceback": lines_of(error, 60)}}, None


def picture_of(rows, message):
    try:
        return rows.render(message["render"])
    except Exception as error:
        return text_of(error)


def serve(connection, rows, requested, replied):
    """Answers requests until troupe closes the connection or ends."""
    read, write, one = os.read, os.write, (1).to_bytes(8, sys.byteorder)
    header, step = rows.header, rows.step
    while True:
        read(requested, 8)
        request, kind = header[0], header[1]
        if kind == STEP_ALL or kind == STEP_ROWS:
            errors = step(kind == STEP_ALL)
            header[3] = 1 if errors else 0
            if errors:
                connection.send_json({"errors": errors})
            header[2], header[4] = request, 0
            write(replied, one)
        elif kind == MESSAGE:
            connection.send_json({"picture": picture_of(rows, connection.read_request())})
        else:
            rows.close()
            return


def main():
    # A module that the id names is looked up in the working folder, not in the folder of this file.
    sys.path[0] = os.getcwd()
    sys.meta_path.insert(0, MujocoImport())
    faulthandler.enable(file=int(sys.argv[2]), all_threads=True)
    connection = Connection(int(sys.argv[1]))
    answer, made = describe(connection.read_request())
    connection.send_json(answer)
    if made is None:
        return
    make, env, spaces, kind = made
    layout = connection.read_request()
    file, requested, replied = connection.files
    block = mmap.mmap(file, layout["bytes"])
    rows = kind(make, env, spaces, layout, block)
    gc.collect()
    gc.freeze()  # modules and spaces live as long as the process
    serve(connection, rows, requested, replied)


if __name__ == "__main__":
    main()
