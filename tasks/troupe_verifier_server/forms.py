"""The forms of verifiers: how each is called."""

import inspect

from troupe_verifier_server.errors import Refused, one_line, place_of, problem_of, text_of
from troupe_verifier_server.scores import counted, plain_score

NOT_GIVEN = ("completion_ids", "completions_ids", "trainer_state", "log_extra", "log_metric", "environments")  # what only TRL has
TRUTH_KEYS = ["reward_model.ground_truth", "ground_truth", "truth"]  # of verl's form, in this order
FORMS = (
    "(prompts, completions, **columns) as in TRL, (data_source, solution_str, ground_truth, extra_info) as in verl, the same in the "
    "plural for its batches, or one parameter for the list of answers"
)


class Loop:
    """Waits for coroutines. One event loop for all calls, because clients that a verifier keeps belong to a loop."""

    def __init__(self):
        self._loop = None

    def results(self, values):
        """The values, with the results of those that are coroutines, which run at the same time. Exceptions are values too."""
        waiting = [i for i, value in enumerate(values) if inspect.isawaitable(value)]
        if waiting:
            import asyncio  # takes long

            self._loop = self._loop or asyncio.new_event_loop()

            async def all_of_them():
                return await asyncio.gather(*(values[i] for i in waiting), return_exceptions=True)

            for i, result in zip(waiting, self._loop.run_until_complete(all_of_them())):
                values[i] = result
        return values

    def result(self, value):
        (found,) = self.results([value])
        if isinstance(found, BaseException):
            raise found
        return found


LOOP = Loop()
ROLES = ("user", "tool")  # of messages after answers


def conversation_of(item):
    """The messages of the prompt; None if it is a text."""
    prompt = item["columns"].get("prompt")
    is_message = isinstance(prompt, list) and prompt and all(isinstance(m, dict) and "role" in m and "content" in m for m in prompt)
    return prompt if is_message else None


def completion_of(item):
    """All that follows the prompt, as messages."""
    messages = []
    for turn in item.get("turns", []):
        role = turn.get("role", "user")
        messages += [{"role": "assistant", "content": turn["answer"]}, {"role": role, "content": turn["message"]}]
    return [*messages, {"role": "assistant", "content": item["answer"]}]


def answers_of(items):
    """One dict for each answer, with the columns of its prompt."""
    answers = [{**item["columns"], **{key: item[key] for key in ("truth", "answer", "turns") if key in item}} for item in items]
    for answer, item in zip(answers, items):
        answer["prompt"] = conversation_of(item) or item["prompt"]
    return answers


class TrlCaller:
    """Calls function(prompts=..., completions=..., COLUMN=...), with lists, as the GRPOTrainer of TRL does."""

    def __init__(self, function, parameters):
        self._function = function
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
        self._names = {p.name for p in named}
        self._required = [p.name for p in named if p.default is p.empty and p.name not in ("prompts", "completions")]
        self.needs = [(name, [name]) for name in self._required]
        for name in self._required:
            if name in NOT_GIVEN:
                raise Refused(f"it requires the parameter {name}, which troupe does not give; remove it, or give it a default")

    def __call__(self, items):
        columns = self._columns(items)
        for name in self._required:
            if name not in columns:
                raise Refused(f"the verifier requires the column {name}, which the prompts lack; they have {', '.join(sorted(columns))}")
        given = {"prompts": [conversation_of(item) or item["prompt"] for item in items]}
        given["completions"] = [completion_of(item) if conversation_of(item) else item["answer"] for item in items]
        given = {**columns, **given}
        if not self._takes_all:
            given = {name: values for name, values in given.items() if name in self._names}
        return [plain_score(score) for score in counted(LOOP.result(self._function(**given)), items)]

    @staticmethod
    def _columns(items):
        """The columns that any of the prompts has, each as a list with None where a prompt lacks it; and their truths."""
        names = {name for item in items for name in item["columns"]} - {"prompt", "completion", *NOT_GIVEN}
        columns = {name: [item["columns"].get(name) for item in items] for name in names}
        columns.setdefault("truth", [item["truth"] for item in items])
        return columns


class VerlCaller:
    """Calls function(data_source=..., solution_str=..., ground_truth=..., extra_info=...) for each answer, as verl does."""

    GIVEN = ("data_source", "solution_str", "ground_truth", "extra_info")

    def __init__(self, function, parameters):
        self._function = function
        self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self._names = {p.name for p in parameters}
        self.needs = [(p.name, TRUTH_KEYS) for p in parameters if p.default is p.empty and p.name == self.GIVEN[2]]
        for p in parameters:
            if p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL) and p.name not in self.GIVEN:
                raise Refused(f"it requires the parameter {p.name}, which troupe does not give; give it a default")

    def __call__(self, items):
        """An exception fails that answer alone. The first of each place has a traceback."""
        scores, places = LOOP.results([self._score_or_error(item) for item in items]), set()
        for i, score in enumerate(scores):
            if isinstance(score, BaseException):
                scores[i] = {"failed": text_of(score), **problem_of(score, with_traceback=place_of(score) not in places)}
                places.add(scores[i]["place"])
            else:
                scores[i] = plain_score(score, of_verl=True)
        return scores

    def _score_or_error(self, item):
        try:
            return self._function(**self._taken(self._values(item)))
        except Exception as error:
            return error

    def _taken(self, given):
        return given if self._takes_all else {name: value for name, value in given.items() if name in self._names}

    @staticmethod
    def _values(item):
        """Without a truth, the default of the function applies."""
        columns = item["columns"]
        reward_model = columns.get("reward_model")
        values = {
            "data_source": columns.get("data_source", ""),
            "solution_str": item["answer"],
            "extra_info": columns.get("extra_info") or {},
        }
        if isinstance(reward_model, dict) and "ground_truth" in reward_model:
            values["ground_truth"] = reward_model["ground_truth"]
        elif "ground_truth" in columns or item["truth"]:
            values["ground_truth"] = columns.get("ground_truth", item["truth"])
        return values


class VerlBatchCaller(VerlCaller):
    """Calls function(data_sources=..., solution_strs=..., ground_truths=..., extra_infos=...), with lists, as verl's BatchRewardManager."""

    GIVEN = tuple(name + "s" for name in VerlCaller.GIVEN)

    def __call__(self, items):
        values = [self._values(item) for item in items]
        given = {name + "s": [of_item.get(name) for of_item in values] for name in VerlCaller.GIVEN}
        scores = LOOP.result(self._function(**self._taken(given)))
        return [plain_score(score, of_verl=True) for score in counted(scores, items)]


class ListCaller:
    """Calls function(list): one dict for each answer, with the columns of its prompt and "prompt", "truth", "answer"."""

    needs = ()

    def __init__(self, function):
        self._function = function

    def __call__(self, items):
        return [plain_score(score) for score in counted(LOOP.result(self._function(answers_of(items))), items)]


class ReplyCaller:
    """Calls function(list) as ListCaller does. It returns a text, {"role": ROLE, "content": TEXT} or None for each answer; anything else
    fails its answer alone."""

    def __init__(self, function):
        self._function = function

    def __call__(self, items):
        replies = counted(LOOP.result(self._function(answers_of(items))), items, "replies")
        return [reply if reply is None else self._message(reply) for reply in replies]

    @staticmethod
    def _message(reply):
        role, text = "user", reply
        if isinstance(reply, dict):
            if set(reply) != {"role", "content"}:
                return {"failed": f"the reply has the keys {', '.join(map(repr, reply))}, expected 'role' and 'content'"}
            role, text = reply["role"], reply["content"]
        if not isinstance(text, str):
            what, expected = ("the reply", "a text or None") if text is reply else ("the content of the reply", "a text")
            return {"failed": f"{what} is of type {type(text).__name__}, expected {expected}"}
        if role not in ROLES:
            return {"failed": f"the reply has the role {role!r}, expected one of: {', '.join(ROLES)}"}
        text = text.encode("utf-8", "replace").decode()
        return text if role == "user" else {"role": role, "content": text}


def caller_of(function):
    """What calls the function, by the names of its parameters."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a builtin
        return ListCaller(function)
    parameters = list(signature.parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    names = {p.name for p in parameters}
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    if names & {"completions", "completion_ids", "completions_ids"} or (takes_all and "prompts" in names):
        return TrlCaller(function, parameters)
    if "solution_str" in names:
        return VerlCaller(function, parameters)
    if "solution_strs" in names:
        return VerlBatchCaller(function, parameters)
    if takes_all and not positional:
        return TrlCaller(function, parameters)
    if positional and required in ([], positional[:1]):
        return ListCaller(function)
    raise Refused(f"its parameters {one_line(signature, 80)} fit none of the forms: {FORMS}")
