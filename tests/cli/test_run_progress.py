"""What is shown while a run goes on: rate, time left, loss and sizes, by a clock of the test's."""

import io

import pytest

from dualclust.cli.run_progress import RunProgress
from dualclust.train.config.run import RunConfig, override

RECORD = {"loss": 1.5, "size_min": 8, "size_max": 12, "seconds": 4.0}


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


def config(epochs, *changes):
    return override(RunConfig(), [f"epochs={epochs}", "optim.warmup_epochs=0", *changes])


def run_epochs(shown, clock, epochs, *, seconds=4.0, **more):
    """Epochs of 4 steps of 50 samples."""
    for epoch in epochs:
        for step in range(4):
            clock.now += seconds / 4
            shown.step(50 * (step + 1), 200)
        shown.epoch({**RECORD, "epoch": epoch, **more})


def lines(epochs, *changes, resumed=False, going=()):
    stream, clock = io.StringIO(), Clock()
    with RunProgress(
        "secu on x", config(epochs, *changes), resumed=resumed, stream=stream, clock=clock
    ) as shown:
        for some, more in going:
            run_epochs(shown, clock, some, **more)
    return stream.getvalue().splitlines()


def test_lines_where_there_is_no_terminal():
    """A tenth of the epochs each; the time left is that of the epochs so far, of 4 s each."""
    found = lines(20, going=[(range(1, 21), {})])
    assert len(found) == 10
    assert found[0] == (
        "secu on x: epoch 2/20  loss 1.500  sizes 8-12  50 samples/s  1 min 12 s left"
    )
    assert found[-1] == "secu on x: epoch 20/20  loss 1.500  sizes 8-12  50 samples/s"


def test_features_of_an_encoder_say_rate_and_time_left():
    """Lines at every tenth; the first batch, which warms up, is not timed."""
    stream, clock = io.StringIO(), Clock()
    with RunProgress("graph on x", config(1), stream=stream, clock=clock) as shown:
        for done in range(50, 501, 50):
            clock.now += 10.0 if done == 50 else 1.0
            shown.encoding(done, 500)
    found = stream.getvalue().splitlines()
    assert len(found) == 9
    assert found[0] == "graph on x: features of 100 of 500 samples  50 samples/s  8 s left"
    assert found[-1] == "graph on x: features of 500 of 500 samples"


def test_features_are_a_bar_on_a_terminal():
    stream, clock = Terminal(), Clock()
    with RunProgress("graph on x", config(1), stream=stream, clock=clock) as shown:
        for done in (50, 100, 150):
            clock.now += 1.0
            shown.encoding(done, 500)
    assert "features" in stream.getvalue()
    assert "50 samples/s" in stream.getvalue()


def test_how_steps_run_is_told_where_it_is_news():
    told = "steps run as 'graph', since the device has graphs"
    found = lines(20, going=[((1,), {"steps": told}), (range(2, 21), {})])
    assert found[0] == f"dualclust: {told}"
    assert len(found) == 11


def test_a_resumed_run_counts_what_is_left_and_not_what_was_done():
    found = lines(20, resumed=True, going=[(range(11, 21), {})])
    assert found[0].endswith("epoch 12/20  loss 1.500  sizes 8-12  50 samples/s  32 s left")


def test_beginnings_count():
    changes = ["starts.count=3", "starts.epochs=2"]
    begun = [((1, 2), {"start": number}) for number in range(3)]
    found = lines(10, *changes, going=[*begun, (range(3, 11), {})])
    assert found[0].startswith("secu on x: start 0  epoch 1/10")
    # 14 epochs in all, of which one is over.
    assert found[0].endswith("52 s left")
    assert found[5].startswith("secu on x: start 2  epoch 2/10")
    assert found[5].endswith("32 s left")
    assert found[6].endswith("28 s left")


def test_a_bar_on_a_terminal():
    stream, clock = Terminal(), Clock()
    with RunProgress("secu on x", config(4), stream=stream, clock=clock) as shown:
        run_epochs(shown, clock, [1, 2])
        clock.now += 1
        shown.step(50, 200)
        clock.now += 1
        shown.step(100, 200)
        task = shown.bar.tasks[0]
        assert (task.completed, task.total) == (2.5, 4)
        assert task.fields["state"] == ("epoch 2/4  loss 1.500  sizes 8-12  50 samples/s  6 s left")
    assert "secu on x" in stream.getvalue()
    assert stream.getvalue().count("\n") <= 2


@pytest.mark.parametrize("stream", [io.StringIO, Terminal])
def test_another_rank_shows_nothing(stream):
    stream, clock = stream(), Clock()
    with RunProgress("t", config(2), shown=False, stream=stream, clock=clock) as shown:
        run_epochs(shown, clock, [1, 2])
    assert stream.getvalue() == ""


def test_without_settings_there_is_no_time_left():
    stream, clock = io.StringIO(), Clock()
    with RunProgress("t", None, resumed=True, stream=stream, clock=clock) as shown:
        run_epochs(shown, clock, [7])
    assert stream.getvalue() == "t: epoch 7  loss 1.500  sizes 8-12  50 samples/s\n"
