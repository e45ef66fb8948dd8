"""Tasks for tests: a right one, one like those of reasoning_gym, and one for each way to fail."""

import os
import time


class Doubles:
    """Asks for twice a number. Its answers are numbers as text, or messages of a conversation."""

    def __init__(self, offset=0, conversation=False):
        self._offset, self._conversation = offset, conversation

    def draw(self, index):
        question = f"2*{index + self._offset}="
        messages = [{"role": "system", "content": "Answer briefly."}, {"role": "user", "content": question}]
        prompt = messages if self._conversation else question
        return {"prompt": prompt, "number": index + self._offset, "demonstration": str(2 * (index + self._offset))}

    def score(self, items):
        return [float(item["answer"] == str(2 * item["number"])) for item in items]


class Repeats(Doubles):
    """Has each prompt twice, and no more than 60."""

    def draw(self, index):
        if index >= 60:
            raise IndexError(index)
        return super().draw(index // 2)


class Squares:
    """Like a dataset of reasoning_gym, with entries that JSON does not keep as they are."""

    def __init__(self, size=500):
        self._size = size

    def __len__(self):
        return self._size

    def __getitem__(self, index):
        return {"question": f"{index}^2=", "answer": str(index * index), "metadata": {"pair": (index, index), "set": {index}}}

    def score_answer(self, answer, entry):
        first, second = entry["metadata"]["pair"]
        assert isinstance(entry["metadata"]["pair"], tuple)
        return 1.0 if answer == str(first * second) else 0.01


class Changes(Squares):
    """Has other entries in each process."""

    def __getitem__(self, index):
        return super().__getitem__(index + os.getpid())


class ChangesAnswers(Squares):
    """Has other answers in each process, to the same questions."""

    def __getitem__(self, index):
        return {**super().__getitem__(index), "answer": str(os.getpid())}


class Objects(Squares):
    """Has answers that JSON cannot hold, and that are another text in each process."""

    def __getitem__(self, index):
        return {**super().__getitem__(index), "answer": object()}


class Hangs(Doubles):
    def draw(self, index):
        time.sleep(600)


class Exits(Doubles):
    def draw(self, index):
        os._exit(7)


class Raises(Doubles):
    def draw(self, index):
        raise ValueError("no more numbers")


class RaisesLater(Doubles):
    def draw(self, index):
        if index >= 70:
            raise ValueError(f"no number {index}")
        return super().draw(index)


class Lists(Doubles):
    def draw(self, index):
        return [index]


class NoNumber(Doubles):
    def draw(self, index):
        return {"prompt": str(index), "value": float("nan")}


class NoPrompt(Doubles):
    def draw(self, index):
        return {"question": str(index)}


class Scoreless:
    def draw(self, index):
        return {"prompt": str(index)}


def no_task():
    return 7


class Hints(Doubles):
    """Says after a wrong answer whether it is too small."""

    def reply(self, items):
        return [self._hint(item["answer"], 2 * item["number"]) for item in items]

    @staticmethod
    def _hint(answer, right):
        return None if answer == str(right) else "too small" if int(answer) < right else "too large"
